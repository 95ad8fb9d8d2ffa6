"""Processes that a benchmark starts: they are told what to do on stdin, and end when it ends."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

BINARIES = pathlib.Path(os.environ["ACLNN_BIN"]) / "tests" / "bench" / "transport_bench"
HERE = pathlib.Path(__file__).resolve().parent
# What takes longer hangs.
ANSWER_SECONDS_MAX = 240
END_SECONDS_MAX = 20
# Ends with this process whatever happens to it; a process in between that becomes another keeps that.
FAITHFUL = ("setpriv", "--pdeathsig", "KILL")


class ProgramFailed(Exception):
    """A program ended or said something else than was asked."""


class Program:
    """One of them; a context manager. `address` is where it listens, if it is a server."""

    def __init__(self, *words, prefix=(), serves=False, environment=None):
        self._errors = tempfile.TemporaryFile()
        self._command = [*FAITHFUL, *prefix, *map(str, words)]
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, **(environment or {})})
        self.address = None
        if serves:
            self.address = self._line().removeprefix("listening on ")

    @property
    def pid(self):
        return self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def _fail(self, what):
        self._errors.seek(0)
        told = self._errors.read().decode(errors="replace")[-2000:]
        raise ProgramFailed(f"{' '.join(self._command)}: {what}\n{told}")

    def _line(self):
        watchdog = threading.Timer(ANSWER_SECONDS_MAX, self._process.kill)
        watchdog.start()
        line = self._process.stdout.readline()
        watchdog.cancel()
        if not line:
            self._fail(f"it ended with {self._process.wait()}")
        return line.strip()

    def ask(self, *words):
        """The figures with which it answers, by name."""
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self._line().split()
        if answer[0] != "ok":
            self._fail(f"it said {' '.join(answer)}")
        return {name: float(value) for name, _, value in (word.partition("=") for word in answer[1:])}

    def close(self):
        """Ends it; one that doesn't is killed."""
        if self._process.stdin.closed:
            return
        try:
            self._process.stdin.close()
            self._process.wait(END_SECONDS_MAX)
        except BrokenPipeError:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def binary(name):
    return BINARIES / name


def script(name):
    """The words that run a Python program of this folder."""
    return sys.executable, "-B", HERE / name
