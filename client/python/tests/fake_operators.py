"""The fake server's operators: validation, inference and plain numpy computation."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from aclnn_client import Tensor, TensorSpec

POOLED_TYPES = ("float32", "float16", "bfloat16")
INVALID = "ACLNN_ERR_PARAM_INVALID"
NULL = "ACLNN_ERR_PARAM_NULLPTR"


class Refusal(Exception):
    """An error of the contract, to be sent as a status with details."""

    def __init__(
        self,
        code: str,
        reason: str,
        message: str,
        status: int = 0,
        parameter: str = "",
        retry_ms: Optional[int] = None,
        **metadata: Any,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.status, self.parameter = code, reason, status, parameter
        self.retry_ms = retry_ms
        self.metadata = {key: str(value) for key, value in metadata.items()}


def invalid(parameter: str, message: str, **metadata: Any) -> Refusal:
    """161002."""
    return Refusal("INVALID_ARGUMENT", INVALID, f"{parameter}: {message}", 161002, parameter, **metadata)


class Parameter(NamedTuple):
    name: str
    kind: str
    output: bool = False
    shape_only: bool = False
    types: Tuple[str, ...] = ()


class Operator(NamedTuple):
    name: str
    parameters: Tuple[Parameter, ...]
    infer: Callable[[Dict[str, Any]], None]  # fills in outputs that are None
    validate: Callable[[Dict[str, Any]], None]
    run: Callable[[Dict[str, Any], Dict[str, Any]], Dict[str, np.ndarray]]


def to_float(array: np.ndarray, dtype: str) -> np.ndarray:
    """float32 values of a float tensor in its storage type."""
    return Tensor(array, "bfloat16").to_float32() if dtype == "bfloat16" else array.astype(np.float32)


def from_float(array: np.ndarray, dtype: str) -> np.ndarray:
    """The storage type's elements, rounded to nearest even."""
    if dtype == "bfloat16":
        return Tensor.from_float32(array).bits
    with np.errstate(over="ignore"):
        return array.astype({"float32": "<f4", "float16": "<f2"}[dtype])


