"""Between the user's arrays and the storages that travel.

`describe` says how an array would be sent, `storage_of` gives the bytes for such a description (without a
copy wherever the array already lies so), `build` makes a result out of the bytes that came.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Iterable, Optional, Tuple

import numpy as np

from ._errors import AclnnArgumentError
from ._tensors import Tensor, TensorSpec, contiguous_strides, dtype_name, storage_dtype, torch_module

Array = Any  # numpy.ndarray, torch.Tensor, Tensor

# A view whose storage is more than this many times its elements is packed before it is sent.
_SPAN_FACTOR_MAX = 2


@dataclasses.dataclass(frozen=True)
class Flavour:
    """What results are made of: torch tensors (on which device), raw Tensors where numpy has no type, numpy."""

    torch: bool = False
    device: Any = None
    raw: bool = False


def flavour_of(values: Iterable[Any]) -> Flavour:
    """torch if any input is, else raw if any is a Tensor, else numpy."""
    raw = False
    torch = torch_module()
    for value in values:
        if torch is not None and isinstance(value, torch.Tensor):
            return Flavour(torch=True, device=value.device)
        raw = raw or isinstance(value, Tensor)
    return Flavour(raw=raw)


def _from_torch(torch: Any, value: Any) -> Tuple[str, "np.ndarray[Any, Any]"]:
    """The type's name and a numpy view of a torch tensor (a copy of one that lies on a device)."""
    name = dtype_name(value.dtype)
    if value.layout != torch.strided:
        raise TypeError(f"a tensor of layout {value.layout} can't be sent, only strided ones")
    plain = value.detach().cpu()
    if plain.dtype == torch.bfloat16:
        plain = plain.view(torch.int16)
    elif plain.dtype.is_complex or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    return name, plain.numpy()


def _raw(value: Array) -> Tuple[str, "np.ndarray[Any, Any]"]:
    """The type's name and a numpy array of the storage type that shows the value's elements."""
    torch = torch_module()
    if isinstance(value, Tensor):
        name, array = value.dtype, value.bits
    elif torch is not None and isinstance(value, torch.Tensor):
        name, array = _from_torch(torch, value)
    elif isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array has no place for its mask in a tensor; fill it first")
    elif isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        name = dtype_name(array.dtype)
    else:
        raise TypeError(f"a {type(value).__name__} is not a tensor; give a numpy array or a torch tensor")
    wire_order = array.dtype.newbyteorder("<")
    if array.dtype != wire_order:
        array = array.astype(wire_order)
    return name, array.view(storage_dtype(name))


