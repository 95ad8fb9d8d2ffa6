"""Contestants take turns, several rounds, so that what else the machine does meets all of them."""

import itertools
import time

from common.turns import turns

# libgomp's threads spin for a while after their work; the next contestant shall not meet them.
PAUSE_SECONDS = 0.002
# A round of one contestant is so many parts of which the fastest counts: one that was interrupted says more about the
# machine's other work than about the contestant. A call that takes long is a part, and the whole round, of its own.
PARTS = 4
LONG_CALL_SECONDS = 0.05


def part(call, calls):
    """Seconds of one call, on average."""
    begin = time.perf_counter()
    for _ in itertools.repeat(None, calls):
        call()
    return (time.perf_counter() - begin) / calls


def size_of_a_round(seconds, block_seconds):
    """(parts, calls of each) for a call that takes so long."""
    if seconds >= LONG_CALL_SECONDS:
        return 1, 1
    return PARTS, max(1, round(block_seconds / PARTS / max(seconds, 1e-7)))


def run(calls, rounds, block_seconds, rest=lambda: None):
    """Microseconds of each contestant, by name, one figure for every round; `rest` is called after every turn."""
    sizes = {}
    for name, call in calls.items():
        call()
        rest()
        time.sleep(PAUSE_SECONDS)
        sizes[name] = size_of_a_round(part(call, 1), block_seconds)
        rest()
    figures = {name: [] for name in calls}
    for names in turns(calls, rounds):
        for name in names:
            time.sleep(PAUSE_SECONDS)
            parts, length = sizes[name]
            figures[name].append(min(part(calls[name], length) for _ in range(parts)) * 1e6)
            rest()
    return figures
