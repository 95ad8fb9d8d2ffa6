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
def shared_servers():
    """The server that tests share, in a list: whoever finds it dead makes a new one."""
    servers = []
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def server(shared_servers, request):
    """A server with default settings that tests share: whatever they do to it, it has to live."""
    if not shared_servers:
        server = ServerProcess()
        server.start()
        shared_servers.append(server)
    server = shared_servers[0]
    yield server
    if not server.is_running():
        # The test that ended it fails; the next one gets another.
        shared_servers.clear()
        server.stop()
    if getattr(request.node, "test_failed", False):
        print(f"---- the shared server's log\n{server.log()[-8000:]}")


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
