"""Fixtures: a fake server in this process, and a client of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest

HERE = Path(__file__).resolve().parent
# However pytest was started: the package from the tree, and the helpers beside the tests.
sys.path[:0] = [str(HERE.parent), str(HERE)]

import aclnn_client  # noqa: E402
from fake_server import FakeServer  # noqa: E402


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A fake server that this test can tell to misbehave."""
    fake = FakeServer().start()
    yield fake
    fake.stop()


@pytest.fixture
def client(server: FakeServer) -> Iterator[aclnn_client.Client]:
    """A client that doesn't wait for ever."""
    with aclnn_client.Client(server.address, timeout=60) as made:
        yield made


@pytest.fixture(scope="session")
def server_process() -> Iterator[str]:
    """The address of a fake server in a process of its own, for tests that fork or measure memory."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "fake_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(HERE.parent)},
    )
    assert process.stdout is not None and process.stdin is not None
    yield process.stdout.readline().split()[-1]
    process.stdin.close()
    process.wait()
