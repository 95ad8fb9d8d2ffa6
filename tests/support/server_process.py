"""A server of its own for a test, and what it left behind when it ended."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ACLNN_SERVER_BINARY") or str(ROOT / "bazel-bin" / "server" / "aclnn-server")
SANITIZED = os.environ.get("ACLNN_SANITIZED") == "1"
# Generous, as a loaded machine is slow: what takes longer hangs.
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 120
LOG_SECONDS_MAX = 120

_LISTENING = re.compile(r"^listening on (\S+)")
_SANITIZER_REPORT = re.compile(
    r"(ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error: |SUMMARY: \w+Sanitizer).*")


class ServerProcess:
    """Starts the server, knows its addresses, stops it and says whether it ended as it should.

    Use as a context manager: leaving it stops the server and fails if it crashed or a sanitizer reported.
    """

    def __init__(self, *flags, listen=("127.0.0.1:0",), environment=None, prefix=()):
        """prefix: a command that becomes the server, such as one that enters a network namespace first."""
        self._folder = tempfile.TemporaryDirectory(prefix="aclnn-server-")
        self._log_path = os.path.join(self._folder.name, "stderr.log")
        command = [*prefix, BINARY]
        for address in listen:
            command += ["--listen", address]
        self.command = command + list(flags)
        if "--drain-grace" not in flags:
            # Nobody is there who would have to be told; a test that wants to be told says so.
            self.command += ["--drain-grace", "0ms"]
        self._expected = len(listen)
        self._environment = {**os.environ, **(environment or {})}
        self.addresses = []
        self.output = []
        self.process = None
        self._terminating = False
        self._stopped = False

    @property
    def address(self):
        return self.addresses[0]

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stop(show_log=kind is not None)

    def start(self):
        # The descriptor of the log is the child's once it runs.
        with open(self._log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self._environment,
                text=True)
        watchdog = threading.Timer(START_SECONDS_MAX, self.process.kill)
        watchdog.start()
        try:
            while len(self.addresses) < self._expected:
                line = self.process.stdout.readline()
                if not line:
                    raise AssertionError(f"the server did not start: {' '.join(self.command)}\n{self.log()}")
                self.output.append(line)
                match = _LISTENING.match(line)
                if match:
                    self.addresses.append(match.group(1))
        finally:
            watchdog.cancel()

    def log(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for_log(self, condition):
        """Until what it has logged satisfies the condition."""
        deadline = time.monotonic() + LOG_SECONDS_MAX
        while not condition(self.log()):
            assert time.monotonic() < deadline and self.is_running(), f"not logged:\n{self.log()[-4000:]}"
            time.sleep(0.01)

    def is_running(self):
        return self.process.poll() is None

    def terminate(self):
        """Asks it to drain and end; does not wait."""
        self._terminating = True
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds=STOP_SECONDS_MAX):
        """Its exit code; a server that doesn't end is killed and that is a failure."""
        self._terminating = True
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end within {seconds} s\n{self.log()[-4000:]}") from None
        if not self.process.stdout.closed:
            self.output += self.process.stdout.readlines()
            self.process.stdout.close()
        return code

    def stop(self, show_log=False):
        """Ends it with SIGTERM and checks that this was clean."""
        if self._stopped:
            return
        self._stopped = True
        try:
            died = not self.is_running() and not self._terminating
            if self.is_running():
                self.terminate()
            code = self.wait()
            log = self.log()
        finally:
            self._folder.cleanup()
        report = _SANITIZER_REPORT.search(log)
        if show_log:
            print(f"---- the server's log ({' '.join(self.command)})\n{log[-8000:]}")
        assert report is None, f"sanitizer report in the server's log:\n{log[max(0, report.start() - 2000):][:12000]}"
        assert not died, f"the server had ended by itself with {code}\n{log[-4000:]}"
        assert code == 0, f"the server ended with {code}\n{log[-4000:]}"

    def kill(self):
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self._stopped = True
        self._folder.cleanup()

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
