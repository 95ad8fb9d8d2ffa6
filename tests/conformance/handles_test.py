"""Executors and their handles: once, repeatable, destroyed, expired, foreign, forged."""

import os
import time

import pytest

from calls import CALL_SECONDS_MAX
from expect import refused
from jobs import Backward
from messages import begin, blob, execute

JOB = Backward.make()


def use(client, plan, job=JOB):
    """Runs the job; returns None, or how it failed."""
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), job.chunks())
    stream = client.stream().send(message).half_close()
    try:
        job.check(stream.read_result())
    except Exception as error:
        if not hasattr(error, "failure"):
            raise
        return error.failure
    assert stream.read() is None
    return None


def pauses():
    """Growing pauses in seconds, for what happens when some time has passed; fails when they become too long."""
    pause = 0.001
    while pause < CALL_SECONDS_MAX:
        yield pause
        pause *= 2
    raise AssertionError("it has not expired")


def until_expired(client, plan):
    """Uses the handle until the server says that it has expired; before that a one-shot may be used up.

    The pauses grow, as each use renews a repeatable one.
    """
    for pause in pauses():
        failure = use(client, plan)
        if failure is not None and failure.reason != "EXECUTOR_CONSUMED":
            return refused(failure, "EXECUTOR_EXPIRED")
        time.sleep(pause)


# ---- One-shot and repeatable


def test_one_shot_runs_once(client):
    plan = client.plan(JOB.request())
    assert use(client, plan) is None
    refused(use(client, plan), "EXECUTOR_CONSUMED")
    refused(use(client, plan), "EXECUTOR_CONSUMED")


def test_repeatable_runs_until_destroyed(client):
    plan = client.plan(JOB.request(repeatable=True))
    for _ in range(5):
        assert use(client, plan) is None
    client.destroy(plan.executor)
    refused(use(client, plan), "EXECUTOR_EXPIRED")


def test_repeatable_takes_new_data_each_time(client):
    plan = client.plan(JOB.request(repeatable=True))
    for seed in range(5):
        assert use(client, plan, Backward.make(seed=seed)) is None


def test_repeatable_runs_concurrently(client):
    plan = client.plan(JOB.request(repeatable=True))
    start = begin(executor=plan.executor, workspace_size=plan.workspace_size)
    streams = [client.stream().send(execute(start)) for _ in range(8)]
    for stream in streams:
        stream.read_accepted()
    for stream in streams:
        stream.send(execute(None, JOB.chunks()))
    for stream in streams:
        JOB.check(stream.finish()[0])


def test_handles_are_never_the_same(client):
    handles = [client.plan(JOB.request()).executor for _ in range(100)]
    assert len(set(handles)) == 100


def test_handle_may_be_used_over_another_connection(server, client, connect):
    plan = client.plan(JOB.request())
    assert use(connect(server, options=[("grpc.use_local_subchannel_pool", 1)]), plan) is None


# ---- Destroy


def test_destroyed_one_shot_is_consumed(client):
    plan = client.plan(JOB.request())
    client.destroy(plan.executor)
    refused(use(client, plan), "EXECUTOR_CONSUMED")


@pytest.mark.parametrize("repeatable", [False, True])
def test_destroy_is_idempotent(client, repeatable):
    plan = client.plan(JOB.request(repeatable=repeatable))
    for _ in range(3):
        client.destroy(plan.executor)


def test_destroy_succeeds_for_what_was_consumed(client):
    plan = client.plan(JOB.request())
    assert use(client, plan) is None
    client.destroy(plan.executor)


def test_destroy_succeeds_for_what_has_expired(client):
    plan = client.plan(JOB.request(ttl_ms=1))
    until_expired(client, plan)
    client.destroy(plan.executor)


def test_destroy_does_not_touch_a_job_under_way(client):
    plan = client.plan(JOB.request())
    stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
    stream.read_accepted()
    client.destroy(plan.executor)
    stream.send(execute(None, JOB.chunks()))
    JOB.check(stream.finish()[0])


