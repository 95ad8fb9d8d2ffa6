"""Mixed jobs while one worker after the other is killed or stopped: no caller notices, nothing is left behind."""

import collections
import itertools
import os
import signal
import threading
import time

import aclnn_client
import pool_jobs
from npu import EmulatedServer, all_up, children_of, is_gone, npu_target, open_descriptors, wait_until

DEVICES = 2
CALLERS = 4
# The short form goes on until there were so many faults and a job was run twice.
FAULTS_MIN = 6
FAULTS_MAX = 200
FLAGS = ("--npu-heartbeat-timeout", "1s")


class Load:
    """Callers that send jobs of all kinds one after the other and look at each result."""

    def __init__(self, address):
        self.address = address
        self.stopping = threading.Event()
        self.failures = []
        self.attempts = collections.Counter()
        self.targets = collections.Counter()
        jobs = pool_jobs.mixed()
        self.threads = [threading.Thread(target=self.call, args=(jobs, number)) for number in range(CALLERS)]

    def call(self, jobs, number):
        target = "auto" if number % 4 == 0 else "npu"
        try:
            with aclnn_client.Client(self.address, target=target, timeout=120, retries=0) as client:
                for job in itertools.islice(itertools.cycle(jobs), number, None):
                    if self.stopping.is_set():
                        return
                    self.note(self.one_call(client, job) if number % 2 == 0 else self.two_phases(client, job))
        except BaseException as error:  # noqa: B036 - whatever it is, it is told at the end
            self.failures.append(repr(error))

    def one_call(self, client, job):
        return job.run(client)

    def two_phases(self, client, job):
        inputs = {"gradOutput": job.grad_output, "self": job.spec, "indices": job.indices}
        plan = client.get_workspace_size(pool_jobs.BACKWARD, inputs, ["gradInput"], repeatable=True)
        result = client.execute(plan, inputs)
        job.check(result["gradInput"])
        client.destroy(plan)
        return result

    def note(self, result):
        self.attempts[result.summary.attempts] += 1
        self.targets[result.summary.target] += 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def strike(server, number):
    """Kills or stops one worker; its process id."""
    workers = server.workers()
    if not workers:
        return None
    victim = workers[number // 2 % len(workers)]
    try:
        os.kill(victim, signal.SIGKILL if number % 2 == 0 else signal.SIGSTOP)
    except ProcessLookupError:
        return None
    return victim


def strike_often(server, client, load, fault_seconds):
    """Until the time is up, or in the short form until there was enough; how many faults there were."""
    begun = time.monotonic()
    for number in range(FAULTS_MAX if fault_seconds == 0 else 10**9):
        victim = strike(server, number)
        if fault_seconds > 0:
            time.sleep(1)
            if time.monotonic() - begun > fault_seconds:
                return number + 1
            continue
        if victim is not None:
            wait_until(lambda: is_gone(victim), "the worker was gone")  # noqa: B023
        wait_until(lambda: all_up(server, client, DEVICES), "all devices were back")
        if load.failures or (number + 1 >= FAULTS_MIN and max(load.attempts, default=0) > 1):
            return number + 1
    return FAULTS_MAX


def test_no_caller_notices(fault_seconds):
    shared_before = sorted(os.listdir("/dev/shm"))
    with EmulatedServer(DEVICES, *FLAGS) as server:
        with aclnn_client.Client(server.address, timeout=120) as client:
            for job in pool_jobs.mixed():
                job.run(client, target="npu")
            descriptors = len(open_descriptors(server.pid))
            with Load(server.address) as load:
                faults = strike_often(server, client, load, fault_seconds)
            wait_until(lambda: all_up(server, client, DEVICES), "all devices were back")
            print(f"{faults} faults, jobs by attempts {dict(load.attempts)}, by target {dict(load.targets)}")
            assert load.failures == []
            assert max(load.attempts) > 1
            assert npu_target(client).available
            # A connection that was closed may take a moment to go.
            wait_until(lambda: len(open_descriptors(server.pid)) <= descriptors, "its descriptors were back")
            assert len(children_of(server.pid)) == DEVICES == len(server.workers())
            workers = server.workers()
        server.stop()
    assert all(is_gone(pid) for pid in workers)
    assert sorted(os.listdir("/dev/shm")) == shared_before
