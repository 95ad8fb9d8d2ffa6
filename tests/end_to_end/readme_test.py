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
    assert {pathlib.Path(path).suffix for path, _ in EXAMPLES} == {".c", ".py"}


@pytest.mark.parametrize("path, text", EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_example_is_a_copy_of_the_file(path, text):
    assert (ROOT / path).read_text(encoding="utf-8") == text


# What each prints, the sums of gradients among it: they are those of the ones that were sent.
PYTHON_OUTPUT = {
    "adaptive_max_pool2d.py": r"\(1, 3, 7, 7\) \(1, 3, 224, 224\) 147\.0\n(\d+ \(1, 3, 224, 224\) cpu\n){2}",
    "asyncio_jobs.py": r"8\.0\n32\.0\n128\.0\n",
    "stream.py": r"0\.0 cpu\n128\.0 cpu\n256\.0 cpu\n384\.0 cpu\n",
}
PYTHON_EXAMPLES = {pathlib.Path(path).name: text for path, text in EXAMPLES if path.endswith(".py")}


def test_every_python_example_is_shown_and_run():
    folder = ROOT / "client" / "python" / "examples"
    assert sorted(PYTHON_EXAMPLES) == sorted(PYTHON_OUTPUT) == sorted(path.name for path in folder.glob("*.py"))


@pytest.mark.parametrize("name", PYTHON_OUTPUT)
def test_python_example_runs(server, tmp_path, name):
    (tmp_path / "example.py").write_text(PYTHON_EXAMPLES[name], encoding="utf-8")
    output = run([sys.executable, "example.py", server.address], tmp_path,
                 PYTHONPATH=str(ROOT / "client" / "python"))
    assert re.fullmatch(PYTHON_OUTPUT[name], output), output


def test_c_example_runs(server):
    """Bazel built it from the file of which the README holds a copy."""
    (path,) = [path for path, _ in EXAMPLES if path.endswith(".c")]
    output = run([str(BINARIES / path.removesuffix(".c")), server.address])
    assert output.split() == "0 1 0 0 0 0 2 0 3 0 4 0 0 0 0 0".split()


def test_commands_run(server, tmp_path):
    """Every line of "From a shell", in their order, in a folder that is empty."""
    folder = str(BINARIES / "client" / "cli")
    (section,) = re.findall(r"^## From a shell\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^    (\S(?:[^\n]*\\\n)*[^\n]*)$", section, re.MULTILINE)
    assert len([line for line in lines if line.startswith("aclnn ")]) >= 6
    for line in lines:
        run(["bash", "-c", line], tmp_path, PATH=folder + os.pathsep + os.environ["PATH"],
            ACLNN_SERVER_ADDRESS=server.address)
    pooled, grads = numpy.load(tmp_path / "y.npy"), numpy.load(tmp_path / "gi.npy")
    assert grads.shape == (32, 64, 112, 112) and numpy.count_nonzero(grads) == pooled.size


def flags_of_the_server():
    """Flag and default of each line of --help but --help's and --version's; no default: None."""
    text = run([str(BINARIES / "server" / "aclnn-server"), "--help"])
    lines = re.findall(r"^  (--\S+)(?: \S+)? +(.*)$", text, re.MULTILINE)
    found = {flag: re.search(r"\(default: ([^()]*)\)$", words) for flag, words in lines}
    return {flag: match and match.group(1) for flag, match in found.items() if flag not in ("--help", "--version")}


def test_table_of_flags_is_what_help_says():
    rows = re.findall(r"^\| `(--\S+)` \| (.*?) \| (.*) \|$", README, re.MULTILINE)
    assert {flag: default for flag, default, _ in rows} == flags_of_the_server()
    assert len(rows) == len(flags_of_the_server())


def test_reasons_that_the_table_of_flags_names_are_explained():
    named = {word for row in re.findall(r"^\| `--\S+` \|.*$", README, re.MULTILINE)
             for word in re.findall(r"\b[A-Z]+_[A-Z_]+\b|\bDRAINING\b", row)}
    table = "".join(re.findall(r"^\| [A-Z_]+ \|.*$", README, re.MULTILINE))
    assert len(named) >= 8
    assert [name for name in named if name not in table] == []


def test_folders_of_the_map_are_there():
    folders = re.findall(r"^\| `([a-z_]+)/` \|", README, re.MULTILINE)
    assert len(folders) >= 5
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
