"""Adaptive max pooling for torch whose gradient (and, if wanted, forward pass) is computed by an aclnn-server.

    pool = aclnn_client.torch.AdaptiveMaxPool2d((7, 7), client=client)
    pool(x).sum().backward()
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Optional, Sequence, Tuple, Union

import torch

from ._client import Client
from ._errors import AclnnError
from ._operations import resolve_output_size
from ._tensors import TensorSpec

__all__ = ["AdaptiveMaxPool2d", "adaptive_max_pool2d"]

OutputSize = Union[int, Sequence[Optional[int]]]

# torch has no fp16 kernel on the CPU, and its bf16 kernel rounds the indices to bf16: the pooling of these
# types is done on the same values in fp32, which is exact.
_WIDENED = (torch.float16, torch.bfloat16)


@dataclasses.dataclass(frozen=True)
class _Choices:
    """Where things are computed, and by whom."""

    client: Client
    forward: str
    on_error: str

    def __post_init__(self) -> None:
        for name, allowed in (("forward", ("local", "remote")), ("on_error", ("raise", "local"))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}, it can be: {', '.join(allowed)}")

    def failed(self, what: str, error: AclnnError) -> None:
        """Raises the error, or lets the caller go on with a local computation."""
        if self.on_error == "raise":
            raise error
        warnings.warn(f"{what} was computed locally: {error}", RuntimeWarning, stacklevel=3)


def _layout(shape: Sequence[int], like: torch.Tensor) -> Optional[TensorSpec]:
    """The description of a result that keeps channels_last; None for a contiguous one."""
    if like.dim() != 4 or like.is_contiguous() or not like.is_contiguous(memory_format=torch.channels_last):
        return None
    _, channels, height, width = shape
    return TensorSpec(like.dtype, shape, (channels * height * width, 1, width * channels, channels))


def _forward_locally(x: torch.Tensor, size: Tuple[int, ...]) -> Tuple[torch.Tensor, torch.Tensor]:
    wide = x.float() if x.dtype in _WIDENED and x.device.type == "cpu" else x
    out, indices = torch.nn.functional.adaptive_max_pool2d(wide, size, return_indices=True)
    return out.to(x.dtype), indices


def _backward_locally(
    grad_output: torch.Tensor, shape: Sequence[int], indices: torch.Tensor
) -> torch.Tensor:
    wide = grad_output.float() if grad_output.dtype in _WIDENED else grad_output
    # The kernel uses only the shape of its input, so one element stands for all.
    stand_in = wide.new_zeros(1).expand(shape)
    return torch.ops.aten.adaptive_max_pool2d_backward(wide, stand_in, indices).to(grad_output.dtype)


class _Backward(torch.autograd.Function):
    """gradOutput, indices -> gradInput."""

    @staticmethod
    def forward(
        ctx: Any, grad_output: torch.Tensor, indices: torch.Tensor, like: TensorSpec, layout: Any, choices: _Choices
    ) -> torch.Tensor:
        try:
            return choices.client.adaptive_max_pool2d_backward(grad_output, like, indices, grad_input=layout)
        except AclnnError as error:
            choices.failed("the gradient of adaptive_max_pool2d", error)
        return _backward_locally(grad_output, like.shape, indices)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(
            "the gradient that aclnn_client computes for adaptive_max_pool2d can't be differentiated again; "
            "use torch.nn.functional.adaptive_max_pool2d for second derivatives"
        )


class _Pool(torch.autograd.Function):
    """x -> out, indices."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, size: Tuple[int, ...], choices: _Choices
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        out, indices = _Pool._pool(x, size, choices)
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        ctx.like = TensorSpec(x.dtype, x.shape)
        ctx.layout = _layout(x.shape, x)
        ctx.choices = choices
        return out, indices

    @staticmethod
    def _pool(x: torch.Tensor, size: Tuple[int, ...], choices: _Choices) -> Tuple[torch.Tensor, torch.Tensor]:
        if choices.forward == "remote":
            try:
                out, indices = choices.client.adaptive_max_pool2d(x, size)
            except AclnnError as error:
                choices.failed("adaptive_max_pool2d", error)
            else:
                # Keeps channels_last, as torch does; pooled tensors are small.
                kept = torch.channels_last if _layout(x.shape, x) else torch.contiguous_format
                return out.contiguous(memory_format=kept), indices.contiguous(memory_format=kept)
        return _forward_locally(x, size)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor, grad_indices: Any) -> Any:
        (indices,) = ctx.saved_tensors
        return _Backward.apply(grad_output, indices, ctx.like, ctx.layout, ctx.choices), None, None


def adaptive_max_pool2d(
    x: torch.Tensor,
    output_size: OutputSize,
    return_indices: bool = False,
    *,
    client: Client,
    forward: str = "local",
    on_error: str = "raise",
) -> Any:
    """torch.nn.functional.adaptive_max_pool2d with a remote gradient.

    Args:
      x: a tensor of shape (C, H, W) or (N, C, H, W).
      output_size: one number, or a pair in which None stands for the input's size.
      return_indices: whether to return the indices too.
      client: a Client.
      forward: "local" computes the forward pass with torch, "remote" on the server.
      on_error: "raise" raises AclnnError if the server can't do its part, "local" warns and uses torch instead.
    """
    return _pool(x, output_size, return_indices, _Choices(client, forward, on_error))


def _pool(x: torch.Tensor, output_size: OutputSize, return_indices: bool, choices: _Choices) -> Any:
    out, indices = _Pool.apply(x, resolve_output_size(output_size, x.shape), choices)
    return (out, indices) if return_indices else out


class AdaptiveMaxPool2d(torch.nn.AdaptiveMaxPool2d):
    """A drop-in for torch.nn.AdaptiveMaxPool2d whose gradient is computed by an aclnn-server.

    Args:
      output_size: one number, or a pair in which None stands for the input's size.
      return_indices: whether calling returns the indices too.
      client: a Client.
      forward: "local" computes the forward pass with torch, "remote" on the server.
      on_error: "raise" raises AclnnError if the server can't do its part, "local" warns and uses torch instead.
    """

    def __init__(
        self,
        output_size: OutputSize,
        return_indices: bool = False,
        *,
        client: Client,
        forward: str = "local",
        on_error: str = "raise",
    ) -> None:
        super().__init__(output_size, return_indices)
        self._choices = _Choices(client, forward, on_error)

    def forward(self, input: torch.Tensor) -> Any:
        """Pools the input."""
        return _pool(input, self.output_size, self.return_indices, self._choices)

    def extra_repr(self) -> str:
        """What stands in the module's repr."""
        choices = self._choices
        return (
            f"{super().extra_repr()}, client={choices.client!r}, forward={choices.forward!r}, "
            f"on_error={choices.on_error!r}"
        )
