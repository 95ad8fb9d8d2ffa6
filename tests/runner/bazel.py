"""Bazel builds and tests, with every case counted."""

import json
import os
import re
import shlex
import subprocess
import tempfile
import urllib.parse

from counts import Counts, from_test_log

# ACLNN_BAZEL may carry startup options, such as an output root of its own.
BAZEL = shlex.split(os.environ.get("ACLNN_BAZEL", "bazel"))


def config_options(config):
    """Options of one build flavour, such as "asan+ubsan"; each has output folders of its own: none evicts another."""
    if config is None:
        return []
    if config == "arm64":
        # Another processor has folders of its own, and links to them, without being told.
        return ["--config=arm64"]
    configs = config.split("+")
    # Optimized programs and shared libraries would each compile every source for themselves; nothing of a sanitized
    # build is shipped, so one object of each source is enough.
    return [*(f"--config={name}" for name in configs), f"--platform_suffix=-{'-'.join(configs)}", "--symlink_prefix=/",
            "--force_pic"]


def run(command, *options, config=None, root):
    """Runs one bazel command; returns whether it ended well."""
    line = BAZEL + [command, "--noshow_progress", "--color=no"] + config_options(config) + list(options)
    return subprocess.run(line, cwd=root, stdin=subprocess.DEVNULL, check=False).returncode == 0


def build(root, config=None, targets=("//...",)):
    """Builds the targets; returns whether all of them were built."""
    return run("build", "--keep_going", *targets, config=config, root=root)


def binaries_folder(root, config=None):
    """Where a flavour's binaries lie (bazel-bin of the plain one)."""
    line = BAZEL + ["info"] + config_options(config) + ["bazel-bin"]
    return subprocess.run(
        line, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
        text=True).stdout.strip()


def test_environment(root, config):
    """The variables that .bazelrc gives to the tests of a flavour, for tests that Bazel doesn't run."""
    with open(os.path.join(root, ".bazelrc"), encoding="utf-8") as file:
        text = file.read()
    names = config.replace("+", "|")
    return dict(re.findall(rf"^test:(?:{names}) --test_env=(\w+)=(\S+)$", text, re.MULTILINE))


def test(root, config=None, targets=("//...",), options=()):
    """Runs the tests among the targets, none from the cache; returns their counts."""
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events.json")
        run("test", "--keep_going", "--nocache_test_results", f"--build_event_json_file={events}", *options,
            *targets, config=config, root=root)
        try:
            with open(events, encoding="utf-8") as file:
                counts = counts_of_events([json.loads(line) for line in file], config)
        except (OSError, ValueError):
            counts = Counts()
    if counts.total == 0:
        counts.fail(f"bazel test{' --config=' + config if config else ''} (ran no case)")
    return counts


def counts_of_events(events, config=None):
    """Adds up what Bazel's build events say of each test."""
    counts = Counts()
    flavour = f"[{config}] " if config else ""
    for event in events:
        identity = event.get("id", {})
        if "testResult" in identity:
            label = flavour + identity["testResult"]["label"]
            result = event.get("testResult", {})
            counts.add(from_test_log(_log_of(result), result.get("status") == "PASSED", label))
        elif event.get("aborted", {}).get("reason") == "SKIPPED":
            continue  # A target of another architecture.
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success", False):
            # Tests that ran have completed; what is here couldn't be built.
            counts.fail(flavour + identity["targetCompleted"]["label"] + " (not built)")
    return counts


def _log_of(result):
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.log":
            path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    return file.read()
            except OSError:
                return ""
    return ""
