"""What the end-to-end tests share: the helpers of tests/support and a server for those that don't touch it."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from server_process import ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def server():
    with ServerProcess() as server:
        yield server
