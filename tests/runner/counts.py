"""Counts of test cases, and how they are read from what the test programs leave behind."""

import collections
import dataclasses
import re
import xml.etree.ElementTree


@dataclasses.dataclass
class Counts:
    """How many cases of a suite passed, failed and were skipped, and what the failed ones are called."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures

    def fail(self, name):
        self.failed += 1
        self.failures.append(name)

    @property
    def total(self):
        return self.passed + self.failed + self.skipped

    def closing_line(self):
        line = f"{self.passed} passed, {self.failed} failed"
        return line + (f", {self.skipped} skipped" if self.skipped else "")


_CMOCKA_GROUP = re.compile(r"\[==========\] Running (\d+) test\(s\)\.$", re.MULTILINE)
_CMOCKA_RUN = re.compile(r"\[ RUN      \] (.+)$", re.MULTILINE)
_CMOCKA_OK = re.compile(r"\[       OK \] (.+)$", re.MULTILINE)
# The line that heads the list of skipped cases ends with a colon.
_CMOCKA_SKIPPED = re.compile(r"\[  SKIPPED \] (.+[^:\n])$", re.MULTILINE)
_CLOSING_LINE = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


def from_cmocka_log(text, label):
    """Counts every case of a cmocka program's output; None if it isn't one.

    What was announced and is neither good nor skipped has failed: also the case in which the program died and
    those that it never came to. The order of lines tells nothing: cmocka reports failures on another stream.
    """
    groups = _CMOCKA_GROUP.findall(text)
    if not groups:
        return None
    good = collections.Counter(_CMOCKA_OK.findall(text))
    skipped = set(_CMOCKA_SKIPPED.findall(text))
    counts = Counts(passed=sum(good.values()), skipped=len(skipped))
    suspects = [name for name in collections.Counter(_CMOCKA_RUN.findall(text)) - good if name not in skipped]
    for position in range(sum(map(int, groups)) - counts.total):
        name = suspects[position] if position < len(suspects) else "(announced, no outcome)"
        counts.fail(f"{label} {name}")
    return counts


def from_closing_line(text, label):
    """Counts from a last line "N passed, N failed[, N skipped]"; None if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    match = _CLOSING_LINE.match(lines[-1]) if lines else None
    if match is None:
        return None
    passed, failed, skipped = (int(group or 0) for group in match.groups())
    return Counts(passed, failed, skipped, [f"{label} ({failed} failed)"] if failed else [])


def from_test_log(text, passed, label):
    """Counts of one test program: by its cases where its output tells them, else the program is one case.

    `passed` is whether the program ended well. It can't make a failed case good, nor a program that ended
    badly with all its cases good.
    """
    counts = from_cmocka_log(text, label) or from_closing_line(text, label)
    if counts is None:
        counts = Counts(passed=1) if passed else Counts()
    if not passed and counts.failed == 0:
        counts.fail(f"{label} (ended badly)")
    if passed and counts.total == 0:
        counts.fail(f"{label} (ran no case)")
    return counts


def from_junit_file(path, label):
    """Counts from the XML that pytest writes; a missing or broken file is a failure."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        counts = Counts()
        counts.fail(f"{label} (left no result)")
        return counts
    counts = Counts()
    for case in root.iter("testcase"):
        name = f"{label} {case.get('classname')}.{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            counts.fail(name)
        elif case.find("skipped") is not None:
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts
