"""Between stored bits (bf16 as uint16) and what the Python client takes and gives."""

import numpy

import aclnn_client

NAMES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int32": "int32", "int64": "int64"}
STORED = {"fp32": numpy.float32, "fp16": numpy.float16, "bf16": numpy.uint16, "int32": numpy.int32,
          "int64": numpy.int64}


def to_client(stored, data_type):
    """The array as the client takes it."""
    return aclnn_client.Tensor(stored, "bfloat16") if data_type == "bf16" else stored


def from_client(value, data_type):
    """The stored bits of the client's result."""
    if data_type != "bf16":
        return value
    return value.bits if isinstance(value, aclnn_client.Tensor) else numpy.asarray(value).view(numpy.uint16)


def spec(shape, data_type):
    return aclnn_client.TensorSpec(NAMES[data_type], tuple(shape))
