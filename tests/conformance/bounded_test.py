"""What clients can't do to the server, against the real one: its memory, connections and processors stay bounded."""

import os
import resource
import time

import pytest

import messages
from http2_peer import Peer, message, pump_until
from jobs import Backward
from messages import FLOAT, FORWARD, begin, execute
from server_process import SANITIZED

MEBIBYTE = 1 << 20
SMALL = Backward.make()
# What takes longer hangs.
PATIENCE_SECONDS = 120
# 17.8 MiB of tensors and below 10 MiB of workspace: a budget of 32 MiB holds one of these, not two.
HALF = Backward.make(planes=(1, 240), input_size=(128, 128), output_size=(32, 32))
# 21.9 MiB of tensors: nothing that is left of a HALF, or of an endless job, leaves room for it.
WHOLE = Backward.make(planes=(1, 200), input_size=(128, 128), output_size=(64, 64))
# 33 MiB of output from next to no input, and up to 20 MiB of workspace.
WIDE = Backward.make(planes=(1, 24), input_size=(600, 600), output_size=(1, 1))
# 24 MiB of outputs over one element that repeats as 2^21 planes of 2^24: hours of work on one thread, from 4 bytes.
ENDLESS = messages.request(FORWARD, [
    messages.tensor("self", FLOAT, (1, 1 << 21, 4096, 4096), strides=(0, 0, 0, 0), storage_elements=1),
    messages.int_array("outputSize", (1, 1)), messages.tensor("outputOut"), messages.tensor("indicesOut")])
ENDLESS_MESSAGE = execute(begin(request=ENDLESS), messages.split(0, bytes(4)))


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s in vain until {what}"
        time.sleep(0.01)


def process_ticks(server):
    """Processor time of the server."""
    with open(f"/proc/{server.pid}/stat", encoding="ascii") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13]))


def page_faults(server):
    with open(f"/proc/{server.pid}/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[7])


def private_bytes(server):
    """What the process holds besides the tensors' memory and its files."""
    with open(f"/proc/{server.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))


def arena_bytes(server):
    """What the system gave for tensors, touched or not."""
    folder = f"/proc/{server.pid}/fd"
    (arena,) = [os.path.join(folder, name) for name in os.listdir(folder)
                if os.readlink(os.path.join(folder, name)).startswith("/memfd:aclnn-arena")]
    return os.stat(arena).st_blocks * 512


def descriptors(server):
    return len(os.listdir(f"/proc/{server.pid}/fd"))


@pytest.fixture
def peer():
    """Connects by hand; every connection is closed at the end."""
    peers = []

    def open_peer(server, **more):
        peers.append(Peer(server.address, **more))
        return peers[-1]

    yield open_peer
    for item in peers:
        item.close()


@pytest.fixture
def small_server(start_server):
    """Memory for one HALF, WHOLE or endless job at a time."""
    return lambda *flags: start_server("--memory-limit", "32MiB", *flags)


def accepted(client, job):
    """A stream whose job has its memory."""
    stream = client.stream(timeout=PATIENCE_SECONDS).send(execute(begin(request=job.request())))
    stream.read_accepted()
    return stream


def finish(stream, job):
    for item in job.chunks():
        stream.send(execute(None, [item]))
    job.check(stream.finish()[0])


def run_whole_budget(client):
    """Runs a job that needs the whole budget, and the thread that runs large jobs."""
    finish(accepted(client, WHOLE), WHOLE)


def upload_messages(job):
    return b"".join(message(item) for item in job.messages())


# ---- Connections


def crowd(peer, server, count):
    """So many connections that say nothing more than hello."""
    peers = [peer(server) for _ in range(count)]
    for each in peers:
        each.pump()
    return peers


def check_first_attempt_after_the_crowd(server, connect, peers, before):
    """Once the crowd has gone, a new connection is taken at the first attempt: no back-off is needed."""
    for each in peers:
        each.close()
    wait_until(lambda: descriptors(server) <= before, "the server had noticed that its connections are gone")
    SMALL.run(connect(server, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]))


def test_more_idle_connections_than_allowed_lock_nobody_out_afterwards(start_server, connect, peer):
    server = start_server("--max-connections", "20")
    before = descriptors(server)
    peers = crowd(peer, server, 60)
    pump_until(peers, lambda: sum(each.gone for each in peers) == 40, "those above the limit were closed")
    assert "refusing connections" in server.log()
    check_first_attempt_after_the_crowd(server, connect, peers, before)


def test_descriptor_limit_reached_on_purpose_locks_nobody_out_afterwards(start_server, connect, peer):
    """The limit falls while the server runs, below what it has counted on."""
    server = start_server()
    before = descriptors(server)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (before + 80, before + 80))
    peers = crowd(peer, server, 200)
    pump_until(peers, lambda: sum(each.gone for each in peers) > 100, "those beyond the descriptors were closed")
    assert "descriptors" in server.log()
    check_first_attempt_after_the_crowd(server, connect, peers, before)


