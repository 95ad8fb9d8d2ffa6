"""The suite for arm64 needs packages of its own: where they can't be had it says so, and neither passes nor fails."""

import pytest

import arm64
from suites import Context, all_suites, run_arm64

NEEDS = ("deploy/install-packages", "deploy/arm64-sysroot")


@pytest.fixture(name="tree")
def tree_fixture(tmp_path):
    """A source tree in which the commands do nothing, and leave their arguments in a file."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "tests").mkdir()
    for command in (*NEEDS, "tests/run-arm64"):
        replace(tmp_path, command, "exit 0")
    return tmp_path


def replace(tree, command, body):
    path = tree / command
    path.write_text(f'#!/bin/sh\necho "{command} $*" >>"{tree}/log"\n{body}\n')
    path.chmod(0o755)


@pytest.mark.parametrize("command", NEEDS)
def test_arm64_without_its_packages_is_skipped_aloud(tree, command, capfd):
    replace(tree, command, "exit 100")
    context = Context(root=tree, quick=False)
    counts = run_arm64(context)
    assert (counts.passed, counts.failed, counts.skipped) == (0, 0, 1)
    assert len(context.figures) == 1 and "SKIPPED" in context.figures[0] and command in context.figures[0]
    assert "SKIPPED" in capfd.readouterr().err
    assert "tests/run-arm64" not in (tree / "log").read_text()


def test_arm64_counts_what_its_command_tells(tree):
    replace(tree, "tests/run-arm64", "echo; echo 5 passed, 2 failed, 1 skipped; exit 1")
    context = Context(root=tree, quick=False)
    counts = run_arm64(context)
    assert (counts.passed, counts.failed, counts.skipped) == (5, 2, 1)
    assert context.figures == []
    assert (tree / "log").read_text().splitlines() == [
        "deploy/install-packages arm64", "deploy/arm64-sysroot ", "tests/run-arm64 --only kernels"
    ]


def test_arm64_that_ends_badly_fails(tree):
    replace(tree, "tests/run-arm64", "echo 5 passed, 0 failed; exit 1")
    assert run_arm64(Context(root=tree, quick=False)).failed == 1


def test_arm64_is_a_suite_that_quick_leaves_out(tree):
    suites = {suite.name: suite for suite in all_suites(tree, False)}
    assert suites["arm64"].slow and not suites["arm64"].sanitizer


def chosen(*words):
    return [suite.name for suite in arm64.chosen_suites(arm64.parse_arguments(words))]


def test_only_suites_that_start_binaries_need_them_built_before():
    assert chosen("--only", "kernels") == ["kernels"]
    assert chosen("--only", "golden", "--only", "kernels") == ["build", "kernels", "golden"]
    assert chosen()[0] == chosen("--short")[0] == "build"