@pytest.mark.parametrize("size", [0, 1, 2, 30, 100, 300, 8191, 8192, 8193, 100000])
def test_what_is_no_handle_is_refused(client, size):
    # The first byte is the format's version, by which a later format would be told.
    version = client.plan(JOB.request()).executor[:1]
    handle = (version + os.urandom(size))[:size]
    refused(client.unary_failure("DestroyExecutor", blob(1, handle)), "EXECUTOR_INVALID")
    refused(client.execute_failure(execute(begin(executor=handle)))[0], "EXECUTOR_INVALID")


@pytest.mark.parametrize("later", [1, 77, 254, 255])
def test_handle_of_another_version_has_to_be_planned_anew(client, later):
    handle = client.plan(JOB.request()).executor
    handle = bytes([(handle[0] + later) % 256]) + handle[1:]
    refused(client.unary_failure("DestroyExecutor", blob(1, handle)), "EXECUTOR_EXPIRED")
    refused(client.execute_failure(execute(begin(executor=handle)))[0], "EXECUTOR_EXPIRED")


def test_destroy_without_a_handle_is_refused(client):
    refused(client.unary_failure("DestroyExecutor", b""), "EXECUTOR_INVALID")


# ---- Holding


def test_second_begin_on_a_held_one_shot_is_consumed(client):
    plan = client.plan(JOB.request())
    start = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size))
    first = client.stream().send(start)
    first.read_accepted()
    refused(client.execute_failure(start, half_close=False)[0], "EXECUTOR_CONSUMED")
    first.send(execute(None, JOB.chunks()))
    JOB.check(first.finish()[0])


def test_concurrent_begins_on_a_one_shot_give_one_winner(client):
    for _ in range(10):
        plan = client.plan(JOB.request())
        message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), JOB.chunks())
        streams = [client.stream().send(message).half_close() for _ in range(8)]
        winners = 0
        for stream in streams:
            try:
                JOB.check(stream.read_result())
                winners += 1
            except Exception as error:
                refused(error.failure, "EXECUTOR_CONSUMED")
        assert winners == 1


# ---- Expiry


def test_expired_handle_is_not_found(client):
    """However quick or slow the machine is: at some pause an executor has expired before its first use."""
    for pause in pauses():
        plan = client.plan(JOB.request(ttl_ms=5))
        assert plan.ttl_ms == 5
        time.sleep(pause)
        failure = use(client, plan)
        if failure is not None:
            refused(failure, "EXECUTOR_EXPIRED")
            return


@pytest.mark.parametrize("repeatable", [False, True])
def test_used_handle_is_not_found_after_its_expiry(client, repeatable):
    until_expired(client, client.plan(JOB.request(ttl_ms=5, repeatable=repeatable)))


def test_expiry_does_not_touch_a_job_under_way(client):
    plan = client.plan(JOB.request(ttl_ms=2000))
    stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
    stream.read_accepted()
    # Planned later with the same life: when that one has expired, the job under way has outlived its handle.
    other = client.plan(JOB.request(ttl_ms=2000))
    until_expired(client, other)
    stream.send(execute(None, JOB.chunks()))
    JOB.check(stream.finish()[0])


def test_plan_says_when_it_expires(client):
    before = time.time() * 1000
    plan = client.plan(JOB.request(ttl_ms=5000))
    after = time.time() * 1000
    assert plan.ttl_ms == 5000
    assert before + 5000 - 50 <= plan.expire_unix_ms <= after + 5000 + 50


def test_default_life_is_a_minute(client):
    assert client.plan(JOB.request()).ttl_ms == 60000


def test_life_is_cut_to_the_maximum(client, start_server, connect):
    assert client.plan(JOB.request(ttl_ms=1 << 50)).ttl_ms == 3600000
    assert client.plan(JOB.request(ttl_ms=(1 << 63) - 1)).ttl_ms == 3600000
    strict = connect(start_server("--default-ttl", "1s", "--max-ttl", "2s"))
    assert strict.plan(JOB.request(ttl_ms=60000)).ttl_ms == 2000
    assert strict.plan(JOB.request()).ttl_ms == 1000


