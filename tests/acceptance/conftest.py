"""One server and one Python client for all cases, and the figures at the end."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "client" / "python"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from server_process import ServerProcess  # noqa: E402


@pytest.fixture(scope="session")
def client():
    import aclnn_client
    with ServerProcess() as server:
        yield aclnn_client.Client(server.address, numerics="exact")


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
