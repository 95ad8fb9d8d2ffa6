"""Execute: the order of messages and several jobs on one call."""

import grpc
import pytest

import messages
from calls import CallFailed
from expect import refused
from jobs import INDICES, Backward, forward_request
from messages import begin, chunk, execute

JOBS = [Backward.make(seed=seed, planes=(1, 2 + seed)) for seed in range(6)]
LARGE = Backward.make(planes=(4, 64), input_size=(64, 64), output_size=(64, 64))


def with_executor(client, job, **more):
    """The begin of a job that was planned first."""
    plan = client.plan(job.request(**more))
    return begin(executor=plan.executor, workspace_size=plan.workspace_size)


# ---- Order within a job


def test_chunk_before_the_first_begin_is_refused(client):
    failure, _ = client.execute_failure(execute(None, JOBS[0].chunks()), half_close=False)
    refused(failure, "SEQUENCE_INVALID")


def test_message_with_neither_part_is_refused(client):
    refused(client.execute_failure(b"", half_close=False)[0], "SEQUENCE_INVALID")


def test_message_with_neither_part_inside_a_job_is_refused(client):
    first = execute(begin(request=JOBS[0].request()), JOBS[0].chunks()[:1])
    refused(client.execute_failure(first, b"", half_close=False)[0], "SEQUENCE_INVALID")


def test_message_of_hints_alone_is_refused(client):
    refused(client.execute_failure(messages.blob(messages.HINT, b"x"), half_close=False)[0], "SEQUENCE_INVALID")


@pytest.mark.parametrize("sent", [0, 1])
def test_begin_before_the_last_byte_is_refused(client, sent):
    first = execute(begin(request=JOBS[0].request()), JOBS[0].chunks()[:sent])
    failure, results = client.execute_failure(first, JOBS[1].message(), half_close=False)
    refused(failure, "SEQUENCE_INVALID")
    assert results == []


def test_two_begins_in_one_message_are_refused(client):
    data = JOBS[0].message() + JOBS[1].message()
    refused(client.execute_failure(data, half_close=False)[0], "SEQUENCE_INVALID")


def test_call_without_a_job_ends_well(client):
    assert client.execute() == []


def test_call_may_half_close_between_jobs(client):
    stream = client.stream().send(JOBS[0].message())
    JOBS[0].check(stream.read_result())
    assert len(stream.finish()) == 1


def test_repeatable_whole_request_is_refused(client):
    message = execute(begin(request=JOBS[0].request(repeatable=True)), JOBS[0].chunks())
    refused(client.execute_failure(message)[0], "ACLNN_ERR_PARAM_INVALID", says=["repeatable"])


def test_ttl_of_a_whole_request_is_ignored(client):
    (result,) = client.execute(execute(begin(request=JOBS[0].request(ttl_ms=1)), JOBS[0].chunks()))
    JOBS[0].check(result)


def test_whole_request_is_answered_with_its_plan(client):
    (result,) = client.execute(JOBS[0].message())
    plan = client.plan(JOBS[0].request())
    assert result.plan.executor == b""
    assert result.plan.tensors == plan.tensors
    assert result.plan.workspace_size == plan.workspace_size


def test_executor_is_answered_without_a_plan(client):
    (result,) = client.execute(execute(with_executor(client, JOBS[0]), JOBS[0].chunks()))
    JOBS[0].check(result)
    assert result.plan is None


def test_workspace_size_of_a_whole_request_is_ignored(client):
    (result,) = client.execute(execute(begin(request=JOBS[0].request(), workspace_size=1), JOBS[0].chunks()))
    JOBS[0].check(result)


def test_workspace_size_below_the_plan_is_refused(client):
    # The small forward needs no workspace on some machines; what needs one is a 16-bit backward with overlap.
    job = Backward.make(planes=(64, 64), input_size=(9, 9), output_size=(4, 4))
    more = {"data_type": messages.BF16}
    arguments = [messages.tensor("gradOutput", shape=job.grad_output.shape, **more),
                 messages.tensor("self", shape=job.input_shape, **more), job.arguments()[INDICES],
                 messages.tensor("gradInput", shape=job.input_shape, **more)]
    for request in (messages.request(messages.BACKWARD, arguments), forward_request((8, 64, 99, 99), (7, 7))):
        plan = client.plan(request)
        if plan.workspace_size > 0:
            message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size - 1))
            failure = refused(client.execute_failure(message)[0], "ACLNN_ERR_PARAM_INVALID",
                              says=[plan.workspace_size, plan.workspace_size - 1])
            assert "workspace" in failure.message


def test_larger_workspace_size_is_taken(client):
    plan = client.plan(JOBS[0].request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size + 12345), JOBS[0].chunks())
    JOBS[0].check(client.execute(message)[0])


def test_refusal_of_phase_one_comes_back_through_execute(client):
    request = messages.request("aclnnNoSuchOperator", JOBS[0].arguments())
    failure, _ = client.execute_failure(execute(begin(request=request)), half_close=False)
    refused(failure, "OPERATOR_UNKNOWN")
    assert failure.metadata["job"] == "0"


@pytest.mark.parametrize("value", [-1, 64, 1 << 40, -(1 << 63), (1 << 63) - 1])
def test_index_outside_its_plane_is_refused_with_the_first_position(client, value):
    job = Backward.make()
    job.indices.reshape(-1)[[7, 9]] = value, -5
    failure, _ = client.execute_failure(job.message())
    refused(failure, "ACLNN_ERR_PARAM_INVALID", "indices", [value, 7, 64])
    assert failure.metadata["position"] == "7" and failure.metadata["value"] == str(value)


