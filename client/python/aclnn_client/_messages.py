"""The messages of the contract, as tables for `_wire`.

They say the same as proto/aclnn/v1/operator_service.proto, error_details.proto and grpc.health.v1; a test
compares them with the descriptor sets of those files.
"""

from __future__ import annotations

from typing import Dict, Optional

from ._wire import Field, Message

# Enum values by their names without the enum's prefix.
DATA_TYPE: Dict[str, int] = {
    name: number
    for number, name in enumerate(
        "UNSPECIFIED FLOAT FLOAT16 BF16 INT32 INT64 INT8 UINT8 INT16 UINT16 UINT32 UINT64 DOUBLE BOOL STRING "
        "COMPLEX64 COMPLEX128 INT4 UINT1 COMPLEX32 HIFLOAT8 FLOAT8_E5M2 FLOAT8_E4M3FN FLOAT8_E8M0 FLOAT6_E3M2 "
        "FLOAT6_E2M3 FLOAT4_E2M1 FLOAT4_E1M2".split()
    )
}
FORMAT = {"UNSPECIFIED": 0, "ND": 1, "NCHW": 2, "NCL": 3, "NHWC": 4}
TARGET = {"UNSPECIFIED": 0, "AUTO": 1, "CPU": 2, "NPU": 3}
NUMERICS = {"UNSPECIFIED": 0, "DEVICE": 1, "DETERMINISTIC": 2, "EXACT": 3}
CODEC = {"NONE": 0, "LZ4_BLOCK": 1, "NONZERO_WORDS": 16}
DIRECTION = {"UNSPECIFIED": 0, "INPUT": 1, "OUTPUT": 2}
PARAMETER_KIND = {
    "UNSPECIFIED": 0,
    "TENSOR": 1,
    "INT_ARRAY": 2,
    "INTEGER": 3,
    "REAL": 4,
    "BOOLEAN": 5,
    "TEXT": 6,
}
EFFECT = {"UNSPECIFIED": 0, "PURE": 1}
SERVING_STATUS = {"UNKNOWN": 0, "SERVING": 1, "NOT_SERVING": 2, "SERVICE_UNKNOWN": 3}

# By the full name of the enum, with the prefix of its values.
ENUMS = {
    "aclnn.v1.DataType": ("DATA_TYPE_", DATA_TYPE),
    "aclnn.v1.Format": ("FORMAT_", FORMAT),
    "aclnn.v1.Target": ("TARGET_", TARGET),
    "aclnn.v1.Numerics": ("NUMERICS_", NUMERICS),
    "aclnn.v1.Codec": ("CODEC_", CODEC),
    "aclnn.v1.Direction": ("DIRECTION_", DIRECTION),
    "aclnn.v1.ParameterKind": ("PARAMETER_KIND_", PARAMETER_KIND),
    "aclnn.v1.Effect": ("EFFECT_", EFFECT),
    "grpc.health.v1.HealthCheckResponse.ServingStatus": ("", SERVING_STATUS),
}

MESSAGES: Dict[str, Message] = {}


def _message(name: str, *fields: Field, package: str = "aclnn.v1.") -> Message:
    return MESSAGES.setdefault(package + name, Message(package + name, fields))


def _one(number: int, name: str, kind: object, oneof: Optional[str] = None, repeated: bool = False) -> Field:
    """A field; `kind` is a scalar's name, a Message, or an enum's table."""
    if isinstance(kind, Message):
        return Field(number, name, "message", message=kind, oneof=oneof, repeated=repeated)
    if isinstance(kind, dict):
        enum = next(full for full, (_, table) in ENUMS.items() if table is kind)
        return Field(number, name, "enum", enum=enum, oneof=oneof, repeated=repeated)
    return Field(number, name, str(kind), oneof=oneof, repeated=repeated)


def _many(number: int, name: str, kind: object) -> Field:
    return _one(number, name, kind, repeated=True)


