"""The suites of tests/run: what each is called, what it runs and when.

A folder below tests/ that holds *_test.py files, and client/python, is a pytest suite of the folder's name; nothing
else has to be told here. What runs in another way stands in `fixed_suites`.
"""

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import typing

import bazel
from counts import Counts, from_junit_file, from_test_log

# What sanitized servers have to stand besides the unit tests, in the short form and in the long one.
SANITIZERS = ("asan+ubsan", "tsan")
SANITIZED_SUITES_SHORT = ("end_to_end", "conformance", "npu", "faults")
SANITIZED_SUITES_LONG = (*SANITIZED_SUITES_SHORT, "acceptance")
# Folders whose tests take long; --quick leaves them out.
SLOW_SUITES = ("soak", "bench", "container")
# A suite that takes longer hangs. Its processes are ended and it counts as failed.
SUITE_SECONDS_MAX = 3600
# How long the long form of the faults lasts.
FAULT_SECONDS_LONG = 60
# What brings the packages and libraries that running code for another processor takes.
ARM64_NEEDS = (("deploy/install-packages", "arm64"), ("deploy/arm64-sysroot", ))
# Lines of a suite's output that the summary repeats.
_FIGURES = re.compile(r"^(golden cases|acceptance rows|random cases): .*$", re.MULTILINE)


@dataclasses.dataclass
class Suite:
    name: str
    run: typing.Callable  # (Context) -> Counts
    slow: bool = False
    sanitizer: str = ""


@dataclasses.dataclass
class Context:
    """What suites need to know of the run, and the figures that they leave for the summary."""

    root: pathlib.Path
    quick: bool
    long: bool = False
    figures: list = dataclasses.field(default_factory=list)


def all_suites(root, long_sanitizers):
    """Every suite in the order in which they run: cheap ones that say much first."""
    suites = [
        Suite("build", run_build),
        Suite("unit", lambda context: bazel.test(context.root)),
    ]
    for folder in pytest_folders(root):
        suites.append(
            Suite(folder.name, lambda context, folder=folder: run_pytest(context, folder),
                  slow=folder.name in SLOW_SUITES))
    for folder in sorted((root / "tests").iterdir()):
        program = folder / "run"
        if folder.is_dir() and program.is_file() and os.access(program, os.X_OK):
            suites.append(
                Suite(folder.name, lambda context, program=program: run_program(context, program),
                      slow=folder.name in SLOW_SUITES))
    suites.append(
        Suite("quickstart", lambda context: run_program(context, context.root / "deploy" / "quickstart"), slow=True))
    suites.append(Suite("arm64", run_arm64, slow=True))
    for sanitizer in SANITIZERS:
        suites.append(
            Suite(sanitizer, lambda context, name=sanitizer: run_sanitized(context, name, long_sanitizers),
                  slow=True, sanitizer=sanitizer))
    return suites


def pytest_folders(root):
    """client/python and the folders of tests/ that hold tests for pytest; the lint and the runner's own first."""
    folders = [
        folder for folder in [*(root / "tests").iterdir(), root / "client" / "python"]
        if folder.is_dir() and any(folder.rglob("*_test.py"))
    ]
    first = ("runner", "lint")
    return sorted(folders, key=lambda folder: (folder.name not in first, folder.name))


def run_build(context):
    """A build is no test case; one that fails counts as a failure all the same."""
    counts = Counts()
    if not bazel.build(context.root):
        counts.fail("bazel build //...")
    return counts


def run_pytest(context, folder, config=None, extra_environment=None):
    """Runs one folder's tests under Debian's Python and counts every case."""
    environment = test_environment(context, bazel.binaries_folder(context.root, config))
    environment.update(extra_environment or {})
    label = f"[{config}] {folder.name}" if config else folder.name
    with tempfile.TemporaryDirectory() as results:
        junit = os.path.join(results, "junit.xml")
        command = [
            sys.executable, "-B", "-m", "pytest", "-q", "-c", str(context.root / "tests" / "pytest.ini"),
            f"--rootdir={context.root}", f"--junitxml={junit}", str(folder)
        ]
        code, output = run_watched(command, context.root, environment)
        counts = from_junit_file(junit, label)
    context.figures += figures_of(output)
    if code not in (0, 1) and counts.failed == 0:
        counts.fail(f"{label} (pytest ended with {code})")
    if counts.passed + counts.failed == 0:
        counts.fail(f"{label} (ran no case)")
    return counts


def run_program(context, program, config=None):
    """Runs an executable; its closing line counts, else it is one case."""
    environment = test_environment(context, bazel.binaries_folder(context.root, config))
    code, output = run_watched([str(program)], context.root, environment)
    return from_test_log(output, code == 0, str(program.relative_to(context.root)))


def run_arm64(context):
    """The kernels and the golden cases on an emulated arm64 processor; skipped, aloud, where that can't be had."""
    for program, *words in ARM64_NEEDS:
        code, _ = run_watched([str(context.root / program), *words], context.root, dict(os.environ))
        if code != 0:
            line = f"arm64: SKIPPED, nothing ran for arm64: {' '.join((program, *words))} ended with {code}"
            print(line, file=sys.stderr, flush=True)
            context.figures.append(line)
            return Counts(skipped=1)
    command = [str(context.root / "tests" / "run-arm64"), "--only", "kernels"]
    code, output = run_watched(command, context.root, dict(os.environ))
    return from_test_log(output, code == 0, "tests/run-arm64")


def run_sanitized(context, sanitizer, long_form):
    """Unit tests, and suites against a sanitized server."""
    counts = bazel.test(context.root, config=sanitizer)
    targets = ("//server:aclnn-server", "//client/cli:aclnn")
    if not bazel.build(context.root, config=sanitizer, targets=targets):
        counts.fail(f"[{sanitizer}] build of {' '.join(targets)}")
        return counts
    environment = {"ACLNN_SANITIZED": "1", **bazel.test_environment(context.root, sanitizer)}
    names = SANITIZED_SUITES_LONG if long_form else SANITIZED_SUITES_SHORT
    for folder in pytest_folders(context.root):
        if folder.name in names:
            counts.add(run_pytest(context, folder, config=sanitizer, extra_environment=environment))
    return counts


def test_environment(context, binaries):
    """The environment in which suites find what was built."""
    environment = dict(os.environ)
    environment.update(
        ACLNN_BIN=binaries,
        ACLNN_SERVER_BINARY=os.path.join(binaries, "server", "aclnn-server"),
        ACLNN_CLI_BINARY=os.path.join(binaries, "client", "cli", "aclnn"),
        ACLNN_QUICK="1" if context.quick else "0",
        ACLNN_FAULT_SECONDS=str(FAULT_SECONDS_LONG if context.long else 0),
        PYTHONPATH=str(context.root / "client" / "python"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    return environment


def run_watched(command, root, environment):
    """Runs a command in a process group of its own, shows its output and keeps it.

    Returns its exit code and output. When its time is up the group is killed; a code of -9 tells.
    """
    # The group is this command's alone: nothing else is ended with it.
    with subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, text=True, errors="replace") as process:
        watchdog = threading.Timer(SUITE_SECONDS_MAX, lambda: os.killpg(process.pid, signal.SIGKILL))
        watchdog.start()
        lines = []
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
        code = process.wait()
        watchdog.cancel()
    return code, "".join(lines)


def figures_of(output):
    return [match.group(0) for match in _FIGURES.finditer(output)]
