"""What a tensor looks like: data types, TensorSpec, and Tensor for types that numpy doesn't have."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import numpy as np

from . import _messages as messages

# No operator takes more dimensions, and no plan has more.
RANK_MAX = 8

# The names of the contract that are not just the lower-case enum names.
_NAMES = {"FLOAT": "float32", "DOUBLE": "float64", "BF16": "bfloat16"}
_ALIASES = {"fp32": "float32", "float": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}

_NUMBER_BY_NAME: Dict[str, int] = {
    _NAMES.get(name, name.lower()): number for name, number in messages.DATA_TYPE.items() if number
}
_NAME_BY_NUMBER = {number: name for name, number in _NUMBER_BY_NAME.items()}

# How elements lie in memory, for the types that this package can carry. Little endian, as on the wire.
_STORAGE_DTYPES: Dict[str, "np.dtype[Any]"] = {
    name: np.dtype(code)
    for name, code in {
        "float32": "<f4",
        "float16": "<f2",
        "bfloat16": "<u2",
        "int32": "<i4",
        "int64": "<i8",
        "int8": "i1",
        "uint8": "u1",
        "int16": "<i2",
        "uint16": "<u2",
        "uint32": "<u4",
        "uint64": "<u8",
        "float64": "<f8",
        "bool": "?",
        "complex64": "<c8",
        "complex128": "<c16",
    }.items()
}


def torch_module() -> Any:
    """The torch package if the user's program has imported it, else None."""
    return sys.modules.get("torch")


def dtype_name(dtype: Any) -> str:
    """The contract's name of a data type given by name, as a numpy, ml_dtypes or torch type."""
    if isinstance(dtype, str):
        name = _ALIASES.get(dtype.lower(), dtype.lower())
    else:
        torch = torch_module()
        if torch is not None and isinstance(dtype, torch.dtype):
            name = str(dtype).rpartition(".")[2]
        else:
            try:
                name = np.dtype(dtype).name
            except TypeError:
                raise TypeError(f"{dtype!r} is not a data type") from None
    if name not in _NUMBER_BY_NAME:
        raise TypeError(f"data type {name} is not supported; known are: {', '.join(sorted(_NUMBER_BY_NAME))}")
    return name


def storage_dtype(name: str) -> "np.dtype[Any]":
    """The numpy type under which elements of the named type are stored."""
    dtype = _STORAGE_DTYPES.get(name)
    if dtype is None:
        raise TypeError(f"this client cannot carry data of type {name}, it can only describe it")
    return dtype


def contiguous_strides(shape: Sequence[int]) -> Tuple[int, ...]:
    """Row-major strides, in elements."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """The description of a tensor without its data.

    Args:
      dtype: a name ("float32", "bfloat16", ...) or a numpy, ml_dtypes or torch type.
      shape: the sizes of the dimensions.
      strides: steps between elements along each dimension, counted in elements; None for row-major.
      storage_offset: where the first element lies in the storage, in elements.
      storage_elements: the size of the storage, in elements; 0 for just what the view spans.
      format: "ND", "NCHW" or "NCL".
    """

    dtype: str
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]] = None
    storage_offset: int = 0
    storage_elements: int = 0
    format: str = "ND"

    def __init__(
        self,
        dtype: Any,
        shape: Sequence[int],
        strides: Optional[Sequence[int]] = None,
        storage_offset: int = 0,
        storage_elements: int = 0,
        format: str = "ND",
    ) -> None:
        put = object.__setattr__
        put(self, "dtype", dtype_name(dtype))
        put(self, "shape", tuple(int(size) for size in shape))
        put(self, "strides", None if strides is None else tuple(int(stride) for stride in strides))
        put(self, "storage_offset", int(storage_offset))
        put(self, "storage_elements", int(storage_elements))
        put(self, "format", str(format).upper())
        messages.enum_number(messages.FORMAT, self.format, "format")

    @staticmethod
    def of(value: Any) -> "TensorSpec":
        """How `value` (a numpy array, a torch tensor, a Tensor or a TensorSpec) would be sent."""
        from ._arrays import describe

        return describe(value)

    @property
    def elements(self) -> int:
        """The number of elements of the view."""
        return math.prod(self.shape)

    @property
    def full_strides(self) -> Tuple[int, ...]:
        """The strides, also where they were left out."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    @property
    def span(self) -> int:
        """The number of storage elements that the view needs, from the storage's start."""
        if self.elements == 0:
            return 0
        steps = ((size - 1) * stride for size, stride in zip(self.shape, self.full_strides))
        return self.storage_offset + 1 + sum(steps)

    @property
    def storage_bytes(self) -> int:
        """The number of bytes that travel for this tensor."""
        return max(self.storage_elements, self.span) * storage_dtype(self.dtype).itemsize


