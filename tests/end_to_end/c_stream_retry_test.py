"""What a stream of the C client reports when its tries are used up."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The fake server of the Python client's tests can be told to misbehave.
sys.path[:0] = [str(ROOT / "client" / "python"), str(ROOT / "client" / "python" / "tests")]

from fake_operators import Refusal  # noqa: E402
from fake_server import FakeServer  # noqa: E402

PROGRAM = (pathlib.Path(os.environ.get("ACLNN_BIN") or ROOT / "bazel-bin") / "tests" / "end_to_end" /
           "c_stream_program")
BROKEN = Refusal("UNAVAILABLE", "", "Socket closed")
DRAINING = Refusal("UNAVAILABLE", "DRAINING", "going", retry_ms=1)
REPLIES_PER_JOB = 3  # accepted, a chunk, done


@pytest.fixture
def server():
    fake = FakeServer().start()
    yield fake
    fake.stop()


def outcomes(server):
    """Of the program's two jobs."""
    done = subprocess.run([PROGRAM, server.address], stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


def test_way_that_breaks_on_a_retry_does_not_hide_what_the_server_said(server):
    server.faults.refusals["Execute"] = [DRAINING, BROKEN, BROKEN]
    assert outcomes(server) == ["DRAINING UNAVAILABLE"] * 2  # the stream has failed for good
    assert server.seen["Execute"] == 3


def test_broken_way_alone_is_reported_as_such(server):
    server.faults.refusals["Execute"] = [BROKEN] * 3
    assert outcomes(server) == ["- UNAVAILABLE"] * 2


def test_a_result_ends_the_matter_of_an_earlier_refusal(server):
    server.faults.refusals["Execute"] = [DRAINING]
    server.faults.lose_after_replies = [REPLIES_PER_JOB, 0, 0]
    assert outcomes(server) == ["done", "- UNAVAILABLE"]
