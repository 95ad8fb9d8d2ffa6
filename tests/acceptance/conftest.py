"""One server and one Python client for all cases, and the figures at the end."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "client" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import aclnn_client  # noqa: E402
from npu import EmulatedServer  # noqa: E402
from server_process import ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def client():
    with ServerProcess() as server:
        yield aclnn_client.Client(server.address, numerics="exact")


@pytest.fixture(scope="session")
def npu_client():
    """Everything on emulated devices."""
    with EmulatedServer(2) as server:
        yield aclnn_client.Client(server.address, target="npu", numerics="exact")


@pytest.fixture(params=["cpu", "npu"])
def any_client(request):
    """Whoever computes exactly."""
    return request.getfixturevalue("client" if request.param == "cpu" else "npu_client")


def pytest_configure(config):
    config.figures = {}


@pytest.fixture(scope="session")
def figures(pytestconfig):
    """Lines for the end of the run, by name."""
    return pytestconfig.figures


def pytest_terminal_summary(terminalreporter, config):
    for name, text in config.figures.items():
        if name != "rows":
            terminalreporter.write_line(f"{name}: {text}")
