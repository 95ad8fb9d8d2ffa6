"""The messages of aclnn.v1, written and read by field number: independent of every other implementation here."""

import dataclasses

import numpy

from wire import Message, blob, double, integer, packed

FLOAT, FLOAT16, BF16, INT32, INT64 = 1, 2, 3, 4, 5
DATA_TYPES = {
    "UNSPECIFIED": 0, "FLOAT": 1, "FLOAT16": 2, "BF16": 3, "INT32": 4, "INT64": 5, "INT8": 6, "UINT8": 7, "INT16": 8,
    "UINT16": 9, "UINT32": 10, "UINT64": 11, "DOUBLE": 12, "BOOL": 13, "STRING": 14, "COMPLEX64": 15,
    "COMPLEX128": 16, "INT4": 17, "UINT1": 18, "COMPLEX32": 19, "HIFLOAT8": 20, "FLOAT8_E5M2": 21,
    "FLOAT8_E4M3FN": 22, "FLOAT8_E8M0": 23, "FLOAT6_E3M2": 24, "FLOAT6_E2M3": 25, "FLOAT4_E2M1": 26,
    "FLOAT4_E1M2": 27
}
NUMPY_TYPES = {FLOAT: numpy.float32, FLOAT16: numpy.float16, BF16: numpy.uint16, INT32: numpy.int32,
               INT64: numpy.int64}
ND, NCHW, NCL, NHWC = 1, 2, 3, 4
AUTO, CPU, NPU = 1, 2, 3
DEVICE, DETERMINISTIC, EXACT = 1, 2, 3
NONE, LZ4_BLOCK, NONZERO_WORDS = 0, 1, 16
INPUT, OUTPUT = 1, 2
BACKWARD = "aclnnAdaptiveMaxPool2dBackward"
FORWARD = "aclnnAdaptiveMaxPool2d"
MESSAGE_BYTES_MAX = 4 << 20
CHUNK_BYTES_DEFAULT = 1 << 20
HINT = 1000  # the first field number that may be ignored


def tensor_desc(data_type=0, shape=(), strides=(), storage_offset=0, format=0, storage_elements=0, extra=b""):
    out = integer(1, data_type) if data_type else b""
    out += packed(2, shape) if len(shape) else b""
    out += packed(3, strides) if len(strides) else b""
    out += integer(4, storage_offset) if storage_offset else b""
    out += integer(5, format) if format else b""
    out += integer(6, storage_elements) if storage_elements else b""
    return out + extra


def argument(name, value, extra=b""):
    """An Argument; `value` is the oneof's field, such as blob(2, tensor_desc(...))."""
    return blob(1, name) + value + extra


def tensor(name, *desc, **more):
    return argument(name, blob(2, tensor_desc(*desc, **more)))


def int_array(name, values):
    return argument(name, blob(3, packed(1, values)))


def integer_argument(name, value):
    return argument(name, integer(4, value))


def real_argument(name, value):
    return argument(name, double(5, value))


def request(operator, arguments, target=0, numerics=0, repeatable=False, ttl_ms=0, extra=b""):
    """A GetWorkspaceSizeRequest."""
    out = blob(1, operator) + b"".join(blob(2, item) for item in arguments)
    out += integer(3, target) if target else b""
    out += integer(4, numerics) if numerics else b""
    out += integer(5, 1) if repeatable else b""
    out += integer(6, ttl_ms) if ttl_ms else b""
    return out + extra


def begin(executor=None, request=None, workspace_size=0, accept_codecs=(), max_chunk_bytes=0, extra=b""):
    out = blob(1, executor) if executor is not None else b""
    out += blob(2, request) if request is not None else b""
    out += integer(3, workspace_size) if workspace_size else b""
    out += packed(4, accept_codecs) if len(accept_codecs) else b""
    out += integer(5, max_chunk_bytes) if max_chunk_bytes else b""
    return out + extra


def chunk(tensor_index, offset, data, codec=NONE, raw_bytes=0, extra=b""):
    out = integer(1, tensor_index) if tensor_index else b""
    out += integer(2, offset) if offset else b""
    out += integer(3, codec) if codec else b""
    out += integer(4, raw_bytes) if raw_bytes else b""
    return out + extra + blob(999, data)


def execute(begin=None, chunks=(), extra=b""):
    """An ExecuteRequest."""
    out = blob(1, begin) if begin is not None else b""
    return out + b"".join(blob(2, item) for item in chunks) + extra


def split(tensor_index, data, size=CHUNK_BYTES_DEFAULT):
    """The chunks of a whole tensor, in order."""
    return [chunk(tensor_index, at, data[at:at + size]) for at in range(0, len(data), size)]


@dataclasses.dataclass
class Plan:
    """A GetWorkspaceSizeResponse."""

    executor: bytes
    workspace_size: int
    ttl_ms: int
    expire_unix_ms: int
    target: int
    numerics: int
    tensors: list
    max_chunk_bytes: int
    accept_codecs: list

    @classmethod
    def read(cls, message):
        tensors = [TensorPlan.read(item) for item in message.messages(7)]
        return cls(message.data(1), message.integer(2), message.integer(3), message.integer(4), message.integer(5),
                   message.integer(6), tensors, message.integer(8), message.integers(9))


@dataclasses.dataclass
class TensorPlan:
    name: str
    direction: int
    data_type: int
    shape: tuple
    strides: tuple
    storage_bytes: int
    transferred: bool

    @classmethod
    def read(cls, message):
        desc = message.message(3)
        return cls(message.text(1), message.integer(2), desc.integer(1), tuple(desc.integers(2)),
                   tuple(desc.integers(3)), message.integer(4), bool(message.integer(5)))


@dataclasses.dataclass
class Done:
    target: int
    numerics: int
    attempts: int
    queue_ns: int
    upload_ns: int
    compute_ns: int
    download_ns: int

    @classmethod
    def read(cls, message):
        return cls(*(message.integer(number) for number in range(1, 8)))
