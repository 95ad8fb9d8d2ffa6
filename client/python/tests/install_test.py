"""Installing the package, as the README says, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

PACKAGE = Path(__file__).resolve().parents[1]

USE = """
import sys
import aclnn_client
import aclnn_client.aio
import numpy

client = aclnn_client.Client(sys.argv[1], timeout=60)
out, indices = client.adaptive_max_pool2d(numpy.arange(16, dtype="f4").reshape(1, 4, 4), 1)
assert (out.item(), indices.item()) == (15, 15)
assert not any(name.split(".")[0] == "google" or name.startswith("torch") for name in sys.modules), "needs too much"
print(aclnn_client.__file__)
"""


def environment(**more: str) -> Dict[str, str]:
    """This process's environment, without what would find the package in the tree or the network."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}


def source_copy(folder: Path) -> Path:
    """The package's files as in a fresh clone; building leaves things in the tree."""
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".pytest_cache")
    return Path(shutil.copytree(PACKAGE, folder / "python", ignore=ignored))


def test_the_tree_works_as_it_is(server_process: str, tmp_path: Path) -> None:
    source = source_copy(tmp_path)
    command = [sys.executable, "-c", USE, server_process]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(source)), cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(source))


def test_pip_installs_it_into_a_virtual_environment(server_process: str, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--system-site-packages", str(venv)], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"no virtual environments here: {made.stderr or made.stdout}")
    python = str(venv / "bin" / "python")

    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        done: Any = subprocess.run([python, *words], env=environment(), cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    run("-m", "pip", "install", "--no-build-isolation", str(source_copy(tmp_path)))
    assert run("-c", USE, server_process).stdout.startswith(str(venv))
    assert "aclnn-client" in run("-m", "pip", "list").stdout
    assert list(venv.glob("lib/*/site-packages/aclnn_client/py.typed"))
