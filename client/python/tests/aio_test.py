"""The asyncio client. What it shares with the synchronous one is tested there."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Awaitable, Callable

import grpc
import numpy as np
import pytest

from aclnn_client import AclnnError, Client, TensorSpec
from aclnn_client.aio import AsyncClient
from fake_operators import Refusal
from fake_server import FakeServer
from sample_jobs import BACKWARD, data_of, example, expected_gradient, specs

BUSY = Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "the queue is full", retry_ms=1)


def run(server: FakeServer, body: Callable[[AsyncClient], Awaitable[Any]], **options: Any) -> Any:
    """Runs a coroutine with a client of its own."""

    async def main() -> Any:
        async with AsyncClient(server.address, timeout=60, **options) as client:
            return await body(client)

    return asyncio.run(main())


def test_it_has_the_methods_of_the_synchronous_client() -> None:
    def public(kind: type) -> "set[str]":
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(AsyncClient) == public(Client)


def test_every_method_works(server: FakeServer) -> None:
    job = example()

    async def body(client: AsyncClient) -> None:
        assert (await client.server_info()).server_version == "0.0-fake"
        assert await client.health() and len(await client.list_operators()) == 3
        out, indices = await client.adaptive_max_pool2d(job["self"], (4, 5))
        assert out.shape == indices.shape == (2, 3, 4, 5)
        spec = TensorSpec.of(job["self"])
        direct = await client.adaptive_max_pool2d_backward(job["gradOutput"], spec, job["indices"])
        assert np.array_equal(direct, expected_gradient(job))
        called = await client.call(BACKWARD, job, ["gradInput"])
        assert np.array_equal(called["gradInput"], direct) and called.summary.target == "cpu"
        plan = await client.get_workspace_size(BACKWARD, specs(job), ["gradInput"], repeatable=True)
        assert np.array_equal((await client.execute(plan, data_of(job)))["gradInput"], direct)
        await client.destroy(plan)

    run(server, body)
    assert server.executor_count == 0


def test_many_jobs_run_at_once(server: FakeServer) -> None:
    jobs = [example((1, 4, 128, 128), (64, 64)) for _ in range(16)]

    async def body(client: AsyncClient) -> Any:
        return await asyncio.gather(*(client.call(BACKWARD, job, ["gradInput"]) for job in jobs))

    for result, job in zip(run(server, body), jobs):
        assert np.array_equal(result["gradInput"], expected_gradient(job))


def test_large_tensors_travel_in_chunks(server: FakeServer) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))

    async def body(client: AsyncClient) -> Any:
        return await client.call(BACKWARD, job, ["gradInput"])

    result = run(server, body, max_chunk_bytes=300_000)
    assert np.array_equal(result["gradInput"], expected_gradient(job))
    assert len(server.request_sizes) > 10 and max(server.request_sizes) < (4 << 20)


@pytest.mark.parametrize("after", [1, 1 << 20, 5 << 20])
def test_a_refusal_in_the_middle_of_an_upload_arrives_with_its_details(server: FakeServer, after: int) -> None:
    server.faults.refuse_after_bytes = after
    job = example((1, 4, 1024, 1024), (512, 512))

    async def body(client: AsyncClient) -> None:
        for _ in range(5):
            server.received_bytes = 0
            with pytest.raises(AclnnError) as caught:
                await client.call(BACKWARD, job, ["gradInput"])
            assert (caught.value.reason, caught.value.code.name) == ("QUEUE_TIMEOUT", "RESOURCE_EXHAUSTED")

    run(server, body, retries=0)


def test_an_early_refusal_arrives_with_its_details(server: FakeServer) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    server.faults.refusals["Execute"] = [Refusal("INVALID_ARGUMENT", "TENSOR_DATA_INVALID", "no")] * 20

    async def body(client: AsyncClient) -> None:
        for _ in range(20):
            with pytest.raises(AclnnError) as caught:
                await client.call(BACKWARD, job, ["gradInput"])
            assert caught.value.reason == "TENSOR_DATA_INVALID"

    run(server, body)


def test_advice_to_try_again_is_followed(server: FakeServer) -> None:
    job = example()
    for method in ("GetWorkspaceSize", "Execute"):
        server.faults.refusals[method] = [BUSY, BUSY]

    async def body(client: AsyncClient) -> Any:
        plan = await client.get_workspace_size(BACKWARD, specs(job), ["gradInput"])
        return await client.execute(plan, data_of(job))

    assert np.array_equal(run(server, body)["gradInput"], expected_gradient(job))
    assert server.seen["Execute"] == 3


def test_a_failure_while_messages_are_made_is_reported_as_such(server: FakeServer, monkeypatch: Any) -> None:
    from aclnn_client import _codec

    def fails(choice: Any, data: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(_codec.Choice, "encode", fails)

    async def body(client: AsyncClient) -> None:
        with pytest.raises(MemoryError, match="no room"):
            await client.call(BACKWARD, example(), ["gradInput"])
        async with client.stream() as stream:
            await stream.submit_call(BACKWARD, example(), ["gradInput"])
            with pytest.raises(MemoryError, match="no room"):
                await stream.result()

    run(server, body)


def test_an_unreachable_server_is_an_error_without_a_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    async def main() -> None:
        async with AsyncClient(f"127.0.0.1:{port}", retries=0) as client:
            for call in (client.server_info(), client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)):
                with pytest.raises(AclnnError) as caught:
                    await call
                assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, "")

    asyncio.run(main())


def test_a_cancelled_task_ends_its_call() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts and says nothing
            address = f"127.0.0.1:{listener.getsockname()[1]}"
            async with AsyncClient(address) as client:
                x = np.zeros((1, 2, 2), np.float32)
                for call in (client.server_info(), client.adaptive_max_pool2d(x, 1)):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(call, 0.05)

    asyncio.run(main())


def test_closing_ends_calls_of_other_tasks() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = AsyncClient(f"127.0.0.1:{listener.getsockname()[1]}", retries=0)
            x = np.zeros((1, 2, 2), np.float32)
            tasks = [asyncio.create_task(c) for c in (client.server_info(), client.adaptive_max_pool2d(x, 1))]
            await asyncio.sleep(0)
            await client.close()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(outcome, AclnnError)
                assert outcome.code in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE)
            with pytest.raises(ValueError, match="closed"):
                await client.server_info()

    asyncio.run(main())


def test_a_client_works_in_one_loop_after_the_other(server: FakeServer) -> None:
    client = AsyncClient(server.address, timeout=60)
    for _ in range(3):
        assert asyncio.run(client.health())
    asyncio.run(client.close())


# ---- Streams


def test_results_come_in_the_order_of_the_jobs(server: FakeServer) -> None:
    jobs = [example((1, 4, 256, 256), (128, 128)) for _ in range(6)]

    async def body(client: AsyncClient) -> None:
        plan = await client.get_workspace_size(BACKWARD, specs(jobs[0]), ["gradInput"], repeatable=True)
        async with client.stream() as stream:
            for number, job in enumerate(jobs):
                assert await stream.submit(plan, data_of(job)) == number
            wanted = iter(jobs)
            async for result in stream.results():
                assert np.array_equal(result["gradInput"], expected_gradient(next(wanted)))
            assert next(wanted, None) is None
            assert await stream.submit_call(BACKWARD, jobs[0], ["gradInput"]) == 6
            assert np.array_equal((await stream.result())["gradInput"], expected_gradient(jobs[0]))

    run(server, body)
    assert server.seen["Execute"] == 1


def test_a_stream_may_be_awaited_before_it_is_entered(server: FakeServer) -> None:
    job = example()

    async def body(client: AsyncClient) -> None:
        async with await client.stream() as stream:
            await stream.submit_call(BACKWARD, job, ["gradInput"])
            assert np.array_equal((await stream.result())["gradInput"], expected_gradient(job))

    run(server, body)


def test_a_failure_comes_after_the_results_before_it(server: FakeServer) -> None:
    good, bad = example(), example()
    bad["indices"][...] = -1

    async def body(client: AsyncClient) -> None:
        async with client.stream() as stream:
            for job in (good, good, bad, good):
                await stream.submit_call(BACKWARD, job, ["gradInput"])
            for _ in range(2):
                assert np.array_equal((await stream.result())["gradInput"], expected_gradient(good))
            for _ in range(2):
                with pytest.raises(AclnnError) as caught:
                    await stream.result()
                assert (caught.value.status, caught.value.metadata["job"]) == (161002, "2")

    run(server, body)


def test_leaving_a_stream_cancels_what_was_not_taken(server: FakeServer) -> None:
    async def body(client: AsyncClient) -> None:
        async with client.stream() as stream:
            await stream.submit_call(BACKWARD, example(), ["gradInput"])
        with pytest.raises(ValueError, match="closed"):
            await stream.submit_call(BACKWARD, example(), ["gradInput"])
        async with client.stream() as stream:
            with pytest.raises(ValueError, match="no job is under way"):
                await stream.result()
        assert await client.health()

    run(server, body)
