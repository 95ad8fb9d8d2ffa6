"""Streams of the Python client whose server ends and is replaced by another one at the same address."""

import asyncio
import contextlib
import os
import pathlib
import signal
import sys
import threading

import grpc
import numpy as np
import pytest

PYTHON_CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"
sys.path[:0] = [str(PYTHON_CLIENT), str(PYTHON_CLIENT / "tests")]

from aclnn_client import AclnnError, _operations  # noqa: E402
from either_client import KINDS, run_with  # noqa: E402
from sample_jobs import backward_plan, data_of, example, expected_gradient  # noqa: E402
from server_process import ServerProcess  # noqa: E402

# More than the default: a connection may be found broken by several tries before there is another one.
RETRIES = 8


class Servers:
    """A server and the one that takes its place as soon as a client is about to try again, and not before."""

    def __init__(self, monkeypatch):
        self._stack = contextlib.ExitStack()
        self.first = ServerProcess("--npu", "off")
        self.first.start()
        self.second = None
        self.failures = []  # what the client tries again after
        self.replaced = threading.Event()
        check = _operations.Pause.check

        def replace_first(pause, left):
            self.failures.append(pause.error)
            if self.second is None:
                self._replace()
            check(pause, left)

        monkeypatch.setattr(_operations.Pause, "check", replace_first)

    def _replace(self):
        self.first.process.wait()
        self.second = self._stack.enter_context(ServerProcess("--npu", "off", listen=(self.first.address,)))
        self.replaced.set()

    def freeze_first(self):
        """What the client has sent from now on stays without an answer."""
        os.kill(self.first.pid, signal.SIGSTOP)

    def kill_first(self):
        self.first.kill()

    def close(self):
        self.first.stop()
        self._stack.close()


@pytest.fixture
def servers(monkeypatch):
    with contextlib.closing(Servers(monkeypatch)) as made:
        yield made


@pytest.fixture(params=[True, False], ids=["repeatable", "one_shot"])
def repeatable(request):
    return request.param


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


async def submit(client, stream, jobs, repeatable):
    """Submits jobs with a plan of its own each."""
    plans = [await backward_plan(client, job, repeatable=repeatable) for job in jobs]
    for plan, job in zip(plans, jobs):
        await stream.submit(plan, data_of(job))


async def check_results(stream, jobs):
    for job in jobs:
        assert np.array_equal((await stream.result())["gradInput"], expected_gradient(job))


def three_jobs():
    """The first is small; the others are larger than what connections hold on the way."""
    return [example()] + [example((1, 4, 1024, 512), (512, 512)) for _ in range(2)]


def test_killed_before_the_first_result(servers, kind, repeatable):
    jobs = three_jobs()

    async def body(client):
        async with client.stream() as stream:
            plans = [await backward_plan(client, job, repeatable=repeatable) for job in jobs]
            executors = [plan.executor for plan in plans]
            servers.freeze_first()
            for plan, job in zip(plans, jobs):
                await stream.submit(plan, data_of(job))
            servers.kill_first()
            await check_results(stream, jobs)
            assert all(plan.executor != executor for plan, executor in zip(plans, executors))
            if repeatable:
                # What was made anew serves the jobs that follow.
                tried = len(servers.failures)
                await stream.submit(plans[0], data_of(jobs[0]))
                await check_results(stream, jobs[:1])
                assert len(servers.failures) == tried

    run_with(kind, servers.first.address, body, retries=RETRIES)
    assert servers.failures[0].code == grpc.StatusCode.UNAVAILABLE and not servers.failures[0].reason


def test_killed_after_a_result(servers, kind, repeatable):
    jobs = three_jobs()

    async def body(client):
        async with client.stream() as stream:
            plans = [await backward_plan(client, job, repeatable=repeatable) for job in jobs]
            executor = plans[0].executor
            await stream.submit(plans[0], data_of(jobs[0]))
            await check_results(stream, jobs[:1])
            servers.freeze_first()
            for plan, job in zip(plans[1:], jobs[1:]):
                await stream.submit(plan, data_of(job))
            servers.kill_first()
            await check_results(stream, jobs[1:])
            assert plans[0].executor == executor  # its job isn't run again

    run_with(kind, servers.first.address, body, retries=RETRIES)
    assert servers.failures


def test_killed_after_the_last_submit(servers, kind, repeatable):
    jobs = three_jobs()

    async def body(client):
        async with client.stream() as stream:
            await submit(client, stream, jobs, repeatable)
            await check_results(stream, jobs[:1])
            servers.kill_first()  # with the others done, half done or not begun
            await check_results(stream, jobs[1:])

    run_with(kind, servers.first.address, body, retries=RETRIES)


def test_killed_while_the_stream_is_idle(servers, kind, repeatable):
    jobs = three_jobs()

    async def body(client):
        async with client.stream() as stream:
            await submit(client, stream, jobs[:1], repeatable)
            await check_results(stream, jobs[:1])
            servers.kill_first()
            await happened(servers.replaced)
            await submit(client, stream, jobs[1:], repeatable)
            await check_results(stream, jobs[1:])

    run_with(kind, servers.first.address, body, retries=RETRIES)


def test_drained(servers, kind, repeatable):
    jobs = three_jobs()

    async def body(client):
        async with client.stream() as stream:
            plans = [await backward_plan(client, job, repeatable=repeatable) for job in jobs]
            await stream.submit(plans[0], data_of(jobs[0]))
            await check_results(stream, jobs[:1])
            servers.first.terminate()
            await happened(servers.replaced)
            for plan, job in zip(plans[1:], jobs[1:]):
                await stream.submit(plan, data_of(job))
            await check_results(stream, jobs[1:])

    run_with(kind, servers.first.address, body, retries=RETRIES)
    assert (servers.failures[0].reason, servers.failures[0].retry_after) == ("DRAINING", 1)


def test_a_wrong_job_is_not_sent_again(servers, kind, repeatable):
    jobs = [example() for _ in range(4)]
    jobs[2]["indices"][0, 0, 0, 0] = -1

    async def body(client):
        async with client.stream() as stream:
            await submit(client, stream, jobs, repeatable)
            await check_results(stream, jobs[:2])
            for _ in range(2):
                with pytest.raises(AclnnError) as caught:
                    await stream.result()
                assert (caught.value.code, caught.value.status) == (grpc.StatusCode.INVALID_ARGUMENT, 161002)
                assert caught.value.metadata["job"] == "2"

    run_with(kind, servers.first.address, body, retries=RETRIES)
    assert not servers.failures


def test_no_server_takes_its_place(kind, repeatable):
    async def body(client):
        async with client.stream() as stream:
            plan = await backward_plan(client, example(), repeatable=repeatable)
            server.kill()
            await stream.submit(plan, data_of(example()))
            with pytest.raises(AclnnError) as caught:
                await stream.result()
            assert (caught.value.code, caught.value.reason) == (grpc.StatusCode.UNAVAILABLE, "")

    server = ServerProcess("--npu", "off")
    server.start()
    run_with(kind, server.address, body)


async def happened(event):
    await asyncio.get_running_loop().run_in_executor(None, event.wait)