def _windows(size: int, count: int) -> List[Tuple[int, int]]:
    return [(m * size // count, -((-(m + 1) * size) // count)) for m in range(count)]


def _pool_infer(args: Dict[str, Any]) -> None:
    shape = args["self"].shape[:-2] + tuple(args["outputSize"])
    if args["outputOut"] is None:
        args["outputOut"] = TensorSpec(args["self"].dtype, shape)
    if args["indicesOut"] is None:
        args["indicesOut"] = TensorSpec("int64", shape)


def _pool_validate(args: Dict[str, Any]) -> None:
    if args["self"].dtype not in POOLED_TYPES:
        raise invalid("self", f"data type {args['self'].dtype} is not allowed")
    if len(args["self"].shape) not in (3, 4):
        raise invalid("self", f"rank {len(args['self'].shape)} is not 3 or 4")
    if len(args["outputSize"]) != 2 or min(args["outputSize"]) <= 0:
        raise invalid("outputSize", f"{args['outputSize']} is not two positive numbers")
    shape = args["self"].shape[:-2] + tuple(args["outputSize"])
    for name in ("outputOut", "indicesOut"):
        if args[name].shape != shape:
            raise invalid(name, f"shape {args[name].shape} is not {shape}")


def _pool_run(args: Dict[str, Any], data: Dict[str, Any]) -> Dict[str, np.ndarray]:
    spec = args["self"]
    height, width = spec.shape[-2:]
    planes = to_float(data["self"], spec.dtype).reshape(-1, height, width)
    rows, columns = args["outputSize"]
    values = np.empty((len(planes), rows, columns), np.float32)
    indices = np.empty(values.shape, np.int64)
    for r, (top, bottom) in enumerate(_windows(height, rows)):
        for c, (left, right) in enumerate(_windows(width, columns)):
            window = planes[:, top:bottom, left:right].reshape(len(planes), (bottom - top) * (right - left))
            nan = np.isnan(window)
            last_nan = window.shape[1] - 1 - np.argmax(nan[:, ::-1], axis=1)
            where = np.where(nan.any(axis=1), last_nan, np.argmax(np.where(nan, -np.inf, window), axis=1))
            values[:, r, c] = window[np.arange(len(planes)), where]
            across = right - left
            indices[:, r, c] = (top + where // across) * width + left + where % across
    shape = args["outputOut"].shape
    wanted = {"int32": "<i4", "int64": "<i8"}[args["indicesOut"].dtype]
    return {
        "outputOut": from_float(values.reshape(shape), spec.dtype),
        "indicesOut": indices.reshape(shape).astype(wanted),
    }


def _backward_infer(args: Dict[str, Any]) -> None:
    if args["gradInput"] is None:
        args["gradInput"] = TensorSpec(args["self"].dtype, args["self"].shape)


def _backward_validate(args: Dict[str, Any]) -> None:
    gradient, x, indices = args["gradOutput"], args["self"], args["indices"]
    if x.dtype not in POOLED_TYPES or gradient.dtype != x.dtype:
        raise invalid("gradOutput", f"data type {gradient.dtype} with self {x.dtype}")
    if indices.dtype not in ("int32", "int64"):
        raise invalid("indices", f"data type {indices.dtype} is not int32 or int64")
    if len(x.shape) not in (3, 4) or len(gradient.shape) != len(x.shape):
        raise invalid("gradOutput", f"rank {len(gradient.shape)}, self has {len(x.shape)}; 3 or 4 are allowed")
    if indices.shape != gradient.shape:
        raise invalid("indices", f"shape {indices.shape} is not gradOutput's {gradient.shape}")
    if gradient.shape[:-2] != x.shape[:-2]:
        raise invalid("gradOutput", f"N or C of {gradient.shape} is not that of self {x.shape}")
    if args["gradInput"].shape != x.shape:
        raise invalid("gradInput", f"shape {args['gradInput'].shape} is not self's {x.shape}")


def _backward_run(args: Dict[str, Any], data: Dict[str, Any]) -> Dict[str, np.ndarray]:
    spec = args["self"]
    size = spec.shape[-2] * spec.shape[-1]
    indices = np.ascontiguousarray(data["indices"]).astype(np.int64)
    bad = np.flatnonzero((indices.ravel() < 0) | (indices.ravel() >= size))
    if len(bad):
        value = indices.ravel()[bad[0]]
        raise invalid("indices", f"index {value} at {bad[0]} is not below {size}", position=bad[0], value=value)
    gradient = to_float(data["gradOutput"], spec.dtype).reshape(-1, *args["gradOutput"].shape[-2:])
    out = np.zeros((len(gradient), size), np.float32)
    planes = np.arange(len(gradient)).reshape(-1, 1, 1)
    np.add.at(out, (np.broadcast_to(planes, gradient.shape), indices.reshape(gradient.shape)), gradient)
    return {"gradInput": from_float(out.reshape(spec.shape), spec.dtype)}


def _mm_infer(args: Dict[str, Any]) -> None:
    if args["out"] is None:
        args["out"] = TensorSpec(args["self"].dtype, (args["self"].shape[0], args["mat2"].shape[1]))


def _mm_validate(args: Dict[str, Any]) -> None:
    if args["self"].dtype != "float32":
        raise invalid("self", f"data type {args['self'].dtype} is not float32")


def _mm_run(args: Dict[str, Any], data: Dict[str, Any]) -> Dict[str, np.ndarray]:
    return {"out": np.matmul(data["self"], data["mat2"])}


_INDEX_TYPES = ("int32", "int64")
OPERATORS = {
    operator.name: operator
    for operator in (
        Operator(
            "aclnnAdaptiveMaxPool2dBackward",
            (
                Parameter("gradOutput", "TENSOR", types=POOLED_TYPES),
                Parameter("self", "TENSOR", shape_only=True, types=POOLED_TYPES),
                Parameter("indices", "TENSOR", types=_INDEX_TYPES),
                Parameter("gradInput", "TENSOR", output=True, types=POOLED_TYPES),
            ),
            _backward_infer,
            _backward_validate,
            _backward_run,
        ),
        Operator(
            "aclnnAdaptiveMaxPool2d",
            (
                Parameter("self", "TENSOR", types=POOLED_TYPES),
                Parameter("outputSize", "INT_ARRAY"),
                Parameter("outputOut", "TENSOR", output=True, types=POOLED_TYPES),
                Parameter("indicesOut", "TENSOR", output=True, types=_INDEX_TYPES),
            ),
            _pool_infer,
            _pool_validate,
            _pool_run,
        ),
        Operator(
            "aclnnMm",
            (
                Parameter("self", "TENSOR", types=("float32",)),
                Parameter("mat2", "TENSOR", types=("float32",)),
                Parameter("out", "TENSOR", output=True, types=("float32",)),
                Parameter("cubeMathType", "INTEGER"),
            ),
            _mm_infer,
            _mm_validate,
            _mm_run,
        ),
    )
}


def bind(operator: Operator, given: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    """Arguments by name, checked and with outputs inferred. An output given as None is to be inferred."""
    args: Dict[str, Any] = {}
    known = {parameter.name for parameter in operator.parameters}
    for name, value in given:
        if name not in known or name in args:
            raise invalid(name, "unknown or double parameter")
        args[name] = value
    for parameter in operator.parameters:
        if parameter.name not in args:
            message = f"{parameter.name} is missing"
            raise Refusal("INVALID_ARGUMENT", NULL, message, 161001, parameter.name)
        if args[parameter.name] is None and not parameter.output:
            raise invalid(parameter.name, "has no data type")
    operator.infer(args)
    operator.validate(args)
    return args


def view(spec: TensorSpec, storage: Any) -> np.ndarray:
    """A tensor in its storage, as elements of the storage type."""
    dtype = np.dtype({"bfloat16": "<u2"}.get(spec.dtype, spec.dtype))
    if spec.elements == 0:
        return np.empty(spec.shape, dtype)
    strides = [stride * dtype.itemsize for stride in spec.full_strides]
    return np.ndarray(spec.shape, dtype, storage, spec.storage_offset * dtype.itemsize, strides)


def compute(operator: Operator, args: Dict[str, Any], storages: Mapping[str, Any]) -> Dict[str, bytes]:
    """The storages of the outputs."""
    data = {name: view(args[name], storage) for name, storage in storages.items()}
    outputs = {}
    for name, values in operator.run(args, data).items():
        storage = bytearray(args[name].storage_bytes)
        if values.size:
            view(args[name], storage)[...] = values
        outputs[name] = bytes(storage)
    return outputs
