"""How much memory a large tensor takes on its way: the user's array and the result, little besides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
SIZE = 192 * MIB
# gRPC reads ahead and both sides keep some messages in their hands.
SLACK = 48 * MIB

PROGRAM = """
import asyncio, sys
import numpy as np
import aclnn_client
from aclnn_client.aio import AsyncClient

address, direction, kind = sys.argv[1:]
client = aclnn_client.Client(address)
plane = 12 << 20  # elements; four planes are the large tensor

def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024

if direction == "down":
    gradient, indices = np.ones((4, 1, 1), "f4"), np.full((4, 1, 1), plane - 1)
    spec = aclnn_client.TensorSpec("float32", (4, 4096, plane // 4096))
    use = lambda with_: with_.adaptive_max_pool2d_backward(gradient, spec, indices)
else:
    x = np.zeros((4, 4096, plane // 4096), "f4")
    x[...] = 1
    use = lambda with_: with_.adaptive_max_pool2d(x, 1)

async def use_async():
    async with AsyncClient(address) as own:
        return await use(own)

client.health()
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
result = use(client) if kind == "sync" else asyncio.run(use_async())
peak = status("VmHWM") - before
print(peak, (result if direction == "down" else result[0]).sum())
"""


def growth(address: str, direction: str, kind: str) -> int:
    """By how much memory grows at most."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, address, direction, kind],
        env={"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    peak, total = done.stdout.split()
    assert float(total) == 4
    return int(peak)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_result_is_held_once(server_process: str, kind: str) -> None:
    assert SIZE <= growth(server_process, "down", kind) < SIZE + SLACK


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_input_is_not_copied_as_a_whole(server_process: str, kind: str) -> None:
    assert growth(server_process, "up", kind) < SLACK
