"""Limits: memory, queue, executors, idle time. What is refused, and that everything is given back."""

import threading

import grpc
import pytest

import messages
from calls import SERVICE, CallFailed
from expect import refused
from jobs import GRAD_INPUT, Backward, forward_request
from messages import begin, execute

MEBIBYTE = 1 << 20
SMALL = Backward.make()
BUDGET_MEBIBYTES = 32
# 17.8 MiB of tensors, of which one message holds the inputs, and what the kernel takes for its workspace (below
# 10 MiB): the budget holds one of these, not two.
HALF = Backward.make(planes=(1, 240), input_size=(128, 128), output_size=(32, 32))
# 21.9 MiB of tensors, and the like for a workspace: nothing that is left of a HALF leaves room for it.
WHOLE = Backward.make(planes=(1, 200), input_size=(128, 128), output_size=(64, 64))


def whole_budget_job(client):
    """Runs a job that fits only when (nearly) the whole budget is free."""
    finish(client.stream().send(execute(begin(request=WHOLE.request()))), WHOLE)


def stalled(client, job=HALF):
    """A job that has its memory and waits for its data."""
    stream = client.stream().send(execute(begin(request=job.request())))
    stream.read_accepted()
    return stream


def finish(stream, job=HALF):
    for item in job.chunks():
        stream.send(execute(None, [item]))
    job.check(stream.finish()[0])


@pytest.fixture
def small_server(start_server):
    """Memory for one HALF at a time."""
    return lambda *flags: start_server("--memory-limit", f"{BUDGET_MEBIBYTES}MiB", *flags)


# ---- Memory


def test_job_larger_than_the_budget_is_refused_in_phase_one(small_server, connect):
    client = connect(small_server())
    request = forward_request((1, 1, 4096, 4096), (2, 2))
    failure = refused(client.plan_failure(request), "JOB_TOO_LARGE")
    assert int(failure.metadata["job_bytes"]) > int(failure.metadata["limit_bytes"])
    assert int(failure.metadata["limit_bytes"]) <= BUDGET_MEBIBYTES * MEBIBYTE
    assert failure.metadata["job_bytes"] in failure.message and failure.metadata["limit_bytes"] in failure.message
    failure, _ = client.execute_failure(execute(begin(request=request)))
    refused(failure, "JOB_TOO_LARGE")


def test_job_waits_for_memory_and_gets_it(small_server, connect):
    client = connect(small_server())
    first = stalled(client)
    second = client.stream().send(execute(begin(request=HALF.request())))
    finish(first)
    second.read_accepted()
    finish(second)


def test_small_jobs_run_beside_a_stalled_one(small_server, connect):
    client = connect(small_server())
    first = stalled(client)
    for _ in range(20):
        SMALL.run(client)
    finish(first)


def test_small_job_overtakes_a_long_queue(small_server, connect):
    """Its memory is free: it need not wait until the large ones before it are given up."""
    client = connect(small_server("--max-queue", "1000", "--max-queue-time", "1h"))
    first = stalled(client)
    streams = [client.stream().send(execute(begin(request=HALF.request()))) for _ in range(150)]
    for _ in range(20):
        SMALL.run(client)
    for stream in streams:
        stream.cancel()
    finish(first)