# ---- Several jobs


def test_jobs_of_one_call_are_answered_in_order(client):
    results = client.execute(*(job.message() for job in JOBS))
    for job, result in zip(JOBS, results, strict=True):
        job.check(result)


def test_jobs_with_executors_and_whole_requests_mix(client):
    data = [execute(with_executor(client, job), job.chunks()) if number % 2 else job.message()
            for number, job in enumerate(JOBS)]
    for job, result in zip(JOBS, client.execute(*data), strict=True):
        job.check(result)


def test_many_small_jobs_sent_ahead_while_reading(client):
    stream = client.stream()
    for _ in range(50):
        for job in JOBS:
            stream.send(job.message())
    for _ in range(50):
        for job in JOBS:
            job.check(stream.read_result())
    stream.finish()


def test_jobs_one_after_the_other_on_an_idle_stream(client):
    stream = client.stream()
    for job in JOBS * 3:
        stream.send(execute(begin(request=job.request())))
        assert stream.read_accepted().accepted
        for item in job.chunks(64):
            stream.send(execute(None, [item]))
        job.check(stream.read_result())
    stream.finish()


@pytest.mark.parametrize("bad", range(len(JOBS)))
def test_error_in_the_middle_leaves_earlier_results_and_later_executors(client, bad):
    """All results before the failed job arrive, `job` says which failed, later executors stay usable."""
    begins = [with_executor(client, job) for job in JOBS]
    broken = Backward.make(seed=bad, planes=(1, 2 + bad))
    broken.indices.reshape(-1)[3] = 64
    data = [execute(item, (broken if number == bad else job).chunks())
            for number, (item, job) in enumerate(zip(begins, JOBS))]
    failure, results = client.execute_failure(*data)
    refused(failure, "ACLNN_ERR_PARAM_INVALID", "indices")
    assert failure.metadata["job"] == str(bad)
    assert len(results) == bad
    for job, result in zip(JOBS, results):
        job.check(result)
    for job, item in list(zip(JOBS, begins))[bad + 1:]:
        job.check(client.execute(execute(item, job.chunks()))[0])
    # The failed job had its memory: its executor is used up, as are those before it.
    for job, item in list(zip(JOBS, begins))[:bad + 1]:
        refused(client.execute_failure(execute(item, job.chunks()))[0], "EXECUTOR_CONSUMED")


def test_broken_second_job_leaves_the_first_result(client):
    data = [JOBS[0].message(), execute(begin(request=JOBS[1].request()), [chunk(1, 0, b"abcd")])]
    failure, results = client.execute_failure(*data, half_close=False)
    refused(failure, "TENSOR_DATA_INVALID")
    assert failure.metadata["job"] == "1"
    JOBS[0].check(results[0])


def test_refused_begin_gives_its_executor_back(client):
    plan = client.plan(JOBS[0].request())
    message = execute(begin(executor=plan.executor, max_chunk_bytes=5), JOBS[0].chunks())
    refused(client.execute_failure(message)[0], "ACLNN_ERR_PARAM_INVALID")
    good = begin(executor=plan.executor, workspace_size=plan.workspace_size)
    JOBS[0].check(client.execute(execute(good, JOBS[0].chunks()))[0])


# ---- Neither way of talking may deadlock


def test_write_all_then_read(client):
    """8 MiB up, 4 MiB down, nothing is read before everything was sent."""
    stream = client.stream()
    for item in LARGE.messages():
        stream.send(item)
    LARGE.check(stream.finish()[0])


def test_wait_for_accepted(client):
    stream = client.stream().send(execute(begin(request=LARGE.request())))
    stream.read_accepted()
    for item in LARGE.chunks():
        stream.send(execute(None, [item]))
    LARGE.check(stream.read_result())
    stream.finish()


@pytest.mark.parametrize("window", [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.max_frame_size", 16384),
                                    ("grpc.http2.write_buffer_size", 16384), ("grpc.http2.bdp_probe", 0)])
def test_window_sizes_do_not_deadlock(server, connect, window):
    client = connect(server, options=[window])
    LARGE.run(client)
    stream = client.stream().send(execute(begin(request=LARGE.request())))
    stream.read_accepted()
    for item in LARGE.chunks(65536):
        stream.send(execute(None, [item]))
    LARGE.check(stream.read_result())
    stream.finish()


def test_calls_share_a_channel(client):
    streams = [client.stream() for _ in range(20)]
    for stream, job in zip(streams, JOBS * 4):
        stream.send(job.message())
    for stream, job in zip(streams, JOBS * 4):
        job.check(stream.finish()[0])


# ---- The caller's ends


def test_deadline_ends_the_call_without_details(client):
    stream = client.stream(timeout=0.3).send(execute(begin(request=JOBS[0].request())))
    failure = stream.fail()
    assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED and failure.reason == ""


def test_cancelled_call_leaves_the_server_well(client):
    stream = client.stream().send(execute(begin(request=LARGE.request()), LARGE.chunks()[:1]))
    stream.read_accepted()
    stream.cancel()
    with pytest.raises(CallFailed) as error:
        stream.read()
    assert error.value.failure.code == grpc.StatusCode.CANCELLED
    LARGE.run(client)
