"""Faults while there is load: a short form that counts events, and a long one that lasts as long as it is told.

    tests/run --only faults                                      # the short form
    tests/run --only faults --long                               # a minute with a fault each second
"""

import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "client" / "python"))


@pytest.fixture(scope="session")
def fault_seconds():
    """How long the long form lasts; 0 for the short one."""
    return float(os.environ.get("ACLNN_FAULT_SECONDS", "0"))
