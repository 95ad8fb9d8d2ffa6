"""Rows of the table: contestants that take turns, and what each needed in every round."""

import dataclasses
import itertools
import statistics
import sys
import time

from common.turns import turns


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int
    turns: int  # of each contestant in a round over the loopback, whose figure is their median
    planes: tuple  # N, C of the large jobs
    calls: int  # small jobs in a round, one after the other
    concurrent_calls: int  # small jobs in a round at concurrency 32
    pipelined_jobs: int
    warm_ups: int  # calls that connect, plan and touch memory
    # A contestant whose calls take longer has one figure: a hopeless one shall not cost minutes.
    patience_seconds: float
    link_rounds: int  # of what moves 100 MB over 1 Gbit/s


FULL = Effort(rounds=9, turns=3, planes=(32, 64), calls=1000, concurrent_calls=4800, pipelined_jobs=5000, warm_ups=4,
              patience_seconds=6, link_rounds=5)
QUICK = Effort(rounds=2, turns=1, planes=(32, 64), calls=400, concurrent_calls=1280, pipelined_jobs=1000, warm_ups=2,
               patience_seconds=2, link_rounds=1)


@dataclasses.dataclass
class Row:
    """One figure of several contestants: {contestant: [value of each round]}."""

    link: str
    name: str
    unit: str
    lower_is_better: bool
    rounds: dict = dataclasses.field(default_factory=dict)

    def median(self, contestant):
        return statistics.median(self.rounds[contestant])

    def spread(self, contestant):
        """The largest over the smallest."""
        return max(self.rounds[contestant]) / min(self.rounds[contestant])

    def best(self, contestants):
        """The one with the best median of those that took part; None if none did."""
        chosen = min if self.lower_is_better else max
        return chosen((name for name in contestants if name in self.rounds), key=self.median, default=None)

    def to_json(self):
        return {
            "link": self.link, "name": self.name, "unit": self.unit, "lower_is_better": self.lower_is_better,
            "contestants": {
                name: {"median": self.median(name), "min": min(values), "max": max(values), "rounds": values}
                for name, values in self.rounds.items()
            },
        }


# What two calls in a row show isn't coldness, nor the machine's other work.
SLOW_CALLS = 2


def warm_up(call, effort):
    """The last warm-up's figure if no more are to be waited for, else None."""
    slow = 0
    for _ in range(max(effort.warm_ups, SLOW_CALLS)):
        begin = time.monotonic()
        value = call()
        slow = slow + 1 if time.monotonic() - begin > effort.patience_seconds else 0
        if slow == SLOW_CALLS:
            return value
    return None


def measure(row, calls, effort, rounds=None, turns_in_round=1):
    """Fills the row from calls without arguments that return its figure.

    Where a call is short, what else the machine does makes single ones differ by half: a round then has several
    turns of each, and the median of those.
    """
    print(f"{row.link}: {row.name}", file=sys.stderr, flush=True)
    rounds = rounds or effort.rounds
    for name, call in calls.items():
        value = warm_up(call, effort)
        if value is not None:
            row.rounds[name] = [value]
    patient = [name for name in calls if name not in row.rounds]
    for name in patient:
        row.rounds[name] = []
    order = turns(patient, rounds * turns_in_round)
    for _ in range(rounds):
        found = {name: [] for name in patient}
        for names in itertools.islice(order, turns_in_round):
            for name in names:
                found[name].append(calls[name]())
        for name, values in found.items():
            row.rounds[name].append(statistics.median(values))
    row.rounds = {name: row.rounds[name] for name in calls}
    return row