class Tensor:
    """A tensor of a type that numpy doesn't have, as raw bits: `Tensor(bits_uint16, "bfloat16")`.

    Args:
      bits: a numpy array whose elements have the size of the data type's.
      dtype: the data type, as in TensorSpec.
    """

    __slots__ = ("bits", "dtype")

    def __init__(self, bits: Any, dtype: Any) -> None:
        self.dtype = dtype_name(dtype)
        self.bits: "np.ndarray[Any, Any]" = np.asarray(bits)
        if self.bits.dtype.itemsize != storage_dtype(self.dtype).itemsize or self.bits.dtype.hasobject:
            raise TypeError(f"bits of type {self.bits.dtype} cannot be the bits of a {self.dtype} tensor")

    @property
    def shape(self) -> Tuple[int, ...]:
        """The sizes of the dimensions."""
        return self.bits.shape

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.dtype!r})"

    @staticmethod
    def from_float32(values: Any) -> "Tensor":
        """A bfloat16 tensor of float32 values, rounded to nearest even; NaN stays NaN."""
        array = np.asarray(values, dtype=np.float32)
        words = np.ascontiguousarray(array).view(np.uint32)
        rounded = (words + (((words >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
        quiet = (words >> np.uint32(16)) | np.uint32(0x40)
        bits = np.where(np.isnan(array), quiet, rounded).astype(np.uint16)
        return Tensor(bits.reshape(array.shape), "bfloat16")

    def to_float32(self) -> "np.ndarray[Any, Any]":
        """The values of a bfloat16 tensor as float32; exact."""
        if self.dtype != "bfloat16":
            raise TypeError(f"to_float32 is for bfloat16, this tensor is {self.dtype}")
        return (self.bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def spec_to_desc(spec: Optional[TensorSpec]) -> Dict[str, Any]:
    """A TensorDesc; an empty one for None, an output that the operator is to infer."""
    if spec is None:
        return {}
    return {
        "data_type": _NUMBER_BY_NAME[spec.dtype],
        "shape": spec.shape,
        "strides": spec.strides or (),
        "storage_offset": spec.storage_offset,
        "format": messages.FORMAT[spec.format] if spec.format != "ND" else 0,
        "storage_elements": spec.storage_elements,
    }


def desc_to_spec(desc: Mapping[str, Any]) -> TensorSpec:
    """The TensorSpec of a TensorDesc; raises ValueError or TypeError for one that makes no sense."""
    number = desc["data_type"]
    if number not in _NAME_BY_NUMBER:
        raise ValueError(f"data type number {number} is not known")
    shape = tuple(desc["shape"])
    strides: Optional[Tuple[int, ...]] = tuple(desc["strides"])
    if strides and len(strides) != len(shape):
        raise ValueError(f"{len(strides)} strides for {len(shape)} dimensions")
    if not strides or strides == contiguous_strides(shape):
        strides = None
    # A format that this client doesn't know is no reason to refuse a reply: it says nothing about the layout.
    format_name = messages.enum_name(messages.FORMAT, desc["format"] or messages.FORMAT["ND"])
    known = format_name.upper() if format_name.upper() in messages.FORMAT else "ND"
    return TensorSpec(
        _NAME_BY_NUMBER[number], shape, strides, desc["storage_offset"], desc["storage_elements"], known
    )


def data_type_name(number: int) -> str:
    """The name of a data type of the contract, or its number as text."""
    return _NAME_BY_NUMBER.get(number, str(number))
