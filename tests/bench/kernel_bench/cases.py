"""What is measured: operators, shapes, types and threads."""

import dataclasses

# N, C, H, W, Ho, Wo: classification heads, detection, pyramids (SPP), dense and upsampling grids, single planes.
SHAPES = (
    (32, 64, 112, 112, 7, 7),
    (16, 256, 56, 56, 7, 7),
    (64, 2048, 7, 7, 1, 1),
    (8, 512, 7, 7, 1, 1),
    (1, 2048, 7, 7, 7, 7),
    (32, 512, 14, 14, 7, 7),
    (1, 3, 1080, 1920, 224, 224),
    (4, 64, 64, 64, 63, 63),
    (1, 1, 4096, 4096, 2048, 2048),
    (1, 64, 112, 112, 56, 56),
    (8, 64, 32, 32, 16, 16),
    (2, 16, 32, 32, 64, 64),
    (8, 256, 38, 38, 1, 1),
    (8, 256, 38, 38, 2, 2),
    (8, 256, 38, 38, 3, 3),
    (8, 256, 38, 38, 6, 6),
)
QUICK_SHAPES = ((8, 512, 7, 7, 1, 1), (1, 64, 112, 112, 56, 56), (8, 256, 38, 38, 3, 3), (2, 16, 32, 32, 64, 64))
# np.add.at takes long: it is there to show what comes of having no kernel at all.
NUMPY_SHAPES = ((8, 512, 7, 7, 1, 1), (8, 64, 32, 32, 16, 16))
SINGLE_PLANE = (1, 1, 4096, 4096, 2048, 2048)

# m, k, n.
PRODUCT = (1024, 1024, 1024)

VALUE_TYPES = ("fp32", "bf16", "fp16")
QUICK_VALUE_TYPES = ("fp32", "bf16")
INDEX_TYPES = ("int64", "int32")
POOLING = ("backward", "forward")
OPERATORS = (*POOLING, "mm")
VALUE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


@dataclasses.dataclass(frozen=True)
class Case:
    operator: str
    value_type: str
    threads: int
    shape: tuple

    @property
    def shape_name(self):
        return shape_name(self.shape)


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured, and how long."""

    rounds: int
    block_seconds: float  # what one contestant runs in one round, more or less
    shapes: tuple
    value_types: tuple
    threads: tuple


@dataclasses.dataclass(frozen=True)
class Selection:
    """What is measured of an effort; where nothing is named, all."""

    operators: tuple = ()
    value_types: tuple = ()
    threads: tuple = ()
    shapes: tuple = ()  # parts of names

    def takes(self, case):
        return (
            (not self.operators or case.operator in self.operators)
            and (not self.value_types or case.value_type in self.value_types)
            and (not self.threads or case.threads in self.threads)
            and (not self.shapes or any(part in case.shape_name for part in self.shapes)))


FULL = Effort(rounds=9, block_seconds=0.006, shapes=SHAPES, value_types=VALUE_TYPES, threads=(1, 2))
QUICK = Effort(rounds=5, block_seconds=0.002, shapes=QUICK_SHAPES, value_types=QUICK_VALUE_TYPES, threads=(1, 2))


def shape_name(shape):
    if len(shape) == 3:
        return "x".join(map(str, shape))
    return "x".join(map(str, shape[:4])) + "->" + "x".join(map(str, shape[4:]))


def cases(effort):
    """Every case of an effort, in the order of the tables. A product's one stands for all types."""
    return [
        Case(operator, value_type, threads, tuple(shape))
        for operator in POOLING for value_type in effort.value_types for threads in effort.threads
        for shape in effort.shapes
    ] + [Case("mm", "fp32", threads, PRODUCT) for threads in effort.threads]


def divides(shape):
    return shape[2] % shape[4] == 0 and shape[3] % shape[5] == 0


def large_elements(shape):
    return shape[0] * shape[1] * shape[2] * shape[3]


def small_elements(shape):
    return shape[0] * shape[1] * shape[4] * shape[5]