TensorDesc = _message(
    "TensorDesc",
    _one(1, "data_type", DATA_TYPE),
    _many(2, "shape", "int64"),
    _many(3, "strides", "int64"),
    _one(4, "storage_offset", "int64"),
    _one(5, "format", FORMAT),
    _one(6, "storage_elements", "int64"),
)
IntArray = _message("IntArray", _many(1, "values", "int64"))
Argument = _message(
    "Argument",
    _one(1, "name", "string"),
    _one(2, "tensor", TensorDesc, "value"),
    _one(3, "int_array", IntArray, "value"),
    _one(4, "integer", "int64", "value"),
    _one(5, "real", "double", "value"),
    _one(6, "boolean", "bool", "value"),
    _one(7, "text", "string", "value"),
)
GetWorkspaceSizeRequest = _message(
    "GetWorkspaceSizeRequest",
    _one(1, "operator_name", "string"),
    _many(2, "arguments", Argument),
    _one(3, "target", TARGET),
    _one(4, "numerics", NUMERICS),
    _one(5, "repeatable", "bool"),
    _one(6, "ttl_ms", "int64"),
)
TensorPlan = _message(
    "TensorPlan",
    _one(1, "name", "string"),
    _one(2, "direction", DIRECTION),
    _one(3, "desc", TensorDesc),
    _one(4, "storage_bytes", "int64"),
    _one(5, "transferred", "bool"),
)
GetWorkspaceSizeResponse = _message(
    "GetWorkspaceSizeResponse",
    _one(1, "executor", "bytes"),
    _one(2, "workspace_size", "uint64"),
    _one(3, "ttl_ms", "int64"),
    _one(4, "expire_unix_ms", "int64"),
    _one(5, "target", TARGET),
    _one(6, "numerics", NUMERICS),
    _many(7, "tensors", TensorPlan),
    _one(8, "max_chunk_bytes", "int64"),
    _many(9, "accept_codecs", CODEC),
)
ExecuteBegin = _message(
    "ExecuteBegin",
    _one(1, "executor", "bytes", "plan"),
    _one(2, "request", GetWorkspaceSizeRequest, "plan"),
    _one(3, "workspace_size", "uint64"),
    _many(4, "accept_codecs", CODEC),
    _one(5, "max_chunk_bytes", "int64"),
)
TensorChunk = _message(
    "TensorChunk",
    _one(1, "tensor_index", "uint32"),
    _one(2, "offset", "int64"),
    _one(3, "codec", CODEC),
    _one(4, "raw_bytes", "int64"),
    _one(999, "data", "bytes"),
)
ExecuteRequest = _message(
    "ExecuteRequest",
    _one(1, "begin", ExecuteBegin),
    _many(2, "chunks", TensorChunk),
)
ExecuteAccepted = _message("ExecuteAccepted", _one(1, "plan", GetWorkspaceSizeResponse))
ExecuteDone = _message(
    "ExecuteDone",
    _one(1, "target", TARGET),
    _one(2, "numerics", NUMERICS),
    _one(3, "attempts", "int32"),
    _one(4, "queue_ns", "int64"),
    _one(5, "upload_ns", "int64"),
    _one(6, "compute_ns", "int64"),
    _one(7, "download_ns", "int64"),
)
ExecuteResponse = _message(
    "ExecuteResponse",
    _one(1, "accepted", ExecuteAccepted),
    _many(2, "chunks", TensorChunk),
    _one(3, "done", ExecuteDone),
)
DestroyExecutorRequest = _message("DestroyExecutorRequest", _one(1, "executor", "bytes"))
DestroyExecutorResponse = _message("DestroyExecutorResponse")
GetServerInfoRequest = _message("GetServerInfoRequest")
ServerLimits = _message(
    "ServerLimits",
    _one(1, "max_chunk_bytes", "int64"),
    _one(2, "max_message_bytes", "int64"),
    _one(3, "memory_budget_bytes", "int64"),
    _one(4, "max_executors", "int64"),
    _one(5, "default_ttl_ms", "int64"),
    _one(6, "max_ttl_ms", "int64"),
    _one(7, "max_queue", "int64"),
    _one(8, "max_queue_time_ms", "int64"),
    _one(9, "idle_timeout_ms", "int64"),
    _one(10, "max_connections", "int64"),
)
DeviceInfo = _message(
    "DeviceInfo",
    _one(1, "name", "string"),
    _one(2, "healthy", "bool"),
    _one(3, "detail", "string"),
)
TargetInfo = _message(
    "TargetInfo",
    _one(1, "target", TARGET),
    _one(2, "available", "bool"),
    _many(3, "devices", DeviceInfo),
    _many(4, "numerics", NUMERICS),
)
GetServerInfoResponse = _message(
    "GetServerInfoResponse",
    _one(1, "server_version", "string"),
    _one(2, "contract_revision", "int32"),
    _many(3, "features", "string"),
    _one(4, "limits", ServerLimits),
    _many(5, "codecs", CODEC),
    _many(6, "targets", TargetInfo),
    _one(7, "cpu_path", "string"),
)
ListOperatorsRequest = _message("ListOperatorsRequest")
ParameterInfo = _message(
    "ParameterInfo",
    _one(1, "name", "string"),
    _one(2, "kind", PARAMETER_KIND),
    _one(3, "direction", DIRECTION),
    _one(4, "optional", "bool"),
    _one(5, "shape_only", "bool"),
    _many(6, "data_types", DATA_TYPE),
    _many(7, "ranks", "int32"),
)
OperatorInfo = _message(
    "OperatorInfo",
    _one(1, "name", "string"),
    _many(2, "parameters", ParameterInfo),
    _one(3, "effect", EFFECT),
    _many(4, "targets", TARGET),
)
ListOperatorsResponse = _message("ListOperatorsResponse", _many(1, "operators", OperatorInfo))

ErrorDetail = _message("ErrorDetail", _one(1, "type_url", "string"), _one(2, "value", "bytes"))
ErrorStatus = _message(
    "ErrorStatus",
    _one(1, "code", "int32"),
    _one(2, "message", "string"),
    _many(3, "details", ErrorDetail),
)
ErrorMetadata = _message("ErrorMetadata", _one(1, "key", "string"), _one(2, "value", "string"))
ErrorInfo = _message(
    "ErrorInfo",
    _one(1, "reason", "string"),
    _one(2, "domain", "string"),
    _many(3, "metadata", ErrorMetadata),
)
RetryDelay = _message("RetryDelay", _one(1, "seconds", "int64"), _one(2, "nanos", "int32"))
RetryInfo = _message("RetryInfo", _one(1, "retry_delay", RetryDelay))

HealthCheckRequest = _message("HealthCheckRequest", _one(1, "service", "string"), package="grpc.health.v1.")
HealthCheckResponse = _message(
    "HealthCheckResponse", _one(1, "status", SERVING_STATUS), package="grpc.health.v1."
)


def enum_name(table: Dict[str, int], number: int) -> str:
    """The lower-case name of an enum value, or its number as text if it isn't known here."""
    for name, value in table.items():
        if value == number:
            return name.lower()
    return str(number)


def enum_number(table: Dict[str, int], name: str, what: str) -> int:
    """The number of a value that a user named; raises ValueError naming what is allowed."""
    number = table.get(str(name).upper(), 0)
    if number == 0:
        allowed = ", ".join(key.lower() for key, value in table.items() if value)
        raise ValueError(f"{what} is {name!r}, it can be: {allowed}")
    return number