# ---- Readers


def test_slow_reader_costs_one_output_buffer_and_nothing_more(start_server, connect, peer):
    """It takes a chunk, and another; in between the rest of the budget, and everybody else, is free."""
    server = start_server("--memory-limit", "64MiB")
    client = connect(server)
    run_whole_budget(client)
    reader = peer(server)
    call = reader.open("Execute", message(WIDE.message()))
    reader.give(call, MEBIBYTE)
    pump_until([reader], lambda: call.received_bytes >= MEBIBYTE, "the first chunk came")
    HALF.run(client)
    before, tensors_before = private_bytes(server), arena_bytes(server)
    for number in range(2, 7):
        reader.give(call, MEBIBYTE)
        pump_until([reader], lambda: call.received_bytes >= number * MEBIBYTE, "the next chunk came")  # noqa: B023
        HALF.run(client)  # fits beside the output, and beside nothing more than that
        SMALL.run(client)
        assert arena_bytes(server) <= tensors_before
    grown = private_bytes(server) - before
    assert SANITIZED or grown < 4 * MEBIBYTE, f"{grown >> 10} KiB"
    assert not call.ended


# ---- Deadline and cancel, wherever a job is
#
# A deadline is the server's own to notice here: the peer says it and does nothing when it has passed.

ENDINGS = {"cancel": None, "deadline": "300m"}


def end(reader, call, deadline):
    if deadline is None:
        reader.reset(call)
    pump_until([reader], lambda: call.ended and not reader.pump(), "the call was over")


@pytest.mark.parametrize("deadline", ENDINGS.values(), ids=ENDINGS.keys())
def test_end_while_waiting_frees_the_place(small_server, connect, peer, deadline):
    server = small_server("--max-queue", "1")
    client = connect(server)
    first = accepted(client, HALF)
    waiter = peer(server)
    call = waiter.open("Execute", upload_messages(HALF), timeout=deadline)
    for _ in range(10):
        waiter.pump()
        SMALL.run(client)
    end(waiter, call, deadline)
    finish(first, HALF)
    run_whole_budget(client)


@pytest.mark.parametrize("deadline", ENDINGS.values(), ids=ENDINGS.keys())
def test_end_in_the_upload_gives_the_memory_back(small_server, connect, peer, deadline):
    server = small_server()
    sender = peer(server)
    call = sender.open("Execute", upload_messages(HALF)[:MEBIBYTE], timeout=deadline)
    pump_until([sender], lambda: call.received_bytes > 0 or call.ended, "the job was accepted")
    end(sender, call, deadline)
    run_whole_budget(connect(server))


@pytest.mark.parametrize("deadline", ENDINGS.values(), ids=ENDINGS.keys())
def test_end_while_running_gives_memory_and_processor_back(small_server, connect, peer, deadline):
    """Hours of work: it stops at its next block of planes."""
    server = small_server()
    sender = peer(server)
    before = process_ticks(server)
    call = sender.open("Execute", message(ENDLESS_MESSAGE), timeout=deadline)
    pump_until([sender], lambda: process_ticks(server) - before > 5 or call.ended, "it ran")
    end(sender, call, deadline)
    run_whole_budget(connect(server))


