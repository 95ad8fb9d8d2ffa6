"""Sizes, leftovers and blanks."""

import ast
import re

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

_SOURCES = (".c", ".h", ".py", ".sh", ".bzl", ".js", ".proto")
_MARKS = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
# Absolute paths of a developer's machine.
_MACHINE_PATHS = re.compile(r"(?<![\w./$}-])/(" + "|".join(["wo" + "rk", "ro" + "ot", "tmp/w" + "t", "tmp/b" + "z-"]) +
                            r")(?![\w])")
_DATA = (".csv", ".json", ".bin", ".npy", ".png", ".svg")


def check_file_length(tree):
    """No source is longer than what one sitting can take in."""
    for path in tree.files(*_SOURCES):
        lines = (tree.text(path) or "").count("\n")
        if lines > FILE_LINES_MAX:
            yield f"{path}:{lines}: {lines} lines, at most {FILE_LINES_MAX}"


def c_functions(text):
    """(first line, name, number of lines) of every function of a formatted C source.

    A body ends with a brace alone in the first column. Above it lie lines that begin with a blank, labels and
    preprocessor lines; the first other line is where the function begins. Types and initialisers end with "};".
    """
    lines = text.splitlines()
    for end, line in enumerate(lines):
        if line != "}":
            continue
        start = end - 1
        while start > 0 and (not lines[start] or lines[start][0] in " #" or re.match(r"\w+:$", lines[start])):
            start -= 1
        name = re.search(r"(\w+)\s*\(", lines[start])
        yield start + 1, name.group(1) if name else lines[start], end - start + 1


def check_function_length(tree):
    """No function is longer than a screen."""
    for path in tree.files(".c", ".h"):
        for line, name, length in c_functions(tree.text(path) or ""):
            if length > FUNCTION_LINES_MAX:
                yield f"{path}:{line}: {name} has {length} lines, at most {FUNCTION_LINES_MAX}"
    for path in tree.files(".py"):
        for node in ast.walk(ast.parse(tree.text(path) or "")):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = node.end_lineno - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    yield f"{path}:{node.lineno}: {node.name} has {length} lines, at most {FUNCTION_LINES_MAX}"


def _lines(tree, skipped=()):
    for path in tree.paths:
        if not path.endswith(skipped):
            for number, line in enumerate((tree.text(path) or "").split("\n"), 1):
                yield path, number, line


def check_marks(tree):
    """Nothing is left for later."""
    for path, number, line in _lines(tree, _DATA):
        if _MARKS.search(line):
            yield f"{path}:{number}: left for later: {line.strip()[:80]}"


def check_machine_paths(tree):
    """Nothing names a folder of somebody's machine."""
    for path, number, line in _lines(tree, _DATA):
        if _MACHINE_PATHS.search(line):
            yield f"{path}:{number}: a path of some machine: {line.strip()[:80]}"


def check_blanks(tree):
    """No trailing blanks, no carriage returns, no tabs, one line end at the end."""
    for path in tree.paths:
        text = tree.text(path)
        if not text or path.endswith(_DATA):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield f"{path}:{number}: trailing blanks"
            if "\t" in line and path.endswith(_SOURCES + ("BUILD",)):
                yield f"{path}:{number}: a tab"
        if not text.endswith("\n") or text.endswith("\n\n"):
            yield f"{path}:{text.count(chr(10))}: does not end with one line end"


CHECKS = [check_file_length, check_function_length, check_marks, check_machine_paths, check_blanks]
