"""BUILD files as buildifier would leave them, as far as it matters to readers."""

import ast
import re

# Where an attribute stands in a rule; others are not judged.
ATTRIBUTE_ORDER = [
    "name", "testonly", "size", "timeout", "srcs", "hdrs", "copts", "data", "includes", "linkopts", "linkshared",
    "linkstatic", "local_defines", "tags", "visibility", "deps"
]
SORTED_ATTRIBUTES = ("srcs", "hdrs", "data", "deps", "visibility", "exports")


def _is_build_file(path):
    return path.rsplit("/", 1)[-1] in ("BUILD", "BUILD.bazel") or path.endswith(".BUILD")


def label_key(label):
    """buildifier's order: files, then :labels, then //labels, then @labels; by parts within each."""
    phase = 1 if label.startswith(":") else 2 if label.startswith("//") else 3 if label.startswith("@") else 0
    return phase, [part for part in re.split(r"[:.]", label.lstrip(":/@"))]


def _rules(tree):
    for path in tree.paths:
        if _is_build_file(path):
            try:
                module = ast.parse(tree.text(path) or "")
            except SyntaxError as error:
                yield path, error.lineno or 1, None
                continue
            for node in ast.walk(module):
                if isinstance(node, ast.Call):
                    yield path, node.lineno, node


def check_syntax(tree):
    """BUILD files are read as Python, of which their language is a part."""
    for path, line, rule in _rules(tree):
        if rule is None:
            yield f"{path}:{line}: cannot be read"


def check_sorted_lists(tree):
    """Lists whose order has no meaning are sorted and name nothing twice."""
    for path, _, rule in _rules(tree):
        for keyword in rule.keywords if rule else []:
            if keyword.arg in SORTED_ATTRIBUTES and isinstance(keyword.value, ast.List):
                labels = [item.value for item in keyword.value.elts if isinstance(item, ast.Constant)]
                if labels != sorted(labels, key=label_key):
                    yield f"{path}:{keyword.lineno}: {keyword.arg} is not sorted"
                if len(labels) != len(set(labels)):
                    yield f"{path}:{keyword.lineno}: {keyword.arg} names something twice"


def check_attribute_order(tree):
    """Attributes of a rule stand in the usual order."""
    for path, line, rule in _rules(tree):
        names = [keyword.arg for keyword in rule.keywords] if rule else []
        known = [name for name in names if name in ATTRIBUTE_ORDER]
        if known != sorted(known, key=ATTRIBUTE_ORDER.index) and isinstance(rule.func, ast.Name):
            yield f"{path}:{line}: attributes stand as {', '.join(known)}"


def check_indentation(tree):
    """Four blanks a level."""
    for path in tree.paths:
        if _is_build_file(path):
            for number, line in enumerate((tree.text(path) or "").split("\n"), 1):
                blanks = len(line) - len(line.lstrip(" "))
                if blanks % 4:
                    yield f"{path}:{number}: indented by {blanks} blanks"


def check_packages(tree):
    """Every library that the build takes from Debian, by the comment above it, is a package that gets installed."""
    text = tree.text("deploy/packages") if "deploy/packages" in tree.paths else ""
    listed = re.findall(r"^([a-z0-9.+-]+)", text, re.MULTILINE)
    for path in tree.paths:
        if path == "deploy/bazel/system/BUILD":
            for number, line in enumerate((tree.text(path) or "").split("\n"), 1):
                match = re.fullmatch(r"# ([a-z0-9.+-]+-dev)", line)
                if match and match.group(1) not in listed:
                    yield f"{path}:{number}: {match.group(1)} is not in deploy/packages"


CHECKS = [check_syntax, check_sorted_lists, check_attribute_order, check_indentation, check_packages]
