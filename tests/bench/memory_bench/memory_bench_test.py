"""The whole way once, small; what it says about speed is nobody's business here."""

import os
import pathlib
import re
import subprocess

PROGRAM = pathlib.Path(os.environ["ACLNN_BIN"]) / "tests" / "bench" / "memory_bench" / "memory_bench"


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)


def test_every_figure_is_there():
    done = run("1", "1")
    assert done.returncode == 0, done.stderr
    figures = re.findall(r" ([0-9.]+) (?:GB/s|ms|times)", done.stdout)
    assert len(figures) == 9
    assert all(float(figure) > 0 for figure in figures)


def test_bad_number_is_refused():
    for arguments, named in ((["0"], "MIB"), (["many"], "MIB"), (["1", "100"], "ROUNDS"), (["1", ""], "ROUNDS")):
        done = run(*arguments)
        assert done.returncode == 2
        assert named in done.stderr and "allowed are 1 to" in done.stderr
