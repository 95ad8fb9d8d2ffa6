"""The most memory that a server had while one large job was in it."""

import os

from transport_bench import links, loopback, programs, rows
from transport_bench.stage import start_server

NAME = "peak memory of the server"
OURS, TENSORS = "ours", "tensors in flight"
ALLOWANCE_BYTES = 64 << 20
JOBS = 3  # one after the other


def _status_bytes(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def _arena_bytes(pid):
    """Of the memory behind the largest memfd."""
    largest = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        if os.readlink(path).startswith("/memfd:"):
            largest = max(largest, os.stat(path).st_blocks * 512)
    return largest


def peak_bytes(pid):
    """Of resident memory since the process began, and what of the arena exists without being mapped now."""
    return _status_bytes(pid, "VmHWM") + max(0, _arena_bytes(pid) - _status_bytes(pid, "RssShmem"))


def measure(effort):
    """On a server of its own: nothing else is in its peak."""
    link = links.Loopback()
    row = rows.Row(link.name, NAME, "MB", True)
    with start_server(link) as server, programs.Program(programs.binary("client_bench"), server.address) as client:
        for _ in range(JOBS):
            # Two inputs and an output of the same size.
            client.ask("backward", *effort.planes, 112, 112, 112, 112, loopback.PLAIN)
        row.rounds = {OURS: [peak_bytes(server.pid) / 1e6], TENSORS: [3 * loopback.large_bytes(effort) / 1e6]}
    return row
