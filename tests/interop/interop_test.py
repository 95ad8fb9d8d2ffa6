"""A client from another world: node with grpc-js loads the .proto as it stands."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from server_process import ServerProcess  # noqa: E402

PROGRAM = (FOLDER / "client.js").read_text(encoding="utf-8")
CASES = re.findall(r"^  async (\w+)\(\) \{$", PROGRAM, re.MULTILINE)
# What npm says when there is no way to its registry.
NO_NETWORK = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH")


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """Installs the pinned packages into a folder of its own, runs the program, gives what it says."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "client.js"):
        shutil.copy(FOLDER / name, folder)
    npm = subprocess.run(
        ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"], cwd=folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if npm.returncode != 0 and NO_NETWORK.search(npm.stdout):
        pytest.skip("npm cannot reach its registry")
    assert npm.returncode == 0, npm.stdout
    with ServerProcess() as server:
        node = subprocess.run(
            ["node", "client.js", server.address, str(ROOT / "proto")], cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600, check=False)
    assert node.returncode == 0, node.stderr
    return json.loads(node.stdout.splitlines()[-1])


def test_cases_were_found():
    assert "both_phases" in CASES


@pytest.mark.parametrize("case", CASES)
def test_foreign_client(outcome, case):
    assert outcome[case] == "ok"
