"""The project's own rules about its sources. Prints what breaks one, as path:line: message, and exits 1.

Each check takes a Tree and yields findings; lint_test.py shows for each that it can fail.
"""

import argparse
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import build_rules  # noqa: E402
import include_rules  # noqa: E402
import text_rules  # noqa: E402

CHECKS = include_rules.CHECKS + text_rules.CHECKS + build_rules.CHECKS


class Tree:
    """The files that belong to the project, with their text."""

    def __init__(self, root, paths=None):
        self.root = pathlib.Path(root)
        self.paths = sorted(paths if paths is not None else self._tracked())

    def _tracked(self):
        output = subprocess.run(
            ["git", "ls-files", "-z"], cwd=self.root, stdout=subprocess.PIPE, check=True).stdout
        return [name for name in output.decode().split("\0") if name and (self.root / name).is_file()]

    def files(self, *suffixes):
        """Paths, relative to the root, whose name ends with one of the suffixes."""
        return [path for path in self.paths if path.endswith(suffixes)]

    def text(self, path):
        """The file's text, or None for what is no text."""
        try:
            return (self.root / path).read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            return None


def findings(tree):
    """All findings of all checks."""
    return [finding for check in CHECKS for finding in check(tree)]


def main():
    argparse.ArgumentParser(prog="tests/lint/lint.py", description=__doc__).parse_args()
    tree = Tree(pathlib.Path(__file__).resolve().parents[2])
    found = findings(tree)
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