def test_waiting_jobs_are_served_in_the_end(small_server, connect):
    client = connect(small_server())
    streams = [client.stream().send(execute(begin(request=HALF.request()), HALF.chunks()[:1])) for _ in range(12)]
    for stream in streams:
        for item in HALF.chunks()[1:]:
            stream.send(execute(None, [item]))
        stream.half_close()
    results = []

    def read(stream):
        results.append(stream.read_result())

    threads = [threading.Thread(target=read, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(streams)
    for result in results:
        HALF.check(result)


# ---- Queue


def test_full_queue_refuses_with_advice(small_server, connect):
    client = connect(small_server("--max-queue", "1"))
    first = stalled(client)
    plans = [client.plan(HALF.request()) for _ in range(6)]
    streams = [client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
               for plan in plans]
    # One of them waits and the others are refused: read all of those.
    outcomes = {}

    def watch(number, stream):
        try:
            stream.read_accepted()
        except CallFailed as error:
            outcomes[number] = error.failure

    threads = [threading.Thread(target=watch, args=pair) for pair in enumerate(streams)]
    for thread in threads:
        thread.start()
    while len(outcomes) < len(streams) - 1:
        for thread in threads:
            thread.join(0.01)
    for failure in outcomes.values():
        refused(failure, "QUEUE_FULL")
    (waiting,) = set(range(len(streams))) - set(outcomes)
    finish(first)
    threads[waiting].join()
    finish(streams[waiting])
    # A refused begin gave its executor back.
    for number, plan in enumerate(plans):
        if number != waiting:
            stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
            finish(stream)


def test_waiting_too_long_is_refused_with_advice(small_server, connect):
    client = connect(small_server("--max-queue-time", "200ms"))
    first = stalled(client)
    plan = client.plan(HALF.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size))
    refused(client.execute_failure(message, half_close=False)[0], "QUEUE_TIMEOUT")
    finish(first)
    finish(client.stream().send(message))


def test_caller_that_leaves_the_queue_frees_its_place(small_server, connect):
    client = connect(small_server("--max-queue", "1"))
    first = stalled(client)
    for _ in range(10):
        second = client.stream(timeout=0.05).send(execute(begin(request=HALF.request())))
        failure = second.fail()
        assert failure.code.name == "DEADLINE_EXCEEDED" or failure.reason == "QUEUE_FULL", failure
    finish(first)
    whole_budget_job(client)


# ---- Executors


def test_too_many_executors_are_refused_with_advice(start_server, connect):
    client = connect(start_server("--max-executors", "3"))
    plans = [client.plan(SMALL.request()) for _ in range(3)]
    refused(client.plan_failure(SMALL.request()), "EXECUTOR_LIMIT")
    # Both phases in one round trip keep nothing.
    SMALL.run(client)
    client.destroy(plans[0].executor)
    client.plan(SMALL.request())
    refused(client.plan_failure(SMALL.request()), "EXECUTOR_LIMIT")
    message = execute(begin(executor=plans[1].executor, workspace_size=plans[1].workspace_size), SMALL.chunks())
    SMALL.check(client.execute(message)[0])
    client.plan(SMALL.request())


def test_expired_executors_make_room(start_server, connect):
    client = connect(start_server("--max-executors", "1"))
    client.plan(SMALL.request(ttl_ms=20))
    planned = 1
    while planned < 5:
        try:
            client.plan(SMALL.request(ttl_ms=20))
            planned += 1
        except CallFailed as error:
            refused(error.failure, "EXECUTOR_LIMIT")


# ---- Idle time


def test_upload_that_stalls_is_ended(start_server, connect):
    client = connect(start_server("--idle-timeout", "300ms"))
    stream = client.stream().send(execute(begin(request=SMALL.request()), SMALL.chunks()[:1]))
    stream.read_accepted()
    failure = refused(stream.fail(), "IDLE_TIMEOUT")
    assert failure.metadata["job"] == "0"


def test_rest_between_jobs_does_not_count(start_server, connect):
    """The stream rests while another one runs into the time-out twice."""
    client = connect(start_server("--idle-timeout", "300ms"))
    resting = client.stream().send(SMALL.message())
    SMALL.check(resting.read_result())
    for _ in range(2):
        other = client.stream().send(execute(begin(request=SMALL.request())))
        refused(other.fail(), "IDLE_TIMEOUT")
    resting.send(SMALL.message())
    SMALL.check(resting.read_result())
    resting.finish()


def test_waiting_for_memory_does_not_count(small_server, connect):
    """A job waits for memory while others run into the time-out, and gets it in the end."""
    client = connect(small_server("--idle-timeout", "300ms"))
    first = client.stream().send(execute(begin(request=HALF.request())))
    first.read_accepted()
    second = client.stream().send(execute(begin(request=HALF.request()), HALF.chunks()))
    refused(first.fail(), "IDLE_TIMEOUT")
    HALF.check(second.read_result())
    second.finish()


def test_reader_that_stalls_is_ended_and_its_memory_comes_back(start_server, connect):
    """Nobody reads the reply of a job whose output doesn't fit into the windows on the way."""
    server = start_server("--memory-limit", "120MiB", "--idle-timeout", "1500ms")
    client = connect(server, options=[("grpc.http2.bdp_probe", 0)])
    job = Backward.make(planes=(1, 24), input_size=(1000, 1000), output_size=(1, 1))
    stream = client.stream().send(job.message())
    stream.read_accepted()
    # The same job needs the budget: it gets it when the stalled one was given up.
    other = connect(server, options=[("grpc.use_local_subchannel_pool", 1)])
    job.run(other)
    # The write under way stands before the trailers: gRPC has room for the code alone.
    assert stream.fail().code == grpc.StatusCode.ABORTED


# ---- Clients that vanish

VANISHING_POINTS = {
    "after the begin": [execute(begin(request=HALF.request()))],
    "in the upload": [execute(begin(request=HALF.request()), HALF.chunks()[:1])],
    "before the last byte": [execute(begin(request=HALF.request()), HALF.chunks(300000)[:-1])],
    "with everything sent": [execute(begin(request=HALF.request()))] + [execute(None, [item])
                                                                       for item in HALF.chunks()],
}


@pytest.mark.parametrize("data", VANISHING_POINTS.values(), ids=VANISHING_POINTS.keys())
@pytest.mark.parametrize("how", ["cancel", "close the channel"])
def test_vanishing_client_gives_everything_back(small_server, connect, data, how):
    server = small_server()
    for _ in range(5):
        client = connect(server, options=[("grpc.use_local_subchannel_pool", 1)])
        stream = client.stream()
        for item in data:
            stream.send(item)
        stream.read_accepted()
        if how == "cancel":
            stream.cancel()
        else:
            client.close()
    whole_budget_job(connect(server))


def test_vanishing_in_the_download_gives_everything_back(start_server, connect):
    server = start_server("--memory-limit", "120MiB")
    job = Backward.make(planes=(1, 24), input_size=(1000, 1000), output_size=(1, 1))
    for _ in range(3):
        client = connect(server, options=[("grpc.use_local_subchannel_pool", 1)])
        stream = client.stream().send(job.message())
        while not stream.read_accepted().tensors.get(GRAD_INPUT):
            stream.read()
        client.close()
    job.run(connect(server))


def test_cancelled_before_its_memory_gives_the_executor_back(small_server, connect):
    client = connect(small_server())
    first = stalled(client)
    plan = client.plan(HALF.request())
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size))
    waiting = client.stream(timeout=0.3).send(message)
    assert waiting.fail().code.name == "DEADLINE_EXCEEDED"
    finish(first)
    finish(client.stream().send(message))


