"""Servers and clients for the tests of the contract."""

import contextlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from calls import Client  # noqa: E402
from server_process import ServerProcess  # noqa: E402


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item, call):
    """Lets fixtures know whether their test failed."""
    outcome = yield
    if call.when == "call":
        item.test_failed = outcome.get_result().failed


@pytest.fixture(scope="session")
def shared_server():
    with ServerProcess() as server:
        yield server


@pytest.fixture
def server(shared_server, request):
    """A server with default settings that tests share: whatever they do to it, it has to live."""
    yield shared_server
    if getattr(request.node, "test_failed", False):
        print(f"---- the shared server's log\n{shared_server.log()[-8000:]}")
    assert shared_server.is_running(), f"the server died\n{shared_server.log()[-8000:]}"


@pytest.fixture
def client(server):
    with contextlib.closing(Client(server.address)) as client:
        yield client


@pytest.fixture
def start_server(request):
    """Starts servers with flags of the test's choice; each is stopped, and checked, at the end."""
    with contextlib.ExitStack() as stack:

        def stop(server):
            server.stop(show_log=getattr(request.node, "test_failed", False))

        def start(*flags, **more):
            server = ServerProcess(*flags, **more)
            server.start()
            stack.callback(stop, server)
            return server

        yield start


@pytest.fixture
def connect():
    """Connects to servers; every channel is closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda server, **more: stack.enter_context(
            contextlib.closing(Client(getattr(server, "address", server), **more)))
