"""Installing the package, with the lines of the READMEs, without a network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
ROOT = PACKAGE.parents[1]
READMES = (ROOT / "README.md", PACKAGE / "README.md")

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
    """The files that installing needs as in a fresh clone; building leaves things in the tree."""
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info", ".pytest_cache")
    for name in ("client/python", "deploy"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    return folder


def install_lines(readme: Path) -> str:
    """The example of the README that makes an environment and installs into it."""
    blocks = re.findall(r"(?:^    .*\n)+", readme.read_text(encoding="utf-8"), re.MULTILINE)
    (block,) = [block for block in blocks if "-m venv" in block]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


def test_the_tree_works_as_it_is(server_process: str, tmp_path: Path) -> None:
    source = source_copy(tmp_path) / "client" / "python"
    command = [sys.executable, "-c", USE, server_process]
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(source)), cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(source))


@pytest.mark.parametrize("readme", READMES, ids=["project", "client"])
def test_lines_of_the_readme_install_it_into_a_virtual_environment(
    readme: Path, server_process: str, tmp_path: Path
) -> None:
    clone = source_copy(tmp_path)
    done = subprocess.run(
        ["bash", "-euc", install_lines(readme)], env=environment(), cwd=clone, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    command = [str(clone / "venv" / "bin" / "python"), "-c", USE, server_process]
    used = subprocess.run(command, env=environment(), cwd=tmp_path, check=True, capture_output=True, text=True)
    assert used.stdout.startswith(str(clone / "venv"))
    assert list(clone.glob("venv/lib/*/site-packages/aclnn_client/py.typed"))
