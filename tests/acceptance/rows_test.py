"""The public system-test tables, and random cases of the same kinds, bit for bit against plain numpy."""

import csv
import os
import pathlib

import numpy
import pytest

import reference
from arrays import STORED, from_client, spec, to_client

TENSOR_BYTES_MAX = 64 << 20
FOLDER = pathlib.Path(__file__).parent
RANDOM_CASES = 60 if os.environ.get("ACLNN_QUICK") == "1" else 300


def read_rows(kind):
    """The rows of a table as (name, dtype, shape, output size, values of self, values of gradOutput)."""
    with open(FOLDER / f"{kind}_cases.csv", encoding="ascii", newline="") as file:
        return [(f"{kind}-{row['id']}", row["dtype"], sizes(row["self_shape"]), sizes(row["output_size"]),
                 row["self_values"], row["grad_output_values"]) for row in csv.DictReader(file)]


def sizes(text):
    return tuple(int(part) for part in text.split("x"))


def largest_tensor(row):
    """Bytes of the largest tensor, int64 indices included."""
    _, data_type, shape, output_size = row[:4]
    planes = int(numpy.prod(shape[:-2]))
    item = numpy.dtype(STORED[data_type]).itemsize
    return max(planes * shape[-2] * shape[-1] * item, planes * output_size[0] * output_size[1] * 8)


ALL_ROWS = {kind: read_rows(kind) for kind in ("backward", "forward")}
ROWS = {kind: [row for row in rows if largest_tensor(row) < TENSOR_BYTES_MAX] for kind, rows in ALL_ROWS.items()}
LEFT_OUT = sum(len(ALL_ROWS[kind]) - len(ROWS[kind]) for kind in ROWS)


def values(random, shape, data_type, kind):
    """fp32 values that the dtype holds: normal with a drawn mean and spread, or all of them one special."""
    if kind == "normal":
        mean, spread = random.uniform(-100, 100), random.uniform(1, 25)
        drawn = random.normal(mean, spread, shape).astype(numpy.float32)
    else:
        drawn = numpy.full(shape, float(kind), numpy.float32)
    stored = reference.round_to(drawn, data_type)
    return reference.widen(stored, data_type), stored


def check_forward(client, random, data_type, shape, output_size, kind):
    wide, stored = values(random, shape, data_type, kind)
    output, indices = client.adaptive_max_pool2d(to_client(stored, data_type), output_size)
    maxima, places = reference.forward(wide, output_size)
    assert numpy.array_equal(indices, places)
    assert reference.same_bits(from_client(output, data_type), reference.round_to(maxima, data_type), data_type)


def check_backward(client, random, data_type, shape, output_size, self_kind, grad_kind):
    wide, stored = values(random, shape, data_type, self_kind)
    places = reference.forward(wide, output_size)[1]
    grads, grads_stored = values(random, places.shape, data_type, grad_kind)
    index_type = numpy.int32 if random.integers(2) else numpy.int64
    whole = to_client(stored, data_type) if random.integers(2) else spec(shape, data_type)
    got = client.adaptive_max_pool2d_backward(to_client(grads_stored, data_type), whole, places.astype(index_type))
    expected = reference.round_to(reference.backward(grads, places, shape), data_type)
    assert reference.same_bits(from_client(got, data_type), expected, data_type)


def count(figures):
    figures["rows"] = figures.get("rows", 0) + 1
    figures["acceptance rows"] = f"{figures['rows']} ({LEFT_OUT} above 64 MB left out)"


@pytest.mark.parametrize("row", ROWS["backward"], ids=[row[0] for row in ROWS["backward"]])
def test_backward_row(client, figures, row):
    count(figures)
    name, data_type, shape, output_size, self_kind, grad_kind = row
    random = numpy.random.default_rng(list(name.encode()))
    check_backward(client, random, data_type, shape, output_size, self_kind, grad_kind)


@pytest.mark.parametrize("row", ROWS["forward"], ids=[row[0] for row in ROWS["forward"]])
def test_forward_row(client, figures, row):
    count(figures)
    name, data_type, shape, output_size, self_kind, _ = row
    random = numpy.random.default_rng(list(name.encode()))
    check_forward(client, random, data_type, shape, output_size, self_kind)


@pytest.mark.parametrize("seed", range(RANDOM_CASES))
def test_random_case(client, figures, seed):
    """Small shapes of every kind: rank, dtype, up- and downsampling, many hits on one cell, special values."""
    figures["random cases"] = figures.get("random cases", 0) + 1
    random = numpy.random.default_rng(seed)
    rank3 = random.integers(4) == 0
    planes = tuple(random.choice([1, 2, 3, 7, 8, 17, 33], 1 if rank3 else 2))
    shape = tuple(int(size) for size in planes + tuple(random.choice([1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 64], 2)))
    output_size = tuple(int(size) for size in random.choice([1, 2, 3, 4, 6, 7, 9, 16, 30], 2))
    data_type = ("fp32", "fp16", "bf16")[random.integers(3)]
    kinds = random.choice(["normal", "inf", "-inf", "nan"], 2, p=[0.85, 0.05, 0.05, 0.05])
    if random.integers(2):
        check_forward(client, random, data_type, shape, output_size, kinds[0])
    else:
        check_backward(client, random, data_type, shape, output_size, *kinds)
