"""Codecs in both directions, and data that don't decode."""

import dataclasses
from typing import Callable

import lz4.block
import numpy
import pytest

import messages
import nonzero_words
from expect import refused
from jobs import GRAD_INPUT, GRAD_OUTPUT, INDICES, Backward
from messages import LZ4_BLOCK, NONE, NONZERO_WORDS, begin, chunk, execute, split

# Gradients of pooling are mostly zeros: this one compresses well.
SPARSE = Backward.make(planes=(4, 8), input_size=(112, 112), output_size=(7, 7))
JOB = Backward.make(planes=(16, 16))


@dataclasses.dataclass(frozen=True)
class Encoding:
    """A codec as the tests do it by themselves."""

    name: str
    codec: int
    encode: Callable[[bytes], bytes]
    decode: Callable[[bytes, int], bytes]

    def chunks(self, index, data, size):
        """All of a tensor's data, encoded."""
        return [self.chunk(index, at, data[at:at + size]) for at in range(0, len(data), size)]

    def chunk(self, index, at, data):
        """One piece of it."""
        return chunk(index, at, self.encode(data), self.codec, len(data))


ENCODINGS = [
    Encoding("LZ4_BLOCK", LZ4_BLOCK, lambda data: lz4.block.compress(data, store_size=False),
             lambda data, raw_bytes: lz4.block.decompress(data, uncompressed_size=raw_bytes)),
    Encoding("NONZERO_WORDS of 4", NONZERO_WORDS, lambda data: nonzero_words.encode(data, 4), nonzero_words.decode),
    Encoding("NONZERO_WORDS of 2", NONZERO_WORDS, lambda data: nonzero_words.encode(data, 2), nonzero_words.decode),
]
each_encoding = pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.name)


def codecs_of(client):
    return client.plan(JOB.request()).accept_codecs


def test_plan_offers_the_codecs(client):
    assert {LZ4_BLOCK, NONZERO_WORDS} <= set(codecs_of(client))


@each_encoding
@pytest.mark.parametrize("size", [100, 4096, 1 << 20])
def test_encoded_upload(client, encoding, size):
    plan = client.plan(SPARSE.request())
    data = SPARSE.data()
    chunks = encoding.chunks(GRAD_OUTPUT, data[GRAD_OUTPUT], size) + encoding.chunks(INDICES, data[INDICES], size)
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), chunks)
    SPARSE.check(client.execute(message)[0])


@each_encoding
def test_plain_and_encoded_chunks_of_one_tensor(client, encoding):
    plan = client.plan(SPARSE.request())
    raw = SPARSE.data()[GRAD_OUTPUT]
    half = len(raw) // 2
    chunks = [chunk(GRAD_OUTPUT, 0, raw[:half]), encoding.chunk(GRAD_OUTPUT, half, raw[half:])]
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      chunks + split(INDICES, SPARSE.data()[INDICES]))
    SPARSE.check(client.execute(message)[0])


def test_download_is_encoded_only_if_offered(client):
    for offers in ((), (NONE,), (99,), (2, 15, 17)):
        (result,) = client.execute(execute(begin(request=SPARSE.request(), accept_codecs=offers), SPARSE.chunks()))
        SPARSE.check(result)
        assert set(result.codecs) == {NONE}


@each_encoding
def test_encoded_download(client, encoding):
    """With the offer the server may encode where it pays; what comes has to decode to the same bits."""
    message = execute(begin(request=SPARSE.request(), accept_codecs=(encoding.codec,)), SPARSE.chunks())
    (result,) = client.execute(message, decode=encoding.decode)
    SPARSE.check(result)
    assert set(result.codecs) <= {NONE, encoding.codec}


@each_encoding
def test_encoded_download_keeps_to_the_chunk_size(client, encoding):
    message = execute(begin(request=SPARSE.request(), accept_codecs=(encoding.codec,), max_chunk_bytes=8192),
                      SPARSE.chunks())
    (result,) = client.execute(message, decode=encoding.decode)
    SPARSE.check(result)
    assert max(result.chunk_sizes) <= 8192


