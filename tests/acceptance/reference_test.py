"""The yardstick itself, against vectors worked out by hand."""

import numpy
import pytest

import reference


@pytest.mark.parametrize("size, count, expected", [
    (4, 3, [(0, 2), (1, 3), (2, 4)]), (5, 3, [(0, 2), (1, 4), (3, 5)]), (7, 4, [(0, 2), (1, 4), (3, 6), (5, 7)]),
    (2, 3, [(0, 1), (0, 2), (1, 2)])])
def test_windows(size, count, expected):
    assert [reference.window(position, size, count) for position in range(count)] == expected


@pytest.mark.parametrize("shape, output_size, expected", [
    ((5, 5), (3, 3), [6, 8, 9, 16, 18, 19, 21, 23, 24]), ((4, 4), (2, 2), [5, 7, 13, 15]),
    ((1, 4), (3, 4), [0, 1, 2, 3] * 3), ((2, 2), (3, 4), [0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3])])
def test_forward_of_a_ramp(shape, output_size, expected):
    ramp = numpy.arange(shape[0] * shape[1], dtype=numpy.float32).reshape((1,) + shape)
    assert reference.forward(ramp, output_size)[1].reshape(-1).tolist() == expected


def test_ties_go_to_the_first_and_sums_add_up():
    values = numpy.zeros((1, 4, 4), numpy.float32)
    values[0, 1, 1] = 1
    indices = reference.forward(values, (3, 3))[1]
    assert indices.reshape(-1).tolist() == [5, 5, 2, 5, 5, 6, 8, 9, 10]
    grads = 2.0 ** numpy.arange(9).reshape(1, 3, 3)
    sums = reference.backward(grads, indices, (1, 4, 4)).reshape(-1)
    assert sums.tolist() == [0, 0, 4, 0, 0, 27, 32, 0, 64, 128, 256, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("cells, expected", [
    ([1, numpy.nan, 3, numpy.nan, 5, 6], 3), ([-numpy.inf] * 6, 0), ([2] * 6, 0), ([numpy.nan] * 6, 5)])
def test_winner_of_special_values(cells, expected):
    values = numpy.array(cells, numpy.float32).reshape(1, 2, 3)
    assert reference.forward(values, (1, 1))[1].item() == expected


@pytest.mark.parametrize("planes", [1, 50])
def test_sums_are_in_order_in_fp32(planes):
    """2^24 and then nine ones: each is lost; the other way round they count, and 9 is rounded to 8."""
    grads = numpy.array([2.0**24] + [1] * 9, numpy.float32)
    for order, expected in ((grads, 2.0**24), (grads[::-1], 2.0**24 + 8)):
        many = numpy.tile(order.reshape(1, 2, 5), (planes, 1, 1))
        sums = reference.backward(many, numpy.zeros((planes, 2, 5), numpy.int64), (planes, 1, 3))
        assert (sums[:, 0, 0] == expected).all()


def nearest(value, table):
    """The nearest finite neighbour with ties to even bits, by plain search."""
    distance = numpy.abs(table.astype(numpy.float64) - value)
    best = numpy.flatnonzero(distance == distance.min())
    return best[0] if len(best) == 1 else best[best % 2 == 0][0]


@pytest.mark.parametrize("data_type", ["fp16", "bf16"])
def test_rounding_goes_to_the_nearest_even(data_type):
    """Every positive 16-bit value and the middles between neighbours, against a search in the table."""
    last = 0x7BFF if data_type == "fp16" else 0x7F7F
    bits = numpy.arange(last + 1, dtype=numpy.uint16)
    exact = reference.widen(bits.view(numpy.float16) if data_type == "fp16" else bits, data_type)
    assert numpy.array_equal(reference.round_to(exact, data_type).view(numpy.uint16), bits)
    random = numpy.random.default_rng(3)
    for position in random.integers(0, last, 300):
        low, high = exact[position].astype(numpy.float64), exact[position + 1].astype(numpy.float64)
        middle = numpy.float32((low + high) / 2)
        for value in (middle, numpy.nextafter(middle, numpy.float32(0)), numpy.nextafter(middle, numpy.float32(high))):
            got = reference.round_to(numpy.array([value], numpy.float32), data_type).view(numpy.uint16)[0]
            assert got == nearest(numpy.float64(value), exact[:last + 1])


def test_special_values_round_to_themselves():
    special = numpy.array([numpy.inf, -numpy.inf, numpy.nan, -0.0], numpy.float32)
    for data_type in ("fp16", "bf16"):
        wide = reference.widen(reference.round_to(special, data_type), data_type)
        assert wide[0] == numpy.inf and wide[1] == -numpy.inf and numpy.isnan(wide[2])
        assert wide[3] == 0 and numpy.signbit(wide[3])


def test_largest_values_overflow_to_infinity():
    assert reference.to_bf16_bits(numpy.array([3.4e38], numpy.float32))[0] == 0x7F80
    assert numpy.isinf(reference.round_to(numpy.array([65520.0], numpy.float32), "fp16"))[0]


def test_negative_zero_gradient_gives_positive_zero():
    sums = reference.backward(numpy.array([[[-0.0]]], numpy.float32), numpy.zeros((1, 1, 1), numpy.int64), (1, 1, 2))
    assert not numpy.signbit(sums).any()
