"""Every command of the project tells what it takes at once, and refuses what it doesn't know, before it does anything."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("ACLNN_BIN") or ROOT / "bazel-bin")
# What Bazel starts, or sources: nobody types these.
INTERNAL = {
    "deploy/bazel/remote_coverage_tools/unavailable.sh",
    "proto/wire/protoc_test.sh",
    "tests/end_to_end/shared_library_test.sh",
    "tests/runner/run_under_qemu",
}
PROGRAMS = ["server/aclnn-server", "server/npu/worker/aclnn-npu-worker", "client/cli/aclnn"]
# Each has its options in Python as well.
PARSERS = {
    "tests/run": ["tests/runner/main.py"],
    "tests/run-arm64": ["tests/runner/arm64.py"],
    "tests/bench/kernels": ["tests/bench/kernel_bench/main.py"],
    "tests/bench/transport": ["-m", "transport_bench.main"],
}
# Programs that a command may not come to: they install, build or change something.
FORBIDDEN = ("apt-get", "bazel", "sudo", "dpkg-query", "qemu-aarch64", "clang", "clang-format", "mktemp", "git")


def scripts():
    """The executable files of the project that are scripts."""
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = re.findall(r"^100755 \S+ \d\t(.*)$", listed, re.MULTILINE)
    return [path for path in paths if path not in INTERNAL]


COMMANDS = [*scripts(), "tests/lint/lint.py", *PROGRAMS]


class Machine:
    """Runs commands where each program of FORBIDDEN only leaves its name."""

    def __init__(self, folder):
        self.log = folder / "log"
        self.log.write_text("")
        self.folder = folder / "bin"
        self.folder.mkdir()
        for name in FORBIDDEN:
            path = self.folder / name
            path.write_text(f'#!/bin/sh\necho {name} >>"{self.log}"\nexit 1\n')
            path.chmod(0o755)

    def run(self, command, *words):
        environment = {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}",
                       "ACLNN_BAZEL": "bazel", "PYTHONDONTWRITEBYTECODE": "1"}
        path = (BINARIES if command in PROGRAMS else ROOT) / command
        starter = [sys.executable] if command.endswith(".py") else []
        done = subprocess.run([*starter, str(path), *words], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        assert self.log.read_text() == "", "it began to work"
        return done


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_given_at_once(machine, command):
    done = machine.run(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    shown = "tests/run" if command == ".ci/run" else command
    assert shown.rsplit("/", 1)[-1] in done.stdout


@pytest.mark.parametrize("words", [("--no-such-option",), ("--no-such-option=1",)], ids=["plain", "with a value"])
@pytest.mark.parametrize("command", COMMANDS)
def test_unknown_option_is_refused_at_once(machine, command, words):
    done = machine.run(command, *words)
    assert done.returncode == 2 and done.stdout == ""
    assert "--help" in done.stderr or "usage: " in done.stderr


@pytest.mark.parametrize("command", ["deploy/quickstart", "tests/run", "tests/run-arm64", "tests/bench/kernels",
                                     "tests/bench/transport", "deploy/arm64-sysroot", "tests/lint/lint.py"])
def test_argument_of_a_command_without_any_is_refused(machine, command):
    done = machine.run(command, "surplus")
    assert done.returncode == 2
    assert "surplus" in done.stderr and "usage: " in done.stderr


def test_surplus_argument_and_missing_value_are_named(machine):
    assert "unexpected argument '3'" in machine.run("tests/bench/memory", "1", "2", "3").stderr
    assert "--json needs a value: FILE" in machine.run("tests/bench/kernels", "--json").stderr
    assert "--quick takes no value" in machine.run("tests/run", "--quick=1").stderr


def test_unknown_suite_is_refused():
    done = subprocess.run([sys.executable, ROOT / "tests" / "runner" / "main.py", "--only", "nothing"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == "" and "no suite nothing; there are: build " in done.stderr


def options_in(text):
    return set(re.findall(r"(--[a-z][a-z-]*)", text)) - {"--help"}


@pytest.mark.parametrize("command", PARSERS)
def test_help_names_the_options_that_there_are(command):
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "ACLNN_BIN": str(BINARIES),
                   "ACLNN_SERVER_BINARY": str(BINARIES / PROGRAMS[0]),
                   "PYTHONPATH": os.pathsep.join(str(ROOT / path) for path in ("tests/bench", "tests/support",
                                                                               "client/python"))}
    parsed = subprocess.run([sys.executable, *PARSERS[command], "--help"], cwd=ROOT, env=environment,
                            capture_output=True, text=True, timeout=60, check=True).stdout
    shown = subprocess.run([ROOT / command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [line for line in shown.splitlines() if line.startswith("  " + command)]
    assert options_in("\n".join(lines)) == options_in(parsed.split("\n\n")[0])