RAW = JOB.data()[GRAD_OUTPUT]
BROKEN = {
    "raw_bytes too small": lambda encode: (encode(RAW), len(RAW) - 1),
    "raw_bytes too large": lambda encode: (encode(RAW[:len(RAW) // 2]), len(RAW)),
    "raw_bytes missing": lambda encode: (encode(RAW), 0),
    "raw_bytes negative": lambda encode: (encode(RAW), -1),
    "noise": lambda encode: (b"\xff" * 50, len(RAW)),
    "cut": lambda encode: (encode(RAW)[:-3], len(RAW)),
    "trailing byte": lambda encode: (encode(RAW) + b"\x00", len(RAW)),
}


@each_encoding
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN.keys())
def test_data_that_do_not_decode_are_refused(client, encoding, broken):
    data, raw_bytes = broken(encoding.encode)
    plan = client.plan(JOB.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [chunk(GRAD_OUTPUT, 0, data, encoding.codec, raw_bytes)])
    refused(client.execute_failure(message, half_close=False)[0], "CODEC_INVALID")


@each_encoding
@pytest.mark.parametrize("raw_bytes", [1 << 40, (1 << 63) - 1])
def test_huge_raw_bytes_are_refused_without_allocation(server, client, encoding, raw_bytes):
    before = server.resident_bytes()
    plan = client.plan(JOB.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [chunk(GRAD_OUTPUT, 0, encoding.encode(RAW), encoding.codec, raw_bytes)])
    failure, _ = client.execute_failure(message, half_close=False)
    assert failure.reason in ("CODEC_INVALID", "TENSOR_DATA_INVALID"), failure
    refused(failure, failure.reason)
    assert server.resident_bytes() - before < 64 << 20


@each_encoding
def test_decoded_surplus_is_refused(client, encoding):
    plan = client.plan(JOB.request())
    raw = RAW + bytes(4)
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [encoding.chunk(GRAD_OUTPUT, 0, raw)])
    failure, _ = client.execute_failure(message, half_close=False)
    assert failure.reason in ("TENSOR_DATA_INVALID", "CODEC_INVALID"), failure
    refused(failure, failure.reason)


def test_wrong_raw_bytes_of_plain_data_are_refused(client):
    message = execute(begin(request=JOB.request()), [chunk(GRAD_OUTPUT, 0, RAW, NONE, len(RAW) - 1)])
    failure, _ = client.execute_failure(message, half_close=False)
    assert failure.reason in ("CODEC_INVALID", "TENSOR_DATA_INVALID"), failure
    refused(failure, failure.reason)


def test_right_raw_bytes_of_plain_data_are_taken(client):
    chunks = [chunk(index, 0, data, NONE, len(data)) for index, data in JOB.data().items()]
    JOB.check(client.execute(execute(begin(request=JOB.request()), chunks))[0])


@each_encoding
@pytest.mark.parametrize("values", [numpy.zeros, numpy.ones])
def test_compression_bomb_stays_within_its_tensor(client, encoding, values):
    """A few KiB that decode to a MiB: legal as long as it is what the tensor holds."""
    job = Backward.make(planes=(4, 4), input_size=(8, 8), output_size=(128, 128))
    job.grad_output = values(job.grad_output.shape, numpy.float32)
    plan = client.plan(job.request())
    # Data that don't shrink grow by a thirty-second.
    size = min(plan.max_chunk_bytes, 1 << 22) // 32 * 31 // 4 * 4
    data = job.data()
    stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
    for item in encoding.chunks(GRAD_OUTPUT, data[GRAD_OUTPUT], size):
        stream.send(execute(None, [item]))
    for item in split(INDICES, data[INDICES]):
        stream.send(execute(None, [item]))
    result = stream.read_result()
    assert bytes(result.tensors[GRAD_INPUT]) == job.expected()
    stream.finish()
