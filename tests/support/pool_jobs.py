"""Backward jobs with known results, small and large."""

import dataclasses

import numpy

import reference
from aclnn_client import Tensor, TensorSpec

BACKWARD = "aclnnAdaptiveMaxPool2dBackward"


@dataclasses.dataclass
class Job:
    """A job that can be run again and again; `expected` are the bits of numerics EXACT."""

    grad_output: object
    indices: numpy.ndarray
    spec: TensorSpec
    expected: numpy.ndarray

    def run(self, client, **more):
        """The result with its summary; fails if a bit is wrong."""
        inputs = {"gradOutput": self.grad_output, "self": self.spec, "indices": self.indices}
        result = client.call(BACKWARD, inputs, ["gradInput"], **more)
        self.check(result["gradInput"])
        return result

    def check(self, got):
        assert numpy.array_equal(bits_of(got), bits_of(self.expected))


def bits_of(array):
    values = numpy.asarray(getattr(array, "bits", array))
    return values.view({2: numpy.uint16, 4: numpy.uint32}[values.dtype.itemsize])


def windows_of(shape, size, random):
    """Indices as a forward gives them: each inside its window."""
    rows = [reference.window(position, shape[-2], size[0]) for position in range(size[0])]
    columns = [reference.window(position, shape[-1], size[1]) for position in range(size[1])]
    planes = tuple(shape[:-2])
    row = numpy.stack([random.integers(*row, planes + (size[1],)) for row in rows], axis=-2)
    column = numpy.stack([random.integers(*column, planes + (size[0],)) for column in columns], axis=-1)
    return row * shape[-1] + column


def make(shape, size, data_type="fp32", index_type=numpy.int64, seed=1, anywhere=False):
    """A job whose indices lie in their windows, or anywhere in the plane."""
    random = numpy.random.default_rng(seed)
    output = tuple(shape[:-2]) + tuple(size)
    stored = reference.round_to(random.standard_normal(output).astype(numpy.float32), data_type)
    values = reference.widen(stored, data_type)
    if anywhere:
        indices = random.integers(0, shape[-2] * shape[-1], output)
    else:
        indices = windows_of(shape, size, random)
    expected = reference.round_to(reference.backward(values, indices, tuple(shape)), data_type)
    name = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[data_type]
    grad_output = Tensor(stored, "bfloat16") if data_type == "bf16" else stored
    return Job(grad_output, indices.astype(index_type), TensorSpec(name, tuple(shape)), expected)


def mixed():
    """Of every kind one: types, sizes, ranks; shapes that divide, that don't, and indices anywhere."""
    return [
        make((1, 1, 4, 4), (2, 2), index_type=numpy.int32),
        make((2, 3, 9, 11), (4, 5), anywhere=True),
        make((3, 16, 16), (5, 7), "fp16"),
        make((2, 4, 30, 30), (7, 7), "bf16", numpy.int32, anywhere=True),
        make((4, 16, 56, 56), (14, 14)),
        make((2, 2, 3, 5), (6, 7), "bf16"),
        make((8, 32, 64, 64), (8, 8), "fp16", numpy.int32),
        make((1, 4, 700, 900), (300, 400), anywhere=True),
    ]