def test_many_unread_calls_do_not_grow_the_server(small_server, connect):
    """Each holds its whole upload back: flow control keeps it out of the server's memory."""
    server = small_server("--max-queue", "1000", "--max-queue-time", "1h")
    client = connect(server)
    first = stalled(client)
    before = server.resident_bytes()
    streams = []
    for _ in range(100):
        stream = client.stream()
        stream.send(execute(begin(request=HALF.request())))
        for item in HALF.chunks():
            stream.send(execute(None, [item]))
        streams.append(stream)
    for _ in range(50):
        SMALL.run(client)
    grown = server.resident_bytes() - before
    for stream in streams:
        stream.cancel()
    finish(first)
    # 100 uploads are 280 MiB; 64 KiB each is what a window lets through.
    assert grown < 100 * MEBIBYTE, f"{grown >> 20} MiB"
    whole_budget_job(client)


@pytest.mark.parametrize("method, compression", [("Execute", grpc.Compression.Gzip),
                                                 ("GetWorkspaceSize", grpc.Compression.Deflate)])
def test_compressed_message_is_refused_and_never_inflated(start_server, connect, method, compression):
    """Less than 100 KiB on the wire: the limit of a message's size can't see what they would become."""
    server = start_server()
    client = connect(server)
    SMALL.run(client)
    before = server.resident_bytes()
    with pytest.raises(grpc.RpcError) as error:
        client.channel.unary_unary(SERVICE + method)(bytes(64 * MEBIBYTE), compression=compression)
    grown = server.resident_bytes() - before
    assert error.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert grown < 32 * MEBIBYTE, f"{grown >> 20} MiB"
    SMALL.run(client)


def test_limits_are_told(small_server, connect):
    client = connect(small_server("--max-queue", "7", "--max-executors", "9", "--idle-timeout", "11s", "--max-connections",
                                  "77"))
    info = messages.Message(client.unary("GetServerInfo", b""))
    limits = info.message(4)
    assert limits.integer(3) == BUDGET_MEBIBYTES * MEBIBYTE
    assert (limits.integer(4), limits.integer(7), limits.integer(9), limits.integer(10)) == (9, 7, 11000, 77)


def test_connections_that_the_limit_of_descriptors_allows_are_told(start_server, connect):
    """Two for each, and 128 for everything else."""
    server = start_server(prefix=("sh", "-c", 'ulimit -n 328; exec "$@"', "sh"))
    info = messages.Message(connect(server).unary("GetServerInfo", b""))
    assert info.message(4).integer(10) == 100
    assert "fewer connections than wanted" in server.log()
