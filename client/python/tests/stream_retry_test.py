"""Streams whose connection is lost, or whose server advises to try again: both clients, by the same rules."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any, Callable, Dict, List

import grpc
import numpy as np
import pytest

from aclnn_client import AclnnError
from aclnn_client import _operations as operations
from either_client import KINDS, run_with
from fake_operators import Refusal
from fake_server import FakeServer, Hold
from sample_jobs import BACKWARD, backward_plan, data_of, example, expected_gradient

LOST = Refusal("UNAVAILABLE", "", "Socket closed")
DRAINING = Refusal("UNAVAILABLE", "DRAINING", "draining", retry_ms=1)
REPLIES_PER_JOB = 3  # accepted, a chunk, done
CODE = grpc.StatusCode


@pytest.fixture(params=KINDS)
def run(request: Any, server: FakeServer) -> Callable[..., None]:
    """Runs a coroutine with a client of its own, of either kind."""
    return partial(run_with, request.param, server.address)


async def submit_all(client: Any, stream: Any, jobs: List[Dict[str, np.ndarray]], how: str) -> None:
    """Submits jobs: with a plan for all, with one of its own for each, or without."""
    plan = None
    for job in jobs:
        if how == "call":
            await stream.submit_call(BACKWARD, job, ["gradInput"])
            continue
        if plan is None or how == "one_shot":
            plan = await backward_plan(client, job, repeatable=how == "repeatable")
        await stream.submit(plan, data_of(job))


async def check_results(stream: Any, jobs: List[Dict[str, np.ndarray]]) -> None:
    for job in jobs:
        assert np.array_equal((await stream.result())["gradInput"], expected_gradient(job))


async def fails(stream: Any, **expected: Any) -> AclnnError:
    """Awaits a result that is a failure with these attributes, and stays one."""
    for _ in range(2):
        with pytest.raises(AclnnError) as caught:
            await stream.result()
        assert {name: getattr(caught.value, name) for name in expected} == expected
    return caught.value


async def happened(event: threading.Event) -> None:
    await asyncio.get_running_loop().run_in_executor(None, event.wait)


@pytest.mark.parametrize("lost_after", [0, 1, 2, 3, 4, 8, 9, 11])
@pytest.mark.parametrize("how", ["repeatable", "one_shot", "call"])
def test_what_has_no_result_is_sent_again(server: FakeServer, run: Any, how: str, lost_after: int) -> None:
    jobs = [example() for _ in range(4)]
    server.faults.lose_after_replies = [lost_after]
    done = lost_after // REPLIES_PER_JOB

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, how)
            await check_results(stream, jobs)

    run(body)
    assert server.seen["Execute"] == 2
    begun = -(-lost_after // REPLIES_PER_JOB)
    assert server.jobs_computed == begun + len(jobs) - done
    if how == "one_shot":
        assert server.executor_count == 0
        assert len(jobs) < server.seen["GetWorkspaceSize"] <= 2 * len(jobs) - done


def test_a_large_job_that_was_read_in_part_comes_whole(server: FakeServer, run: Any) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    server.faults.lose_after_replies = [5, 9]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await stream.submit_call(BACKWARD, job, ["gradInput"])
            await check_results(stream, [job])

    run(body)
    assert server.seen["Execute"] == 3


def test_a_connection_that_is_lost_in_the_middle_of_an_upload_does_no_harm(server: FakeServer, run: Any) -> None:
    jobs = [example((1, 4, 1024, 1024), (512, 512)) for _ in range(2)]
    jobs[1]["gradOutput"] = jobs[1]["gradOutput"][..., ::-1]  # is packed to be sent
    server.faults.refuse_after_bytes = 17 << 20  # which is in the second
    server.faults.refuse_once = True
    server.faults.upload_refusal = LOST

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, "repeatable")
            await check_results(stream, jobs)

    run(body)
    assert server.seen["Execute"] == 2


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED"])
def test_what_did_not_come_from_the_service_is_tried_again(server: FakeServer, run: Any, code: str) -> None:
    jobs = [example() for _ in range(2)]
    server.faults.refusals["Execute"] = [Refusal(code, "", "Socket closed")]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, "repeatable")
            await check_results(stream, jobs)

    run(body)
    assert server.seen["Execute"] == 2


@pytest.mark.parametrize("how", ["repeatable", "one_shot", "call"])
def test_advice_to_try_again_is_followed(server: FakeServer, run: Any, how: str) -> None:
    jobs = [example() for _ in range(3)]
    server.faults.refusals["Execute"] = [DRAINING, Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", retry_ms=1)]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, how)
            await check_results(stream, jobs)

    run(body)
    assert server.seen["Execute"] == 3 and server.jobs_computed == 3


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("UNAVAILABLE", "DEVICE_LOST", "lost", 361001, retry_ms=1),
        Refusal("RESOURCE_EXHAUSTED", "JOB_TOO_LARGE", "too large"),
        Refusal("INTERNAL", "", "oops"),
        Refusal("ABORTED", "IDLE_TIMEOUT", "idle"),
    ],
    ids=lambda refusal: refusal.code,
)
def test_what_may_not_help_is_not_tried_again(server: FakeServer, run: Any, refusal: Refusal) -> None:
    server.faults.refusals["Execute"] = [refusal]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, [example()], "repeatable")
            await fails(stream, code=CODE[refusal.code], reason=refusal.reason)

    run(body)
    assert server.seen["Execute"] == 1


@pytest.mark.parametrize("lost_after", [None, 3, 4])
def test_a_wrong_job_fails_alone_and_is_named(server: FakeServer, run: Any, lost_after: Any) -> None:
    jobs = [example() for _ in range(4)]
    jobs[2]["indices"][...] = -1
    server.faults.lose_after_replies = [] if lost_after is None else [lost_after]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, "repeatable")
            await check_results(stream, jobs[:2])
            error = await fails(stream, code=CODE.INVALID_ARGUMENT, status=161002)
            assert error.metadata["job"] == "2"

    run(body)
    assert server.seen["Execute"] == (1 if lost_after is None else 2)


@pytest.mark.parametrize("how", ["repeatable", "one_shot", "call"])
def test_tries_are_bounded(server: FakeServer, run: Any, how: str) -> None:
    server.faults.refusals["Execute"] = [LOST] * 10

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, [example() for _ in range(2)], how)
            await fails(stream, code=CODE.UNAVAILABLE, reason="")

    run(body, retries=3)
    assert server.seen["Execute"] == 4


def test_a_way_that_breaks_on_a_retry_does_not_hide_what_the_server_said(server: FakeServer, run: Any) -> None:
    server.faults.refusals["Execute"] = [DRAINING, LOST, LOST]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, [example()], "repeatable")
            await fails(stream, code=CODE.UNAVAILABLE, reason="DRAINING")

    run(body)
    assert server.seen["Execute"] == 3


def test_a_result_ends_the_matter_of_an_earlier_refusal(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(2)]
    server.faults.refusals["Execute"] = [DRAINING]
    server.faults.lose_after_replies = [REPLIES_PER_JOB, 0, 0]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, "repeatable")
            await check_results(stream, jobs[:1])
            await fails(stream, code=CODE.UNAVAILABLE, reason="")

    run(body)


def test_tries_count_anew_with_each_result(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(4)]
    server.faults.lose_after_replies = [REPLIES_PER_JOB] * 3

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, jobs, "one_shot")
            await check_results(stream, jobs)

    run(body, retries=1)
    assert server.seen["Execute"] == 4 and server.jobs_computed == 4


@pytest.mark.parametrize("how", ["repeatable", "one_shot"])
def test_a_server_that_is_gone_is_an_error(server: FakeServer, run: Any, how: str) -> None:
    async def body(client: Any) -> None:
        async with client.stream() as stream:
            plan = await backward_plan(client, example(), repeatable=how == "repeatable")
            server.stop()
            await stream.submit(plan, data_of(example()))
            await fails(stream, code=CODE.UNAVAILABLE, reason="")

    run(body)


def test_without_retries_nothing_is_sent_again(server: FakeServer, run: Any) -> None:
    server.faults.lose_after_replies = [1]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, [example()], "call")
            await fails(stream, code=CODE.UNAVAILABLE, reason="")

    run(body, retries=0)
    assert server.seen["Execute"] == 1


def test_an_idle_stream_takes_jobs_after_its_connection_was_lost(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(3)]
    server.faults.lose_after_replies = [REPLIES_PER_JOB] * 3

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            for job in jobs:
                await submit_all(client, stream, [job], "repeatable")
                await check_results(stream, [job])

    run(body)
    assert server.jobs_computed == 3


def test_a_plan_that_the_server_forgot_is_made_anew_for_later_jobs_too(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(4)]

    async def body(client: Any) -> None:
        plan = await backward_plan(client, jobs[0], repeatable=True)
        first = plan.executor
        server.forget_executors()
        async with client.stream() as stream:
            for part in (jobs[:3], jobs[3:]):
                for job in part:
                    await stream.submit(plan, data_of(job))
                await check_results(stream, part)
        assert plan.executor != first

    run(body, retries=0)
    assert server.seen == {"GetWorkspaceSize": 2, "Execute": 2} and server.executor_count == 1


@pytest.mark.parametrize("how", ["repeatable", "one_shot"])
def test_a_plan_of_which_nothing_was_sent_is_kept(server: FakeServer, run: Any, how: str) -> None:
    jobs = [example() for _ in range(2)]
    hold = server.faults.holds["DestroyExecutor"] = Hold()

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            once = await backward_plan(client, jobs[0])
            later = await backward_plan(client, jobs[1], repeatable=how == "repeatable")
            server.faults.lose_after_replies = [1]
            server.faults.refusals["GetWorkspaceSize"] = [DRAINING]
            await stream.submit(once, data_of(jobs[0]))
            await happened(hold.reached)
            await stream.submit(later, data_of(jobs[1]))
            hold.released.set()
            await check_results(stream, jobs)

    run(body)
    # Two plans, then the first one anew: refused, and granted.
    assert server.seen == {"GetWorkspaceSize": 4, "DestroyExecutor": 2, "Execute": 2}


def test_a_job_of_a_plan_that_is_just_made_anew_waits_for_it(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(2)]
    hold = Hold()

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            plan = await backward_plan(client, jobs[0], repeatable=True)
            server.forget_executors()
            server.faults.holds["GetWorkspaceSize"] = hold
            await stream.submit(plan, data_of(jobs[0]))
            await happened(hold.reached)
            await stream.submit(plan, data_of(jobs[1]))
            hold.released.set()
            await check_results(stream, jobs)

    run(body)
    assert server.seen == {"GetWorkspaceSize": 2, "Execute": 2}


def test_a_plan_that_stays_unknown_is_an_error(server: FakeServer, run: Any) -> None:
    server.faults.refusals["Execute"] = [Refusal("NOT_FOUND", "EXECUTOR_EXPIRED", "forgotten")] * 10

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            await submit_all(client, stream, [example()], "repeatable")
            await fails(stream, reason="EXECUTOR_EXPIRED")

    run(body)
    assert server.seen["Execute"] == 2


def test_a_refused_plan_counts_as_a_try(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(2)]

    async def body(client: Any) -> None:
        async with client.stream() as stream:
            plans = [await backward_plan(client, job) for job in jobs]
            server.faults.lose_after_replies = [1]
            server.faults.refusals["GetWorkspaceSize"] = [DRAINING]
            for plan, job in zip(plans, jobs):
                await stream.submit(plan, data_of(job))
            await check_results(stream, jobs)

    run(body, retries=2)
    assert server.seen["Execute"] == 2


def test_arguments_may_be_given_in_the_same_dict_each_time(server: FakeServer, run: Any) -> None:
    jobs = [example() for _ in range(3)]
    server.faults.lose_after_replies = [1]

    async def body(client: Any) -> None:
        plan = await backward_plan(client, jobs[0], repeatable=True)
        inputs: Dict[str, Any] = {}
        async with client.stream() as stream:
            for job in jobs:
                inputs.update(data_of(job))
                await stream.submit(plan, inputs)
            await check_results(stream, jobs)

    run(body)


# ---- What ends the trying


def test_advice_beyond_the_time_limit_is_not_followed(server: FakeServer, run: Any) -> None:
    late = Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", retry_ms=25_000)
    server.faults.refusals["Execute"] = [late]

    async def body(client: Any) -> None:
        async with client.stream(timeout=20) as stream:
            await submit_all(client, stream, [example()], "repeatable")
            await fails(stream, reason="QUEUE_FULL")

    run(body)
    assert server.seen["Execute"] == 1


def test_closing_ends_a_pause(server: FakeServer, run: Any, monkeypatch: Any) -> None:
    late = Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", retry_ms=20_000)
    server.faults.refusals["Execute"] = [late]
    pausing = threading.Event()
    check = operations.Pause.check

    def announce(pause: Any, left: Any) -> None:
        check(pause, left)
        pausing.set()

    monkeypatch.setattr(operations.Pause, "check", announce)

    async def body(client: Any) -> None:
        stream = client.stream()
        await submit_all(client, stream, [example()], "repeatable")
        await happened(pausing)
        await stream.close()
        with pytest.raises(AclnnError):
            await stream.result()

    run(body)
    assert server.seen["Execute"] == 1


@pytest.mark.parametrize("where", ["DestroyExecutor", "GetWorkspaceSize", "Execute"])
def test_closing_ends_what_is_under_way(server: FakeServer, run: Any, where: str) -> None:
    hold = Hold()

    async def body(client: Any) -> None:
        stream = client.stream()
        plan = await backward_plan(client, example())
        server.faults.lose_after_replies = [1]
        server.faults.holds[where] = hold
        await stream.submit(plan, data_of(example()))
        await happened(hold.reached)
        await stream.close()
        with pytest.raises(AclnnError):
            await stream.result()
        seen = dict(server.seen)
        server.faults.holds.clear()
        hold.released.set()
        assert await client.health()
        assert server.seen == {**seen, "Check": 1}

    run(body)


def test_closing_the_client_ends_its_streams(server: FakeServer, run: Any) -> None:
    hold = server.faults.holds["Execute"] = Hold()

    async def body(client: Any) -> None:
        stream = client.stream()
        await submit_all(client, stream, [example()], "repeatable")
        await happened(hold.reached)
        await client.close()
        await fails(stream, code=CODE.CANCELLED, reason="")
        hold.released.set()
        await stream.close()

    run(body)
    assert server.seen["Execute"] == 1
