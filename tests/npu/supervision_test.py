"""Workers that die, hang or never come up, as callers and observers see it."""

import concurrent.futures
import ctypes.util
import itertools
import os
import signal
import subprocess

import grpc
import pytest

import aclnn_client
import pool_jobs
from aclnn_client import AclnnError
from npu import EmulatedServer, all_up, healthy_devices, is_gone, npu_target, open_descriptors, wait_until
from server_process import BINARY, ServerProcess

JOBS = pool_jobs.mixed()
# So that a stopped worker is noticed soon; a loaded machine still answers within it.
HEARTBEAT = ("--npu-heartbeat-timeout", "2s")


def test_there_is_a_worker_for_each_device(npu_server, client):
    assert len(npu_server.workers()) == 2
    target = npu_target(client)
    assert target.available and [device.name for device in target.devices] == ["npu:0", "npu:1"]
    assert all(device.healthy and "emulated" in device.detail for device in target.devices)


def test_both_devices_get_work(npu_server, client):
    def jiffies(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return sum(int(word) for word in file.read().rpartition(")")[2].split()[11:13])

    def busy():
        for job in JOBS:
            job.run(client)
        return all(jiffies(pid) > before[pid] for pid in before)

    before = {pid: jiffies(pid) for pid in npu_server.workers()}
    wait_until(busy, "both workers had computed")


def test_worker_has_no_descriptor_of_the_server(npu_server):
    """But for its pipe, the arena and the log; what else it has it opened itself."""
    with aclnn_client.Client(npu_server.address) as client:
        client.server_info()
        for pid in npu_server.workers():
            names = open_descriptors(pid)
            assert sum(name.startswith("socket:") for name in names) == 1
            assert not any(name.endswith(".sock") for name in names)
            with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
                assert "aclnn-arena" in file.read()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_lost_worker_is_replaced(start, how):
    server, client = start(2, *HEARTBEAT)
    for _ in range(3):
        victim = server.workers()[0]
        os.kill(victim, how)
        wait_until(lambda: is_gone(victim), "the worker was gone")  # noqa: B023
        wait_until(lambda: all_up(server, client, 2), "both devices were back")
        for job in JOBS[:4]:
            assert job.run(client).summary.target == "npu"
    assert len(server.workers()) == 2


def test_job_on_a_lost_worker_runs_again(start):
    """Each second job of a process ends it: the first is the probe, so every fresh worker dies of its first real job,
    but for the one that was restarted last."""
    server, client = start(2, emulator={"FAULT": "crash@3"})
    attempts = [job.run(client).summary.attempts for job in JOBS * 2]
    assert max(attempts) > 1
    del server


def test_job_that_may_move_goes_to_the_cpu(start):
    server, client = start(1, emulator={"FAULT": "crash@2"}, target="auto")
    result = JOBS[1].run(client)
    assert (result.summary.target, result.summary.numerics, result.summary.attempts) == ("cpu", "exact", 2)
    del server


def test_poisonous_job_is_refused_and_the_others_go_on(start):
    poison, good = JOBS[2], JOBS[3]
    elements = poison.expected.size
    server, client = start(2, emulator={"FAULT": f"crash:elements={elements}"})
    for _ in range(4):
        with pytest.raises(AclnnError) as error:
            poison.run(client)
        assert (error.value.reason, error.value.code) == ("DEVICE_LOST", grpc.StatusCode.UNAVAILABLE)
        assert error.value.status == 361001
        result = good.run(client)
        assert result.summary.target == "npu"
    wait_until(lambda: all_up(server, client, 2), "both devices were back")


def test_flood_of_poisonous_jobs_does_not_take_the_pool_down(start):
    """So many that the devices would be given up if each of their first attempts came before the second ones."""
    poison, good = JOBS[2], JOBS[3]
    server, client = start(2, emulator={"FAULT": f"crash:elements={poison.expected.size}"})

    def take_poison(_):
        with pytest.raises(AclnnError) as error:
            poison.run(client)
        return str(error.value)

    with concurrent.futures.ThreadPoolExecutor(20) as threads:
        refused = threads.map(take_poison, range(20))
        for _ in range(4):
            assert good.run(client).summary.target == "npu"
        assert all("each of 3 attempts was lost" in text for text in refused)
    assert good.run(client).summary.target == "npu"
    wait_until(lambda: all_up(server, client, 2), "both devices were back")


@pytest.mark.parametrize("fault", ["hang@2", "ecc@2"])
def test_device_fault_costs_an_attempt(start, fault):
    server, client = start(1, "--npu-job-timeout", "2s", emulator={"FAULT": f"{fault}"}, target="auto")
    result = JOBS[1].run(client)
    assert (result.summary.target, result.summary.attempts) == ("cpu", 2)
    wait_until(lambda: healthy_devices(client) == 1, "the device was back")
    del server


def test_health_tells_of_one_bad_device(start):
    server, client = start(2, emulator={"FAULT": "refuse-init:device=1"})
    target = npu_target(client)
    assert [device.healthy for device in target.devices] == [True, False]
    assert target.available and target.devices[1].detail
    assert client.health("npu") and client.health("npu:0") and not client.health("npu:1")
    assert client.health() and client.health("aclnn.v1.OperatorService")
    for job in JOBS:
        assert job.run(client).summary.target == "npu"
    del server


def test_health_tells_that_all_are_down_and_back(start):
    server, client = start(2, *HEARTBEAT)
    assert client.health("npu")

    def are_down():
        """Each worker that comes is killed, so that the pauses between restarts get longer and are seen."""
        for pid in server.workers():
            os.kill(pid, signal.SIGKILL)
        return not client.health("npu")

    wait_until(are_down, "the devices were down")
    wait_until(lambda: client.health("npu") and all_up(server, client, 2), "the devices were back")
    JOBS[0].run(client)


def test_no_device_comes_up(start):
    server, client = start(2, "--max-queue-time", "1s", emulator={"FAULT": "refuse-init"})
    assert not client.health("npu") and client.health()
    assert not npu_target(client).available
    assert JOBS[1].run(client, target="auto").summary.target == "cpu"
    with pytest.raises(AclnnError) as error:
        JOBS[1].run(client)
    assert error.value.reason in ("QUEUE_TIMEOUT", "DEVICE_LOST")
    del server


def test_missing_file_is_said_at_the_start():
    cases = [*itertools.product(("--npu-library", "--npu-worker"), ("/nonexistent/file", "/usr/lib")),
             ("--capsule-dir", "/proc/nonexistent/folder"), ("--capsule-dir", __file__)]
    for flag, path in cases:
        done = subprocess.run([BINARY, "--listen", "127.0.0.1:0", "--npu", "emulated", flag, path],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=120, check=False)
        assert done.returncode == 2
        assert flag in done.stderr and path in done.stderr


@pytest.mark.parametrize("library, emulator, expected", [
    (ctypes.util.find_library("z"), {}, "aclInit"),
    (__file__, {}, "invalid ELF header"),
    (None, {"FAULT": "stub"}, "100039"),
], ids=["another library", "no library", "stub"])
def test_unusable_library_is_a_clear_message(start, library, emulator, expected):
    flags = []
    if library is not None:
        folder = "" if os.path.isabs(library) else "/usr/lib/x86_64-linux-gnu/"
        flags = ["--npu-library", folder + library]
    server, client = start(1, *flags, emulator=emulator)
    (device,) = npu_target(client).devices
    assert not device.healthy and expected in device.detail
    assert JOBS[0].run(client, target="auto").summary.target == "cpu"
    del server


def test_workers_end_with_a_server_that_is_killed():
    server = EmulatedServer(2)
    server.start()
    workers = server.workers()
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGSTOP)
    server.kill()
    for pid in workers:
        wait_until(lambda: is_gone(pid), "the worker had ended")  # noqa: B023


def test_workers_end_with_a_server_that_stops():
    server = EmulatedServer(2)
    server.start()
    workers = server.workers()
    server.stop()
    assert all(is_gone(pid) for pid in workers)


def test_stop_does_not_wait_for_a_device_that_hangs(start):
    """Its caller has given up already; the device's own limit would be an hour."""
    server, _ = start(1, "--drain-time", "1s", "--npu-job-timeout", "1h", emulator={"FAULT": "hang@2"})
    with aclnn_client.Client(server.address, target="npu", timeout=2) as impatient:
        with pytest.raises(AclnnError) as error:
            JOBS[0].run(impatient)
    assert error.value.code == grpc.StatusCode.DEADLINE_EXCEEDED
    server.stop()


def test_without_devices_there_is_no_target():
    with ServerProcess() as server, aclnn_client.Client(server.address, target="npu") as client:
        with pytest.raises(AclnnError) as error:
            JOBS[0].run(client)
        assert error.value.reason == "TARGET_UNAVAILABLE"
        with pytest.raises(AclnnError):
            client.health("npu")