def _element_strides(array: "np.ndarray[Any, Any]") -> Optional[Tuple[int, ...]]:
    """The array's strides in elements, those of dims of size 1 replaced; None if they can't be told so."""
    strides = []
    natural = contiguous_strides(array.shape)
    for size, stride, plain in zip(array.shape, array.strides, natural):
        if size <= 1:
            strides.append(plain)
        elif stride < 0 or stride % array.itemsize:
            return None
        else:
            strides.append(stride // array.itemsize)
    return tuple(strides)


def describe(value: Any) -> TensorSpec:
    """How the value would be sent: as it lies, if that is reasonable, else packed."""
    if isinstance(value, TensorSpec):
        return value
    name, array = _raw(value)
    if array.flags.c_contiguous:
        return TensorSpec(name, array.shape)
    # What is repeated by stride 0 stays so: packing an expanded tensor could multiply its size.
    expanded = [size > 1 and stride == 0 for size, stride in zip(array.shape, array.strides)]
    packed_shape = [1 if repeats else size for size, repeats in zip(array.shape, expanded)]
    strides = _element_strides(array)
    if strides is not None:
        span = 1 + sum((size - 1) * stride for size, stride in zip(array.shape, strides))
        if span <= _SPAN_FACTOR_MAX * math.prod(packed_shape):
            return TensorSpec(name, array.shape, strides)
    if not any(expanded):
        return TensorSpec(name, array.shape)
    packed = contiguous_strides(packed_shape)
    return TensorSpec(
        name, array.shape, [0 if repeats else stride for repeats, stride in zip(expanded, packed)]
    )


def _lies_as(array: "np.ndarray[Any, Any]", spec: TensorSpec) -> bool:
    """Whether the array's own memory, from its first element on, is the storage that the spec describes."""
    if spec.storage_offset or spec.storage_elements > spec.span:
        return False
    return all(
        size <= 1 or stride == wanted * array.itemsize
        for size, stride, wanted in zip(array.shape, array.strides, spec.full_strides)
    )


def _view(spec: TensorSpec, storage: Any) -> "np.ndarray[Any, Any]":
    """The tensor in its storage; raises ValueError if it doesn't lie inside."""
    dtype = storage_dtype(spec.dtype)
    if spec.elements == 0:
        return np.empty(spec.shape, dtype)
    # numpy doesn't hold strides against a buffer without bytes: it would show memory of somebody else.
    if len(memoryview(storage)) < spec.span * dtype.itemsize:
        raise ValueError(f"{spec.span} elements don't fit into {len(memoryview(storage))} bytes")
    strides = tuple(stride * dtype.itemsize for stride in spec.full_strides)
    return np.ndarray(spec.shape, dtype, storage, spec.storage_offset * dtype.itemsize, strides)


def may_overlap(spec: TensorSpec) -> bool:
    """False if no two elements share a place in the storage."""
    reach = 0
    dims = [(stride, size) for stride, size in zip(spec.full_strides, spec.shape) if size > 1]
    for stride, size in sorted(dims):
        if stride <= reach:
            return True
        reach += (size - 1) * stride
    return False


def _without_repeats(
    array: "np.ndarray[Any, Any]", spec: TensorSpec
) -> Tuple["np.ndarray[Any, Any]", TensorSpec]:
    """The same storage, with dimensions in which both are expanded cut down to one."""
    repeats = [stride == 0 == wanted for stride, wanted in zip(array.strides, spec.full_strides)]
    once = array[tuple(slice(0, 1) if repeated else slice(None) for repeated in repeats)]
    return once, dataclasses.replace(spec, shape=once.shape, strides=spec.full_strides)


def storage_of(name: str, value: Array, spec: TensorSpec) -> memoryview:
    """The bytes to send for a tensor argument: the value's elements, laid out as the spec says.

    The memory is the value's own if it lies so already. `name` is the parameter's, for the message of the
    AclnnArgumentError that a value of another type or shape raises.
    """
    given, array = _raw(value)
    if given != spec.dtype or array.shape != spec.shape:
        raise AclnnArgumentError.invalid(
            name, f"{name} is {given}{list(array.shape)}, the plan says {spec.dtype}{list(spec.shape)}"
        )
    if array.size == 0:
        return memoryview(bytes(spec.storage_bytes))
    if _lies_as(array, spec):
        flat = np.lib.stride_tricks.as_strided(array, (spec.span,), (array.itemsize,), writeable=False)
        return memoryview(flat.view(np.uint8))
    once, layout = _without_repeats(array, spec)
    if may_overlap(layout):
        raise AclnnArgumentError.invalid(
            name,
            f"{name}: elements share memory in the plan (strides {list(spec.full_strides)}), but not in the "
            "array that was given",
        )
    storage = np.zeros(spec.storage_bytes, np.uint8)
    _view(layout, storage)[...] = once
    return memoryview(storage)


@functools.lru_cache(maxsize=None)
def _numpy_bfloat16() -> Any:
    """The numpy type that ml_dtypes registers, or None without that package."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes.bfloat16


def _to_torch(torch: Any, name: str, array: "np.ndarray[Any, Any]", device: Any) -> Any:
    if name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(array).to(device)


def build(spec: TensorSpec, storage: Any, flavour: Flavour) -> Array:
    """A result out of its storage, which it keeps; raises ValueError if the spec doesn't fit the storage."""
    array = _view(spec, storage)
    if flavour.torch:
        return _to_torch(torch_module(), spec.dtype, array, flavour.device)
    if spec.dtype != "bfloat16":
        return array
    numpy_type = None if flavour.raw else _numpy_bfloat16()
    return Tensor(array, "bfloat16") if numpy_type is None else array.view(numpy_type)
