"""Tensors of more than one, two and four GiB through channels with default settings.

Expected bytes are worked out chunk by chunk, so that a test holds no second copy. Too large for sanitizers.
"""

import os
import threading

import numpy
import pytest

import messages
from jobs import GRAD_INPUT, GRAD_OUTPUT, INDICES
from messages import CHUNK_BYTES_DEFAULT, FLOAT, INT32, begin, chunk, execute
from server_process import SANITIZED
from wire import Message

GIBIBYTE = 1 << 30
SECONDS_MAX = 1200

pytestmark = [
    pytest.mark.skipif(SANITIZED, reason="too large for a sanitizer"),
    pytest.mark.skipif(os.environ.get("ACLNN_QUICK") == "1", reason="left out of the quick run"),
]


def need_memory(gibibytes):
    """Skips where the machine really has too little memory."""
    with open("/proc/meminfo", encoding="ascii") as file:
        available = {line.split(":")[0]: int(line.split()[1]) for line in file}["MemAvailable"] << 10
    if available < gibibytes * GIBIBYTE:
        pytest.skip(f"{available / GIBIBYTE:.1f} GiB are free, {gibibytes} are needed")


@pytest.fixture
def large_client(start_server, connect):
    return lambda limit: connect(start_server("--memory-limit", limit))


class Ramp:
    """A tensor of fp32 that is never held whole: element i is i mod 8191, exactly."""

    def __init__(self, elements):
        self.elements = elements

    def piece(self, first, count):
        return (numpy.arange(first, first + count) % 8191).astype(numpy.float32)

    def messages(self, tensor_index):
        step = CHUNK_BYTES_DEFAULT // 4
        for first in range(0, self.elements, step):
            data = self.piece(first, min(step, self.elements - first)).tobytes()
            yield execute(None, [chunk(tensor_index, first * 4, data)])


def responses(client, requests):
    """The call's messages one by one, without keeping them."""
    for data in client.channel.stream_stream("/aclnn.v1.OperatorService/Execute")(requests, timeout=SECONDS_MAX):
        yield Message(data)


def check_download(messages_read, index, expected_piece):
    """Checks one tensor's chunks as they come; returns its length in bytes. done has to be last."""
    received, done = 0, False
    for message in messages_read:
        assert not done
        for item in message.messages(2):
            assert item.integer(1) == index and item.integer(2) == received
            data = numpy.frombuffer(item.data(999), numpy.float32)
            assert numpy.array_equal(data, expected_piece(received // 4, len(data)))
            received += data.nbytes
        done = message.has(3)
    assert done
    return received


def identity_request(planes, cells):
    """A backward whose output is its gradient: as many outputs as inputs, each at its own place."""
    shape = (1, planes, 1, cells)
    return messages.request(messages.BACKWARD, [
        messages.tensor("gradOutput", FLOAT, shape), messages.tensor("self", FLOAT, shape),
        messages.tensor("indices", INT32, shape, strides=(0, 0, 0, 1)), messages.tensor("gradInput")])


CELLS = 1 << 20
IDENTITY_INDICES = numpy.arange(CELLS, dtype=numpy.int32).tobytes()


def identity_messages(planes):
    """The begin and the data of identity_request."""
    yield execute(begin(request=identity_request(planes, CELLS)))
    for at in range(0, len(IDENTITY_INDICES), CHUNK_BYTES_DEFAULT):
        yield execute(None, [chunk(INDICES, at, IDENTITY_INDICES[at:at + CHUNK_BYTES_DEFAULT])])
    yield from Ramp(planes * CELLS).messages(GRAD_OUTPUT)


def test_one_gibibyte_each_way_while_reading(large_client):
    need_memory(5)
    planes = 256
    received = check_download(responses(large_client("3GiB"), identity_messages(planes)), GRAD_INPUT,
                              Ramp(planes * CELLS).piece)
    assert received == GIBIBYTE


def test_one_gibibyte_written_whole_and_then_read(large_client):
    """Nothing is read before the last byte was handed over."""
    need_memory(6)
    planes = 256
    sent = threading.Event()

    def write_all():
        yield from identity_messages(planes)
        sent.set()

    call = large_client("3GiB").channel.stream_stream("/aclnn.v1.OperatorService/Execute")(
        write_all(), timeout=SECONDS_MAX)
    assert sent.wait(SECONDS_MAX)
    received = check_download(map(Message, call), GRAD_INPUT, Ramp(planes * CELLS).piece)
    assert received == GIBIBYTE


@pytest.mark.parametrize("extra", [-1, 0, 1], ids=["2 GiB - 4", "2 GiB", "2 GiB + 4"])
def test_download_around_two_gibibytes(large_client, extra):
    need_memory(4)
    download(large_client("3GiB"), 1, (2 << 30) // 4 + extra)


def test_download_above_four_gibibytes(large_client):
    need_memory(7)
    download(large_client("6GiB"), 3, (4 << 30) // 12 + 1001)


def download(client, planes, cells):
    """A tiny gradient into large planes: all that comes down are zeros but for one place a plane."""
    shape = (planes, 1, cells)
    small = (planes, 1, 1)
    places = numpy.array([cells - 1 - plane for plane in range(planes)], numpy.int32)
    request = messages.request(messages.BACKWARD, [
        messages.tensor("gradOutput", FLOAT, small), messages.tensor("self", FLOAT, shape),
        messages.tensor("indices", INT32, small), messages.tensor("gradInput")])
    grads = numpy.arange(1, planes + 1, dtype=numpy.float32)
    data = execute(begin(request=request), [chunk(GRAD_OUTPUT, 0, grads.tobytes()), chunk(INDICES, 0, places.tobytes())])

    def expected(first, count):
        out = numpy.zeros(count, numpy.float32)
        for plane in range(planes):
            at = plane * cells + int(places[plane]) - first
            if 0 <= at < count:
                out[at] = grads[plane]
        return out

    received = check_download(responses(client, iter([data])), GRAD_INPUT, expected)
    assert received == planes * cells * 4


def test_upload_above_four_gibibytes(large_client):
    """The forward of more than 4 GiB to one cell a plane; the maximum and its place are known."""
    need_memory(8)
    planes, cells = 5, (4 << 30) // 20 + 777
    ramp = Ramp(planes * cells)
    request = messages.request(messages.FORWARD, [
        messages.tensor("self", FLOAT, (planes, 1, cells)), messages.int_array("outputSize", (1, 1)),
        messages.tensor("outputOut"), messages.tensor("indicesOut")])

    def upload():
        yield execute(begin(request=request))
        yield from ramp.messages(0)

    storages = {1: bytearray(), 2: bytearray()}
    for message in responses(large_client("6GiB"), upload()):
        for item in message.messages(2):
            storages[item.integer(1)] += item.data(999)
    maxima = numpy.frombuffer(storages[1], numpy.float32)
    places = numpy.frombuffer(storages[2], numpy.int64)
    for plane in range(planes):
        first = (8190 - plane * cells) % 8191
        assert (maxima[plane], places[plane]) == (8190, first)
