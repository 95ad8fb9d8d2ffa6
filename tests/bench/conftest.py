"""Lets the tests import what the benchmarks have in common."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
