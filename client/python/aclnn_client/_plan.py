"""Requests of phase 1 and the plans that answer them."""

from __future__ import annotations

import dataclasses
import operator
import os
import threading
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import grpc

from . import _messages as messages
from ._arrays import describe, may_overlap
from ._errors import AclnnError, reply_error
from ._tensors import RANK_MAX, TensorSpec, desc_to_spec, spec_to_desc
from ._wire import encode

Outputs = Union[Mapping[str, Any], Iterable[str]]
_INT64 = range(-(1 << 63), 1 << 63)


@dataclasses.dataclass(frozen=True)
class TensorArgument:
    """A tensor argument of a request. spec is None for an output that the operator is to infer."""

    name: str
    spec: Optional[TensorSpec]
    output: bool


@dataclasses.dataclass(frozen=True)
class Request:
    """A GetWorkspaceSizeRequest. A tensor's position in `tensors` is its index on the wire."""

    operator_name: str
    tensors: Tuple[TensorArgument, ...]
    attributes: Tuple[Tuple[str, Dict[str, Any]], ...]
    target: int
    numerics: int
    repeatable: bool = False
    ttl_ms: int = 0

    def fields(self) -> Dict[str, Any]:
        """The message as a dict."""
        arguments: List[Dict[str, Any]] = [
            {"name": tensor.name, "tensor": spec_to_desc(tensor.spec)} for tensor in self.tensors
        ]
        arguments += [{"name": name, **value} for name, value in self.attributes]
        return {
            "operator_name": self.operator_name,
            "arguments": arguments,
            "target": self.target,
            "numerics": self.numerics,
            "repeatable": self.repeatable,
            "ttl_ms": self.ttl_ms,
        }

    def encode(self) -> bytes:
        """The message as bytes."""
        return encode(messages.GetWorkspaceSizeRequest, self.fields())


def _integer(name: str, value: Any) -> int:
    number = operator.index(value)
    if number not in _INT64:
        raise ValueError(f"{name} is {number}, which doesn't fit in 64 bits")
    return number


def _attribute(name: str, value: Any) -> Dict[str, Any]:
    """The oneof of an Argument that fits the Python value."""
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, float):
        return {"real": value}
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):
        return {"integer": _integer(name, value)}
    try:
        return {"int_array": {"values": [_integer(name, item) for item in value]}}
    except TypeError:
        raise TypeError(
            f"attribute {name} is {value!r}; it can be a bool, int, float, str or a sequence of int"
        ) from None


def make_request(
    operator_name: str,
    inputs: Mapping[str, Any],
    outputs: Outputs,
    attributes: Optional[Mapping[str, Any]],
    target: int,
    numerics: int,
) -> Request:
    """A request for these arguments; None as an input or attribute leaves the parameter out."""
    tensors = [
        TensorArgument(name, describe(value), False) for name, value in inputs.items() if value is not None
    ]
    wanted = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs)
    for name, value in wanted.items():
        tensors.append(TensorArgument(name, None if value is None else describe(value), True))
    given = [(name, _attribute(name, v)) for name, v in (attributes or {}).items() if v is not None]
    return Request(operator_name, tuple(tensors), tuple(given), target, numerics)


@dataclasses.dataclass(frozen=True)
class PlannedTensor:
    """A tensor argument as the server planned it.

    Attributes:
      name: the operator's parameter.
      direction: "input" or "output".
      spec: the description as normalised or inferred.
      storage_bytes: what travels if `transferred` is true.
      transferred: False for an input of which the operator reads only the shape.
    """

    name: str
    direction: str
    spec: TensorSpec
    storage_bytes: int
    transferred: bool


def _layout(spec: TensorSpec) -> Tuple[Any, ...]:
    """What makes two specs the same view of the same storage; strides along single elements say nothing."""
    steps = [stride for stride, size in zip(spec.full_strides, spec.shape) if size > 1]
    return spec.dtype, spec.shape, steps, spec.storage_offset, spec.storage_bytes


def _check_spec(spec: TensorSpec) -> None:
    """Raises ValueError for a view that doesn't fit a countable storage, TypeError for a foreign type."""
    if len(spec.shape) > RANK_MAX:
        raise ValueError(f"{len(spec.shape)} dimensions; at most {RANK_MAX} are possible")
    places = (*spec.shape, *spec.full_strides, spec.storage_offset, spec.storage_elements)
    if min(places) < 0:
        raise ValueError("negative sizes, strides or places")
    if 0 < spec.storage_elements < spec.span:
        raise ValueError(f"the view needs {spec.span} elements of a storage of {spec.storage_elements}")
    if spec.storage_bytes not in _INT64:
        raise ValueError("more bytes than can be counted")


