"""Several jobs on one call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from aclnn_client import AclnnError, Client
from fake_operators import Refusal
from fake_server import FakeServer
from sample_jobs import BACKWARD, backward_plan, data_of, example, expected_gradient


def test_results_come_in_the_order_of_the_jobs(server: FakeServer, client: Client) -> None:
    jobs = [example() for _ in range(6)]
    plan = backward_plan(client, jobs[0], repeatable=True)
    with client.stream() as stream:
        assert [stream.submit(plan, data_of(job)) for job in jobs] == list(range(6))
        results = list(stream.results())
    assert all(np.array_equal(r["gradInput"], expected_gradient(j)) for r, j in zip(results, jobs))
    assert len(results) == 6 and server.seen["Execute"] == 1


def test_large_jobs_are_sent_while_results_are_read(client: Client) -> None:
    jobs = [example((1, 4, 1024, 1024), (512, 512)) for _ in range(4)]
    plan = backward_plan(client, jobs[0], repeatable=True)
    with client.stream() as stream:
        for job in jobs:
            stream.submit(plan, data_of(job))
        for job in jobs:
            assert np.array_equal(stream.result()["gradInput"], expected_gradient(job))


def test_a_stream_takes_jobs_after_results_were_read(client: Client) -> None:
    with client.stream() as stream:
        for number in range(3):
            job = example()
            assert stream.submit_call(BACKWARD, job, ["gradInput"]) == number
            assert np.array_equal(stream.result()["gradInput"], expected_gradient(job))


def test_a_failure_comes_after_the_results_before_it(server: FakeServer, client: Client) -> None:
    good, bad = example(), example()
    bad["indices"][...] = -1
    plan = backward_plan(client, good, repeatable=True)
    with client.stream() as stream:
        for job in (good, good, bad, good):
            stream.submit(plan, data_of(job))
        for _ in range(2):
            assert np.array_equal(stream.result()["gradInput"], expected_gradient(good))
        for _ in range(2):
            with pytest.raises(AclnnError) as caught:
                stream.result()
            assert (caught.value.status, caught.value.metadata["job"]) == (161002, "2")
    assert server.executor_count == 1


def test_a_refused_stream_says_why_and_ends(server: FakeServer, client: Client) -> None:
    server.faults.refusals["Execute"] = [Refusal("RESOURCE_EXHAUSTED", "JOB_TOO_LARGE", "too large")]
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    stream = client.stream()
    stream.submit(plan, data_of(job))
    with pytest.raises(AclnnError, match="too large"):
        list(stream.results())
    stream.close()
    assert server.seen["Execute"] == 1


def test_leaving_a_stream_cancels_what_was_not_taken(client: Client) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    plan = backward_plan(client, job, repeatable=True)
    before = threading.active_count()
    with client.stream() as stream:
        for _ in range(3):
            stream.submit(plan, data_of(job))
    with pytest.raises(ValueError, match="closed"):
        stream.submit(plan, data_of(job))
    assert "aclnn_client.Stream" not in [thread.name for thread in threading.enumerate()]
    assert client.health() and before


def test_an_empty_stream_has_no_results(client: Client) -> None:
    with client.stream() as stream:
        assert list(stream.results()) == []
        with pytest.raises(ValueError, match="no job is under way"):
            stream.result()


def test_a_failure_while_messages_are_made_ends_the_stream(client: Client, monkeypatch: Any) -> None:
    from aclnn_client import _codec

    def fails(choice: Any, data: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(_codec.Choice, "encode", fails)
    with client.stream() as stream:
        stream.submit_call(BACKWARD, example(), ["gradInput"])
        with pytest.raises(MemoryError, match="no room"):
            stream.result()


def test_a_reply_against_the_rules_ends_the_stream(server: FakeServer, client: Client) -> None:
    server.faults.break_reply = "double"
    with client.stream() as stream:
        stream.submit_call(BACKWARD, example(), ["gradInput"])
        with pytest.raises(AclnnError, match="breaks the contract"):
            stream.result()


def test_data_that_do_not_fit_leave_the_stream_alone(client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    with client.stream() as stream:
        with pytest.raises(ValueError, match="missing"):
            stream.submit(plan, {})
        stream.submit(plan, data_of(job))
        assert np.array_equal(stream.result()["gradInput"], expected_gradient(job))
