"""A refusal reaches every client with its code and details, each of a hundred times: in the middle of an upload, and
while the client is blocked in a write that nobody reads."""

import asyncio
import concurrent.futures
import contextlib
import os
import pathlib
import subprocess

import grpc
import numpy
import pytest

import aclnn_client
import aclnn_client.aio
from calls import SERVICE, Client, Failure
from expect import refused
from jobs import Backward
from messages import BACKWARD, begin, chunk, execute
from server_process import ServerProcess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = os.environ.get("ACLNN_CLI_BINARY") or str(ROOT / "bazel-bin" / "client" / "cli" / "aclnn")
TIMES = 100
AT_ONCE = 20
# What takes longer hangs.
PATIENCE_SECONDS = 120
# An upload of 3 MiB, of which a window lets 64 KiB through; a budget of 32 MiB holds one of these, not two.
JOB = Backward.make(planes=(1, 240), input_size=(128, 128), output_size=(32, 32))
INPUTS = {"gradOutput": JOB.grad_output, "self": aclnn_client.TensorSpec("float32", JOB.input_shape),
          "indices": JOB.indices}


@pytest.fixture(scope="module")
def server():
    with ServerProcess("--memory-limit", "32MiB", "--max-queue-time", "50ms") as server:
        yield server


@pytest.fixture
def full_server(server):
    """Its memory is taken: a client that begins to write is refused when it has waited."""
    with contextlib.closing(Client(server.address)) as client:
        holder = client.stream(timeout=PATIENCE_SECONDS).send(execute(begin(request=JOB.request())))
        holder.read_accepted()
        yield server
        holder.cancel()


def check_queue_timeout(error):
    assert error.code == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    assert error.reason == "QUEUE_TIMEOUT", error
    assert error.retry_after > 0 and "waited too long" in error.message, error


# ---- Blocked in a write


def test_sync_client_blocked_in_a_write_learns_why(full_server):
    with aclnn_client.Client(full_server.address, retries=0, timeout=PATIENCE_SECONDS) as client:

        def call(_):
            with pytest.raises(aclnn_client.AclnnError) as caught:
                client.call(BACKWARD, INPUTS, ["gradInput"])
            return caught.value

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            errors = list(pool.map(call, range(TIMES)))
    assert len(errors) == TIMES
    for error in errors:
        check_queue_timeout(error)


def test_asyncio_client_blocked_in_a_write_learns_why(full_server):

    async def call(client, gate):
        async with gate:
            with pytest.raises(aclnn_client.AclnnError) as caught:
                await client.call(BACKWARD, INPUTS, ["gradInput"])
            return caught.value

    async def call_all():
        gate = asyncio.Semaphore(AT_ONCE)
        async with aclnn_client.aio.AsyncClient(full_server.address, retries=0, timeout=PATIENCE_SECONDS) as client:
            return await asyncio.gather(*(call(client, gate) for _ in range(TIMES)))

    errors = asyncio.run(call_all())
    assert len(errors) == TIMES
    for error in errors:
        check_queue_timeout(error)


def test_c_client_blocked_in_a_write_learns_why(full_server, fault_seconds, tmp_path):
    """The command is written on the C library. A process each takes its time, so the short form makes do with fewer."""
    times = TIMES if fault_seconds > 0 else TIMES // 5
    numpy.save(tmp_path / "g.npy", JOB.grad_output)
    numpy.save(tmp_path / "i.npy", JOB.indices)
    shape = ",".join(map(str, JOB.input_shape))
    words = [CLI, "call", BACKWARD, "--in", "gradOutput=g.npy", "--in", f"self=fp32[{shape}]", "--in", "indices=i.npy",
             "--out", "gradInput=gi.npy", "--retries", "0", "--server", full_server.address]

    def call(_):
        return subprocess.run(words, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(call, range(times)))
    assert len(runs) == times
    for run in runs:
        assert run.returncode != 0
        assert "QUEUE_TIMEOUT" in run.stderr and "waited too long" in run.stderr, run.stderr


# ---- In the middle of an upload


def wrong_upload():
    """The second chunk leaves a gap; the client knows nothing of it and goes on."""
    chunks = JOB.chunks(65536)
    yield execute(begin(request=JOB.request()), chunks[:1])
    yield execute(None, [chunk(0, 65537, bytes(65536))])
    for item in chunks[2:]:
        yield execute(None, [item])


def check_gap(error):
    refused(Failure.of(error), "TENSOR_DATA_INVALID", says=("65537", "65536"))


def test_refusal_in_the_middle_of_a_sync_upload_arrives(server):
    with grpc.insecure_channel(server.address) as channel:
        method = channel.stream_stream(SERVICE + "Execute")
        for _ in range(TIMES):
            with pytest.raises(grpc.RpcError) as caught:
                for _ in method(wrong_upload(), timeout=PATIENCE_SECONDS):
                    pass
            check_gap(caught.value)


def test_refusal_in_the_middle_of_an_asyncio_upload_arrives(server):

    async def write(call):
        try:
            for data in wrong_upload():
                await call.write(data)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the call is over: its code and details say why

    async def call(method):
        # It reads meanwhile: a status stands behind messages that nobody takes, and asyncio's write waits for it.
        call = method(timeout=PATIENCE_SECONDS)
        writer = asyncio.create_task(write(call))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await call.read() is not grpc.aio.EOF:
                pass
        await writer
        check_gap(caught.value)

    async def call_all():
        async with grpc.aio.insecure_channel(server.address) as channel:
            method = channel.stream_stream(SERVICE + "Execute")
            for _ in range(TIMES):
                await call(method)

    asyncio.run(call_all())