def _check_planned(planned: PlannedTensor, asked: TensorArgument) -> None:
    """Raises ValueError or TypeError if the plan contradicts itself or the request: everything relies on it."""
    spec = planned.spec
    _check_spec(spec)
    if planned.storage_bytes != spec.storage_bytes:
        raise ValueError(f"{planned.storage_bytes} bytes, but {spec.storage_bytes} are described")
    if asked.output and not planned.transferred:
        raise ValueError("an output is not transferred")
    if asked.output and spec.elements and may_overlap(spec):
        raise ValueError("elements of an output share a place")
    wanted = TensorSpec(spec.dtype, spec.shape) if asked.spec is None else asked.spec
    if _layout(spec) != _layout(wanted):
        what = "contiguous, though it was left to the operator" if asked.spec is None else "as in the request"
        raise ValueError(f"not {what}")


def _planned_tensors(reply: Mapping[str, Any], request: Request) -> Tuple[PlannedTensor, ...]:
    """The tensors of a plan that is consistent in itself and answers the request."""
    entries = [
        (entry["name"], messages.enum_name(messages.DIRECTION, entry["direction"]))
        for entry in reply["tensors"]
    ]
    if entries != [(tensor.name, "output" if tensor.output else "input") for tensor in request.tensors]:
        raise reply_error("the plan has other tensors than the request")
    tensors = []
    for entry, (name, direction), asked in zip(reply["tensors"], entries, request.tensors):
        try:
            spec = desc_to_spec(entry["desc"] or {})
            planned = PlannedTensor(name, direction, spec, entry["storage_bytes"], entry["transferred"])
            _check_planned(planned, asked)
        except (KeyError, ValueError, TypeError) as error:
            raise reply_error(f"the plan of {name}: {error}") from error
        tensors.append(planned)
    return tuple(tensors)


class PlanState:
    """What one reply of phase 1 says; immutable."""

    __slots__ = (
        "executor",
        "workspace_size",
        "expires_at",
        "target",
        "numerics",
        "tensors",
        "max_chunk_bytes",
        "accept_codecs",
    )

    def __init__(self, reply: Mapping[str, Any], request: Request) -> None:
        self.executor = bytes(reply["executor"])
        self.workspace_size: int = reply["workspace_size"]
        self.expires_at: float = reply["expire_unix_ms"] / 1000
        self.target = messages.enum_name(messages.TARGET, reply["target"])
        self.numerics = messages.enum_name(messages.NUMERICS, reply["numerics"])
        self.tensors = _planned_tensors(reply, request)
        self.max_chunk_bytes: int = reply["max_chunk_bytes"]
        self.accept_codecs = tuple(reply["accept_codecs"])


# Held for a moment by whoever looks at or changes a plan's state; one for all plans, so that a fork can hold it
# and no child finds it locked by a thread that it doesn't have.
_states_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_states_lock.acquire,
        after_in_parent=_states_lock.release,
        after_in_child=_states_lock.release,
    )


class Plan:
    """The outcome of phase 1: an executor on the server, and what to bring for phase 2.

    A plan may be used by several threads. If the server forgot its executor, the client makes a new one for
    the same request and the attributes change accordingly.
    """

    def __init__(self, request: Request, state: PlanState) -> None:
        self._request = request
        self._state = state
        self._destroyed = False

    @property
    def operator_name(self) -> str:
        """CANN's name of the operator."""
        return self._request.operator_name

    @property
    def repeatable(self) -> bool:
        """Whether the executor may be used more than once."""
        return self._request.repeatable

    @property
    def executor(self) -> bytes:
        """The handle that names the executor on the server."""
        return self._state.executor

    @property
    def workspace_size(self) -> int:
        """The bytes of workspace that the plan needs on its target; the server provides them."""
        return self._state.workspace_size

    @property
    def target(self) -> str:
        """Where the job will run: "cpu" or "npu"."""
        return self._state.target

    @property
    def numerics(self) -> str:
        """Which numerics was granted: "device", "deterministic" or "exact"."""
        return self._state.numerics

    @property
    def expires_at(self) -> float:
        """When the server will forget the executor, in seconds since 1970 by the server's clock."""
        return self._state.expires_at

    @property
    def tensors(self) -> Tuple[PlannedTensor, ...]:
        """The tensor arguments, in the order of the request."""
        return self._state.tensors

    def __repr__(self) -> str:
        return (
            f"Plan({self.operator_name!r}, workspace_size={self.workspace_size}, target={self.target!r}, "
            f"numerics={self.numerics!r}, repeatable={self.repeatable})"
        )

    def snapshot(self) -> PlanState:
        """The present state; raises AclnnError if the plan was destroyed."""
        with _states_lock:
            if self._destroyed:
                raise AclnnError(
                    f"this plan of {self.operator_name} was destroyed",
                    code=grpc.StatusCode.FAILED_PRECONDITION,
                    reason="EXECUTOR_CONSUMED",
                )
            return self._state

    def replace(self, old: PlanState, new: PlanState) -> bool:
        """Puts `new` in the place of `old`. False if another thread was first or the plan was destroyed."""
        with _states_lock:
            if self._state is not old or self._destroyed:
                return False
            self._state = new
            return True

    def mark_destroyed(self) -> bytes:
        """Ends the use of this plan and returns the handle to give back."""
        with _states_lock:
            self._destroyed = True
            return self._state.executor
