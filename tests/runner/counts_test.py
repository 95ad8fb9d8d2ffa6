"""The counts have to be honest: a crash, a missing result or an empty run may never look like a success."""

import pathlib

import pytest

import bazel
from bazel import counts_of_events
from counts import Counts, from_closing_line, from_cmocka_log, from_junit_file, from_test_log

GOOD_LOG = """\
[==========] Running 3 test(s).
[ RUN      ] first
[       OK ] first
[ RUN      ] second
[  SKIPPED ] second
[ RUN      ] third
printed without a line end[       OK ] third
[==========] 3 test(s) run.
[  PASSED  ] 2 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] second

 1 SKIPPED TEST(S)
"""

FAILED_LOG = """\
[  ERROR   ] --- 0x1 != 0x2
[  FAILED  ] broken
[==========] Running 2 test(s).
[ RUN      ] fine
[       OK ] fine
[ RUN      ] broken
[==========] 2 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] broken

 1 FAILED TEST(S)
"""

CRASHED_LOG = """\
[==========] Running 4 test(s).
[ RUN      ] fine
[       OK ] fine
[ RUN      ] passed_over
[  SKIPPED ] passed_over
[ RUN      ] deadly
"""


def numbers(counts):
    return counts.passed, counts.failed, counts.skipped


def test_every_cmocka_case_counts():
    assert numbers(from_cmocka_log(GOOD_LOG, "//a:b")) == (2, 0, 1)


def test_several_cmocka_groups_add_up():
    assert numbers(from_cmocka_log(GOOD_LOG + FAILED_LOG, "//a:b")) == (3, 1, 1)


def test_failed_cmocka_case_is_named_in_any_order_of_lines():
    counts = from_cmocka_log(FAILED_LOG, "//a:b")
    assert numbers(counts) == (1, 1, 0)
    assert counts.failures == ["//a:b broken"]


def test_crash_fails_the_running_case_and_those_after_it():
    counts = from_cmocka_log(CRASHED_LOG, "//a:b")
    assert numbers(counts) == (1, 2, 1)
    assert counts.failures[0] == "//a:b deadly"


def test_bad_end_fails_though_all_cases_were_good():
    assert numbers(from_test_log(GOOD_LOG, False, "//a:b")) == (2, 1, 1)


def test_good_end_does_not_hide_a_failed_case():
    assert numbers(from_test_log(FAILED_LOG, True, "//a:b")) == (1, 1, 0)


def test_program_without_cases_is_one_case():
    assert numbers(from_test_log("hello\n", True, "//a:b")) == (1, 0, 0)
    assert numbers(from_test_log("hello\n", False, "//a:b")) == (0, 1, 0)


def test_cmocka_program_with_no_case_fails():
    assert numbers(from_test_log("[==========] Running 0 test(s).\n", True, "//a:b")) == (0, 1, 0)


def test_closing_line_is_read():
    assert numbers(from_closing_line("noise\n3 passed, 1 failed, 2 skipped\n\n", "x")) == (3, 1, 2)
    assert from_closing_line("3 passed, 1 failed\nnoise", "x") is None


def test_missing_junit_file_is_a_failure(tmp_path):
    assert numbers(from_junit_file(tmp_path / "none.xml", "suite")) == (0, 1, 0)


def test_broken_junit_file_is_a_failure(tmp_path):
    path = tmp_path / "cut.xml"
    path.write_text("<testsuites><testsuite><testcase name='a' classname='b'/>")
    assert numbers(from_junit_file(path, "suite")) == (0, 1, 0)


def test_junit_cases_count(tmp_path):
    path = tmp_path / "good.xml"
    path.write_text(
        "<testsuites><testsuite><testcase name='a' classname='c'/><testcase name='b' classname='c'><failure/>"
        "</testcase><testcase name='d' classname='c'><skipped/></testcase><testcase name='e' classname='c'>"
        "<error/></testcase></testsuite></testsuites>")
    assert numbers(from_junit_file(path, "suite")) == (1, 2, 1)


def test_target_that_was_not_built_fails():
    counts = counts_of_events([{"id": {"targetCompleted": {"label": "//a:b"}}, "completed": {}}])
    assert numbers(counts) == (0, 1, 0)


def test_target_of_another_architecture_does_not_count():
    counts = counts_of_events([{"id": {"targetCompleted": {"label": "//a:b"}}, "aborted": {"reason": "SKIPPED"}}])
    assert counts.total == 0


@pytest.mark.parametrize("status, expected", [("PASSED", (1, 0, 0)), ("FAILED", (0, 1, 0)), ("TIMEOUT", (0, 1, 0))])
def test_bazel_status_counts_when_there_is_no_log(status, expected):
    event = {"id": {"testResult": {"label": "//a:b"}}, "testResult": {"status": status}}
    assert numbers(counts_of_events([event])) == expected


def test_closing_line_leaves_skipped_out_when_there_are_none():
    assert Counts(passed=3).closing_line() == "3 passed, 0 failed"
    assert Counts(passed=3, skipped=1).closing_line() == "3 passed, 0 failed, 1 skipped"


def test_sanitizers_get_the_options_of_the_build_file():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert "exitcode=66" in bazel.test_environment(root, "tsan")["TSAN_OPTIONS"]
    both = bazel.test_environment(root, "asan+ubsan")
    assert "detect_leaks=1" in both["ASAN_OPTIONS"] and "halt_on_error=1" in both["UBSAN_OPTIONS"]


def test_flavour_of_two_sanitizers_is_one_build():
    options = bazel.config_options("asan+ubsan")
    assert options[:3] == ["--config=asan", "--config=ubsan", "--platform_suffix=-asan-ubsan"]


def test_sanitized_sources_are_compiled_once():
    assert "--force_pic" in bazel.config_options("tsan")
    assert bazel.config_options(None) == []
