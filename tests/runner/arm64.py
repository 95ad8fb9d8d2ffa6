"""The one command of the cross-build; tests/run-arm64 starts it when the packages and the libraries are there."""

import argparse
import dataclasses
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import bazel
from counts import Counts
from suites import Context, Suite, run_pytest

CONFIG = "arm64"
KERNEL_TESTS = ("//kernels/...", "//tests/golden/...")
# Left out are two tests of what qemu does not play: that a forked process has no arena (MADV_DONTFORK), and how many
# pages are touched (its own count too).
OTHER_TESTS = ("//client/...", "//proto/...", "//server/...", "//tests/fuzz/...", "--",
               "-//server/npu/worker:arena_mapping_test", "-//client/c:heap_hint_test")
CLIENT_TESTS = ("//tests/end_to_end:c_client_test", "//tests/end_to_end:c_client_failure_test",
                "//tests/end_to_end:c_golden_test")
CLIENT_TESTS_SHORT = ("//tests/end_to_end:c_client_test",)
SERVER = "//server:aclnn-server"
PROGRAMS = {"server": "server/aclnn-server", "worker": "server/npu/worker/aclnn-npu-worker", "cli": "client/cli/aclnn"}
# Their suites build what they run.
SELF_BUILT = {"kernels", "unit"}
# An emulated processor is slow.
TEST_SECONDS_MAX = 900
# A worker that translates its code first, on a machine that does other work, isn't one that hangs.
HEARTBEAT_TIMEOUT = "60s"


@dataclasses.dataclass
class Machine:
    """What the suites need: the source tree, whether the short form is wanted, and a folder for wrappers."""

    root: pathlib.Path
    short: bool
    folder: pathlib.Path

    def context(self):
        return Context(root=self.root, quick=self.short)

    def sysroot(self):
        """Tests have no home folder in which it could be found."""
        return subprocess.run([self.root / "deploy" / "arm64-sysroot", "--path"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.strip()

    def under_qemu(self):
        return [f"--run_under={self.root / 'tests' / 'runner' / 'run_under_qemu'}",
                f"--test_env=ACLNN_ARM64_SYSROOT={self.sysroot()}", f"--test_timeout={TEST_SECONDS_MAX}"]

    def wrapper(self, name):
        """A script that has qemu run a program of the cross-build."""
        command = ["env", f"ACLNN_ARM64_SYSROOT={self.sysroot()}", str(self.root / "deploy" / "arm64-run"),
                   os.path.join(bazel.binaries_folder(self.root, CONFIG), PROGRAMS[name])]
        if name == "server":
            command += ["--npu-worker", self.wrapper("worker"), "--npu-heartbeat-timeout", HEARTBEAT_TIMEOUT]
        path = self.folder / pathlib.Path(PROGRAMS[name]).name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def native(self, name):
        return os.path.join(bazel.binaries_folder(self.root), PROGRAMS[name])


def run_build(machine):
    """Everything, for both architectures what the later suites need; in the short form only that."""
    counts = Counts()
    targets = (*KERNEL_TESTS, SERVER, *CLIENT_TESTS_SHORT) if machine.short else ("//...",)
    if not bazel.build(machine.root, CONFIG, targets):
        counts.fail(f"bazel build --config={CONFIG} {' '.join(targets)}")
    if not bazel.build(machine.root, targets=(SERVER,)):
        counts.fail(f"bazel build {SERVER}")
    return counts


def run_kernels(machine):
    return bazel.test(machine.root, CONFIG, KERNEL_TESTS, machine.under_qemu())


def run_units(machine):
    return bazel.test(machine.root, CONFIG, OTHER_TESTS, machine.under_qemu())


def run_golden(machine):
    """Every golden case from this machine's Python on an arm64 server, its CPU and its emulated devices."""
    environment = {"ACLNN_SERVER_BINARY": machine.wrapper("server")}
    return run_pytest(machine.context(), machine.root / "tests" / "acceptance" / "golden_test.py",
                      extra_environment=environment)


def run_arm64_client(machine):
    """The client library and its command line on arm64, the server on this machine."""
    server = f"--test_env=ACLNN_SERVER_BINARY={machine.native('server')}"
    tests = CLIENT_TESTS_SHORT if machine.short else CLIENT_TESTS
    counts = bazel.test(machine.root, CONFIG, tests, [*machine.under_qemu(), server])
    if not machine.short:
        environment = {"ACLNN_CLI_BINARY": machine.wrapper("cli"), "ACLNN_SERVER_BINARY": machine.native("server")}
        counts.add(run_pytest(machine.context(), machine.root / "tests" / "end_to_end" / "cli_test.py",
                              extra_environment=environment))
    return counts


def run_arm64_server(machine):
    """The client library on this machine, the server on arm64."""
    server = f"--test_env=ACLNN_SERVER_BINARY={machine.wrapper('server')}"
    tests = CLIENT_TESTS_SHORT if machine.short else CLIENT_TESTS
    return bazel.test(machine.root, targets=tests, options=[server, f"--test_timeout={TEST_SECONDS_MAX}"])


SUITES = (
    Suite("build", run_build),
    Suite("kernels", run_kernels),
    Suite("unit", run_units, slow=True),
    Suite("golden", run_golden),
    Suite("arm64_client", run_arm64_client),
    Suite("arm64_server", run_arm64_server),
)


def parse_arguments(arguments):
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(
        prog="tests/run-arm64",
        description="Cross-builds for aarch64, runs tests under qemu, ends with 'N passed, N failed'.")
    parser.add_argument("--short", action="store_true", help="the kernels, the golden cases, one client each way")
    parser.add_argument("--only", action="append", default=[], choices=names, help="only this suite (repeatable)")
    return parser.parse_args(arguments)


def chosen_suites(options):
    """Binaries that a suite starts have to be there and new, whatever is asked for."""
    if options.only:
        build = [] if SELF_BUILT.issuperset(options.only) else ["build"]
        return [suite for suite in SUITES if suite.name in options.only + build]
    return [suite for suite in SUITES if not (options.short and suite.slow)]


def main(arguments):
    options = parse_arguments(arguments)
    root = pathlib.Path(__file__).resolve().parents[2]
    total = Counts()
    table = []
    with tempfile.TemporaryDirectory(prefix="aclnn-arm64-") as folder:
        machine = Machine(root, options.short, pathlib.Path(folder))
        for suite in chosen_suites(options):
            print(f"\n==== {suite.name}", flush=True)
            started = time.monotonic()
            counts = suite.run(machine)
            total.add(counts)
            table.append(f"{suite.name:20} {counts.closing_line():40} {time.monotonic() - started:7.1f} s")
    print("\n==== summary\n" + "\n".join(table))
    for name in total.failures:
        print(f"FAILED {name}")
    print(total.closing_line())
    return 0 if total.passed > 0 and total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
