"""Clients on both sides of a fork, and in the child processes of worker pools.

A program with gRPC's own server inside can't be forked safely, so the server is a process of its own here, and
each test runs its parent in a fresh interpreter: other tests of this process leave threads in gRPC.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

HERE = Path(__file__).resolve().parent

PRELUDE = """
import multiprocessing, os, sys, threading, time
import numpy as np
import aclnn_client

address = sys.argv[1]
client = aclnn_client.Client(address, timeout=60)
x = np.arange(2 * 8 * 8, dtype=np.float32).reshape(2, 8, 8)

def use(client, times=1):
    for _ in range(times):
        out, indices = client.adaptive_max_pool2d(x, 2)
        gradient = client.adaptive_max_pool2d_backward(np.ones_like(out), x, indices)
        assert gradient.sum() == 8 and out[1, 1, 1] == 127

def in_child(body):
    '''Runs body in a forked child; its exit status.'''
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return pid

def join(pids):
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0, "a child failed"
"""


def run_program(address: str, body: str) -> str:
    """Runs a program after the prelude; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(body), address],
        env={"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_parent_and_children_use_the_same_client(server_process: str) -> None:
    run_program(
        server_process,
        """
        use(client)
        pids = [in_child(lambda: use(client, 100)) for _ in range(4)]
        use(client, 100)
        join(pids)
        use(client)
        """,
    )


def test_a_client_that_was_not_used_yet_can_be_forked(server_process: str) -> None:
    run_program(
        server_process,
        """
        pids = [in_child(lambda: use(client, 20)) for _ in range(4)]
        use(client, 20)
        join(pids)
        """,
    )


def test_a_fork_waits_for_the_calls_of_other_threads(server_process: str) -> None:
    run_program(
        server_process,
        """
        stop = threading.Event()
        failures = []

        def work():
            try:
                while not stop.is_set():
                    use(client)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            join([in_child(lambda: use(client, 3))])
        stop.set()
        for thread in threads:
            thread.join()
        assert not failures, failures
        """,
    )


def test_children_of_children_work_too(server_process: str) -> None:
    run_program(
        server_process,
        """
        use(client)

        def child():
            use(client)
            join([in_child(lambda: use(client, 5))])
            use(client)

        join([in_child(child)])
        use(client)
        """,
    )


def test_what_a_child_closes_is_its_own(server_process: str) -> None:
    run_program(
        server_process,
        """
        use(client)
        plan = client.get_workspace_size("aclnnMm", {"self": np.ones((2, 3), "f4"), "mat2": np.ones((3, 2), "f4")},
                                         ["out"], {"cubeMathType": 0}, repeatable=True)

        def child():
            client.close()
            with aclnn_client.Client(address) as own:
                use(own)
                assert own.execute(plan, {"self": np.ones((2, 3), "f4"), "mat2": np.ones((3, 2), "f4")})["out"][0, 0] == 3

        join([in_child(child)])
        use(client, 20)
        """,
    )


def test_a_child_that_exits_normally_leaves_the_parent_alone(server_process: str) -> None:
    run_program(
        server_process,
        """
        use(client)
        pid = os.fork()
        if pid == 0:
            use(client)
            sys.exit(0)
        join([pid])
        use(client, 20)
        """,
    )


def test_a_pool_of_forked_workers_reports_errors_whole(server_process: str) -> None:
    run_program(
        server_process,
        """
        use(client)

        def work(number):
            if number == 3:
                client.call("aclnnNothing", {"self": x}, ["out"])
            return float(client.adaptive_max_pool2d(x + number, 1)[0].sum())

        with multiprocessing.get_context("fork").Pool(3) as pool:
            try:
                pool.map(work, range(6), chunksize=1)
            except aclnn_client.AclnnError as error:
                assert error.reason == "OPERATOR_UNKNOWN" and error.code.name == "NOT_FOUND"
            else:
                raise AssertionError("no error")
            assert pool.map(work, [0, 1, 2]) == [190.0, 192.0, 194.0]
        use(client)
        """,
    )


def test_a_child_of_a_process_in_the_middle_of_a_stream_says_so(server_process: str) -> None:
    run_program(
        server_process,
        """
        stream = client.stream()
        stream.submit_call("aclnnAdaptiveMaxPool2d", {"self": x}, ["outputOut", "indicesOut"], {"outputSize": [2, 2]})

        def child():
            try:
                use(client)
            except aclnn_client.AclnnError as error:
                assert "was forked" in str(error) and error.code.name == "FAILED_PRECONDITION"
            else:
                raise AssertionError("no error")
            stream.close()

        join([in_child(child)])
        assert stream.result()["outputOut"].shape == (2, 2, 2)
        stream.close()
        join([in_child(lambda: use(client))])
        use(client)
        """,
    )


def test_a_closed_asyncio_client_does_not_stand_in_the_way(server_process: str) -> None:
    run_program(
        server_process,
        """
        import asyncio
        from aclnn_client.aio import AsyncClient

        async def use_async(refuses_children):
            async with AsyncClient(address, timeout=60) as own:
                assert await own.health()
                if refuses_children:
                    def child():
                        try:
                            client.health()
                        except aclnn_client.AclnnError as error:
                            assert "was forked" in str(error)
                        else:
                            raise AssertionError("no error")
                    join([in_child(child)])

        asyncio.run(use_async(True))
        join([in_child(lambda: use(client, 5))])
        join([in_child(lambda: asyncio.run(use_async(False)))])
        use(client)
        """,
    )
