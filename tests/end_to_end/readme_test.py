"""What the README shows is what is there, and works."""

import os
import pathlib
import re
import subprocess
import sys

import numpy
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from server_process import ServerProcess  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("ACLNN_BIN") or ROOT / "bazel-bin")
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def server():
    with ServerProcess() as server:
        yield server


def run(command, folder=ROOT, **environment):
    result = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_readme_has_an_example_of_each_language():
    assert sorted(pathlib.Path(path).suffix for path, _ in EXAMPLES) == [".c", ".py"]


@pytest.mark.parametrize("path, text", EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_example_is_a_copy_of_the_file(path, text):
    assert (ROOT / path).read_text(encoding="utf-8") == text


def test_python_example_runs(server, tmp_path):
    (text,) = [text for path, text in EXAMPLES if path.endswith(".py")]
    (tmp_path / "example.py").write_text(text, encoding="utf-8")
    output = run([sys.executable, "example.py", server.address], tmp_path,
                 PYTHONPATH=str(ROOT / "client" / "python"))
    assert output.splitlines()[0] == "(1, 3, 7, 7) (1, 3, 224, 224) 147.0"


def test_c_example_runs(server):
    """Bazel built it from the file of which the README holds a copy."""
    (path,) = [path for path, _ in EXAMPLES if path.endswith(".c")]
    output = run([str(BINARIES / path.removesuffix(".c")), server.address])
    assert output.split() == "0 1 0 0 0 0 2 0 3 0 4 0 0 0 0 0".split()


def test_commands_run(server, tmp_path):
    """Every `aclnn` line of the README, in their order, on an input of the size that they name."""
    folder = str(BINARIES / "client" / "cli")
    lines = re.findall(r"^    (aclnn (?:[^\n]*\\\n)*[^\n]*)$", README, re.MULTILINE)
    assert len(lines) >= 6
    numpy.save(tmp_path / "x.npy", numpy.random.default_rng(1).normal(size=(32, 64, 112, 112)).astype(numpy.float32))
    for line in lines:
        run(["bash", "-c", line], tmp_path, PATH=folder + os.pathsep + os.environ["PATH"],
            ACLNN_SERVER_ADDRESS=server.address)
    pooled, grads = numpy.load(tmp_path / "y.npy"), numpy.load(tmp_path / "gi.npy")
    assert grads.shape == (32, 64, 112, 112) and numpy.count_nonzero(grads) == pooled.size


def test_folders_of_the_map_are_there():
    folders = re.findall(r"^\| `([a-z_]+)/` \|", README, re.MULTILINE)
    assert len(folders) >= 5
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