@pytest.mark.parametrize("deadline", ENDINGS.values(), ids=ENDINGS.keys())
def test_end_while_queued_gives_the_memory_back_and_computes_nothing(start_server, connect, peer, deadline):
    """Other jobs, endless too, stand behind one that runs: what is theirs comes back while that one goes on."""
    server = start_server("--memory-limit", "104MiB")
    runner, others = peer(server), peer(server)
    before = process_ticks(server)
    running = runner.open("Execute", message(ENDLESS_MESSAGE))
    pump_until([runner], lambda: process_ticks(server) - before > 5, "the first ran")
    queued = [others.open("Execute", message(ENDLESS_MESSAGE), timeout=deadline) for _ in range(3)]
    client = connect(server)
    for _ in range(10):
        others.pump()
        SMALL.run(client)
    for call in queued:
        end(others, call, deadline)
    # More than the 8 MiB that four endless jobs have left.
    for stream in [accepted(client, job) for job in (WHOLE, HALF)]:
        stream.cancel()
    # Had one of the others been begun, this would wait for hours.
    end(runner, running, None)
    run_whole_budget(client)


@pytest.mark.parametrize("deadline", ENDINGS.values(), ids=ENDINGS.keys())
def test_end_in_the_download_gives_the_memory_back(start_server, connect, peer, deadline):
    server = start_server("--memory-limit", "64MiB")
    reader = peer(server)
    call = reader.open("Execute", message(WIDE.message()), timeout=deadline)
    pump_until([reader], lambda: call.received_bytes > 0 or call.ended, "the download began")
    end(reader, call, deadline)
    WIDE.run(connect(server))


# ---- The budget and the memory


def job_bytes(plan):
    """What a job of this plan reserves, as the contract tells it."""
    return plan.workspace_size + sum(tensor.storage_bytes for tensor in plan.tensors if tensor.transferred)


@pytest.mark.skipif(SANITIZED, reason="the kernels are slow there, and memory is what it is in the plain run")
def test_reserved_bytes_are_the_memory_that_is_taken(start_server, connect):
    """Within a quarter and 2 MiB for each block: pages are huge, and some stay warm."""
    server = start_server("--memory-limit", "512MiB")
    client = connect(server)
    plans = [client.plan(job.request()) for job in (HALF, WHOLE, HALF, WIDE, WHOLE)]
    reserved, streams = 0, []
    for plan in plans:
        stream = client.stream(timeout=PATIENCE_SECONDS)
        stream.send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
        stream.read_accepted()
        streams.append(stream)
        reserved += job_bytes(plan)
        taken = arena_bytes(server)
        assert reserved <= taken <= reserved * 5 // 4 + len(streams) * 2 * 2 * MEBIBYTE
    for stream in streams:
        stream.cancel()
    # All of it again, in other sizes: what was given back is used before more is taken.
    before = arena_bytes(server)
    for _ in range(2):
        for job in (WHOLE, HALF, WIDE):
            job.run(client)
    assert arena_bytes(server) <= before


# 81 were seen; heap that gRPC grows for a moment gives some hundreds.
STEADY_FAULTS_MAX = 2000


@pytest.mark.skipif(SANITIZED, reason="a sanitizer takes pages of its own")
def test_steady_state_takes_no_fresh_page(start_server, connect):
    """40 jobs move 120 MiB up and 630 MiB down, 190,000 pages of 4 KiB: hardly one of them is new."""
    server = start_server()
    client = connect(server)
    for _ in range(20):
        HALF.run(client)
    before = page_faults(server)
    for _ in range(40):
        HALF.run(client)
    faults = page_faults(server) - before
    print(f"{faults} page faults")
    assert faults < STEADY_FAULTS_MAX