def test_use_renews_a_repeatable_one(client):
    """Used again and again it outlives a one-shot that was planned after it with the same life."""
    plan = client.plan(JOB.request(ttl_ms=3000, repeatable=True))
    other = client.plan(JOB.request(ttl_ms=3000))
    failure = use(client, other)
    while failure is None or failure.reason == "EXECUTOR_CONSUMED":
        assert use(client, plan) is None
        failure = use(client, other)
    refused(failure, "EXECUTOR_EXPIRED")
    assert use(client, plan) is None


# ---- Forged handles


def test_every_changed_byte_makes_a_handle_invalid(client):
    plan = client.plan(JOB.request())
    for position in range(len(plan.executor)):
        forged = bytearray(plan.executor)
        forged[position] ^= 1 << position % 8
        failure = client.unary_failure("DestroyExecutor", blob(1, bytes(forged)))
        refused(failure, "EXECUTOR_EXPIRED" if position == 0 else "EXECUTOR_INVALID")
    assert use(client, plan) is None


def test_cut_or_lengthened_handle_is_invalid(client):
    plan = client.plan(JOB.request())
    for forged in (plan.executor[:-1], plan.executor[:1] + plan.executor[2:], plan.executor + b"\x00", plan.executor * 2,
                   plan.executor[:len(plan.executor) // 2]):
        refused(client.unary_failure("DestroyExecutor", blob(1, forged)), "EXECUTOR_INVALID")


def test_handle_does_not_show_the_request(client):
    assert b"aclnnAdaptive" not in client.plan(JOB.request()).executor
    assert b"gradOutput" not in client.plan(JOB.request()).executor


# ---- Replicas and restarts


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "handle.key"
    path.write_bytes(os.urandom(32))
    path.chmod(0o600)
    return str(path)


def test_replica_with_the_same_key_runs_a_foreign_handle(start_server, connect, key_file):
    first, second = (connect(start_server("--handle-key-file", key_file)) for _ in range(2))
    plan = first.plan(JOB.request())
    assert use(second, plan) is None
    # It remembers: one-shot use holds on each replica by itself.
    refused(use(second, plan), "EXECUTOR_CONSUMED")
    assert use(first, plan) is None
    refused(use(first, plan), "EXECUTOR_CONSUMED")


def test_replica_with_the_same_key_runs_a_repeatable_foreign_handle(start_server, connect, key_file):
    first, second = (connect(start_server("--handle-key-file", key_file)) for _ in range(2))
    plan = first.plan(JOB.request(repeatable=True))
    for client in (second, first, second, first):
        assert use(client, plan) is None
    first.destroy(plan.executor)
    assert use(second, plan) is None
    refused(use(first, plan), "EXECUTOR_EXPIRED")


def test_foreign_handle_may_be_destroyed_before_its_use(start_server, connect, key_file):
    first, second = (connect(start_server("--handle-key-file", key_file)) for _ in range(2))
    plan = first.plan(JOB.request())
    second.destroy(plan.executor)
    refused(use(second, plan), "EXECUTOR_CONSUMED")
    assert use(first, plan) is None


def test_foreign_handle_expires(start_server, connect, key_file):
    first, second = (connect(start_server("--handle-key-file", key_file)) for _ in range(2))
    until_expired(second, first.plan(JOB.request(ttl_ms=5)))


def test_foreign_handle_of_another_key_is_invalid(start_server, connect):
    first, second = (connect(start_server()) for _ in range(2))
    refused(use(second, first.plan(JOB.request())), "EXECUTOR_INVALID")


@pytest.mark.parametrize("kept", [True, False], ids=["same key", "new key"])
def test_restart_keeps_handles_only_with_a_key_file(start_server, connect, key_file, kept):
    flags = ("--handle-key-file", key_file) if kept else ()
    first = start_server(*flags)
    plan = connect(first).plan(JOB.request())
    first.stop()
    failure = use(connect(start_server(*flags)), plan)
    if kept:
        assert failure is None
    else:
        refused(failure, "EXECUTOR_INVALID")
