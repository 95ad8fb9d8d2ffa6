"""LZ4 in both directions, and data that don't decode."""

import lz4.block
import numpy
import pytest

import messages
from expect import refused
from jobs import GRAD_INPUT, GRAD_OUTPUT, INDICES, Backward
from messages import LZ4_BLOCK, NONE, begin, chunk, execute, split

# Gradients of pooling are mostly zeros: this one compresses well.
SPARSE = Backward.make(planes=(4, 8), input_size=(112, 112), output_size=(7, 7))
JOB = Backward.make()


def compress(data):
    return lz4.block.compress(data, store_size=False)


def decompress(data, raw_bytes):
    return lz4.block.decompress(data, uncompressed_size=raw_bytes)


def compressed_chunks(index, data, size):
    return [chunk(index, at, compress(data[at:at + size]), LZ4_BLOCK, len(data[at:at + size]))
            for at in range(0, len(data), size)]


def codecs_of(client):
    return client.plan(JOB.request()).accept_codecs


def test_plan_offers_lz4(client):
    assert LZ4_BLOCK in codecs_of(client)


@pytest.mark.parametrize("size", [100, 4096, 1 << 20])
def test_compressed_upload(client, size):
    plan = client.plan(SPARSE.request())
    data = SPARSE.data()
    chunks = compressed_chunks(GRAD_OUTPUT, data[GRAD_OUTPUT], size) + compressed_chunks(INDICES, data[INDICES], size)
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), chunks)
    SPARSE.check(client.execute(message)[0])


def test_plain_and_compressed_chunks_of_one_tensor(client):
    plan = client.plan(SPARSE.request())
    raw = SPARSE.data()[GRAD_OUTPUT]
    half = len(raw) // 2
    chunks = [chunk(GRAD_OUTPUT, 0, raw[:half]), chunk(GRAD_OUTPUT, half, compress(raw[half:]), LZ4_BLOCK,
                                                       len(raw) - half)]
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      chunks + split(INDICES, SPARSE.data()[INDICES]))
    SPARSE.check(client.execute(message)[0])


def test_download_is_compressed_only_if_offered(client):
    for offers in ((), (NONE,), (99,)):
        (result,) = client.execute(execute(begin(request=SPARSE.request(), accept_codecs=offers), SPARSE.chunks()))
        SPARSE.check(result)
        assert set(result.codecs) == {NONE}


def test_compressed_download(client):
    """With the offer the server may compress where it pays; what comes has to decode to the same bits."""
    message = execute(begin(request=SPARSE.request(), accept_codecs=(LZ4_BLOCK,)), SPARSE.chunks())
    (result,) = client.execute(message, decode=decompress)
    SPARSE.check(result)
    assert set(result.codecs) <= {NONE, LZ4_BLOCK}


def test_compressed_download_keeps_to_the_chunk_size(client):
    message = execute(begin(request=SPARSE.request(), accept_codecs=(LZ4_BLOCK,), max_chunk_bytes=8192),
                      SPARSE.chunks())
    (result,) = client.execute(message, decode=decompress)
    SPARSE.check(result)
    assert max(result.chunk_sizes) <= 8192


RAW = JOB.data()[GRAD_OUTPUT]
BROKEN = {
    "raw_bytes too small": (compress(RAW), len(RAW) - 1),
    "raw_bytes too large": (compress(RAW[:-4]), len(RAW)),
    "raw_bytes missing": (compress(RAW), 0),
    "raw_bytes negative": (compress(RAW), -1),
    "noise": (b"\xff" * 50, len(RAW)),
    "cut": (compress(RAW)[:-3], len(RAW)),
    "trailing byte": (compress(RAW) + b"\x00", len(RAW)),
}


@pytest.mark.parametrize("data, raw_bytes", BROKEN.values(), ids=BROKEN.keys())
def test_data_that_do_not_decode_are_refused(client, data, raw_bytes):
    plan = client.plan(JOB.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [chunk(GRAD_OUTPUT, 0, data, LZ4_BLOCK, raw_bytes)])
    refused(client.execute_failure(message, half_close=False)[0], "CODEC_INVALID")


@pytest.mark.parametrize("raw_bytes", [1 << 40, (1 << 63) - 1])
def test_huge_raw_bytes_are_refused_without_allocation(server, client, raw_bytes):
    before = server.resident_bytes()
    plan = client.plan(JOB.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [chunk(GRAD_OUTPUT, 0, compress(RAW), LZ4_BLOCK, raw_bytes)])
    failure, _ = client.execute_failure(message, half_close=False)
    assert failure.reason in ("CODEC_INVALID", "TENSOR_DATA_INVALID"), failure
    refused(failure, failure.reason)
    assert server.resident_bytes() - before < 64 << 20


def test_decompressed_surplus_is_refused(client):
    plan = client.plan(JOB.request())
    raw = RAW + bytes(4)
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size),
                      [chunk(GRAD_OUTPUT, 0, compress(raw), LZ4_BLOCK, len(raw))])
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


@pytest.mark.parametrize("values", [numpy.zeros, numpy.ones])
def test_compression_bomb_stays_within_its_tensor(client, values):
    """A few KiB that decode to 4 MiB: legal as long as it is what the tensor holds."""
    job = Backward.make(planes=(4, 16), input_size=(8, 8), output_size=(128, 128))
    job.grad_output = values(job.grad_output.shape, numpy.float32)
    plan = client.plan(job.request())
    size = min(plan.max_chunk_bytes, 1 << 22)
    data = job.data()
    stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
    for item in compressed_chunks(GRAD_OUTPUT, data[GRAD_OUTPUT], size):
        stream.send(execute(None, [item]))
    for item in split(INDICES, data[INDICES]):
        stream.send(execute(None, [item]))
    result = stream.read_result()
    assert bytes(result.tensors[GRAD_INPUT]) == job.expected()
    stream.finish()
