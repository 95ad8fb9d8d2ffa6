"""What the tests of the emulated devices share."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "client" / "python"))

import aclnn_client  # noqa: E402
from npu import EmulatedServer  # noqa: E402


@pytest.fixture(scope="session")
def npu_server():
    with EmulatedServer(2) as server:
        yield server


@pytest.fixture
def client(npu_server):
    """Asks for the NPU and doesn't wait for ever."""
    with aclnn_client.Client(npu_server.address, target="npu", timeout=120) as made:
        yield made


@pytest.fixture
def start():
    """Starts servers that end with the test: start(devices, *flags, emulator={...}) -> (server, client)."""
    opened = []

    def start_one(devices, *flags, emulator=None, target="npu", numerics="device", **more):
        server = EmulatedServer(devices, *flags, emulator=emulator, **more)
        server.__enter__()
        opened.append(server)
        client = aclnn_client.Client(server.address, target=target, numerics=numerics, timeout=120)
        opened.append(client)
        return server, client

    yield start_one
    for thing in reversed(opened):
        thing.__exit__(None, None, None)
