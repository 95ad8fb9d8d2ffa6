"""Targets and tables from figures that are made up."""

import collections
import dataclasses
import json

import pytest

from common import goals
from common.turns import turns
from transport_bench import links, loopback, memory, rows, slow_links, tables, targets


def row(link, name, lower_is_better=False, **contestants):
    return rows.Row(link, name, "u", lower_is_better, dict(contestants))


def target(found, name):
    matches = [entry for entry in found if name in entry.name]
    assert len(matches) == 1
    return matches[0]


def test_nothing_measured_is_nothing_met():
    found = targets.all_targets([], "no right")
    assert all(entry.value is None and entry.met is None for entry in found)
    lines = goals.target_lines(found)[1:]
    for entry, line in zip(found, lines):
        assert ("not measurable here: no right" in line) == ("1 Gbit/s" in entry.name)
        assert ("not measured" in line) == ("1 Gbit/s" not in entry.name)


def test_ratio_is_of_rounds_and_says_what_it_is_of():
    found = targets.all_targets(
        [row(targets.LOOPBACK, loopback.UPLOAD, bare=[1, 2, 4], ours=[1, 1.9, 3])])
    entry = target(found, "upload of 103 MB, times bare")
    assert entry.value == pytest.approx(0.95)
    assert entry.met and not entry.goal_met
    assert "ours 1.9, bare 2" in entry.where


def test_floor_is_the_best_form_of_it():
    found = targets.all_targets([
        row(targets.LOOPBACK, loopback.CONCURRENT,
            **{"bare": [10, 10], loopback.BARE_THREADS: [20, 20], "ours": [10, 10], "python service": [1, 1]})
    ])
    assert target(found, "concurrency 32, times bare").value == 0.5
    assert target(found, "concurrency 32, times the Python service").value == 10


def test_less_is_better_for_times():
    found = targets.all_targets([
        row(targets.LOOPBACK, loopback.SMALL, True, **{"bare": [2], loopback.BARE_SPLIT: [1], "ours": [1.2]}),
        row(targets.GIGABIT, slow_links.WHOLE, True, **{"bare": [900], "ours": [900], loopback.OURS_PLAIN: [45]}),
    ])
    small = target(found, "over bare echo")
    assert small.value == 1.2 and small.met and not small.goal_met
    assert target(found, "7x7, ms").value == 45
    assert target(found, "the same, bare streaming's time over ours").value == 20


def test_spread_is_the_worst_over_bares():
    found = targets.all_targets([
        row(targets.LOOPBACK, loopback.UPLOAD, bare=[1, 2], ours=[1, 2]),
        row(targets.LOOPBACK, loopback.DOWNLOAD, **{"bare": [1, 2], "ours": [1, 4], loopback.OURS_PLAIN: [1, 1]}),
    ])
    entry = target(found, "spread")
    assert entry.value == 2 and entry.met is False
    assert loopback.DOWNLOAD in entry.where


def test_memory_has_its_allowance():
    found = targets.all_targets([
        row(targets.LOOPBACK, memory.NAME, **{memory.OURS: [200 + memory.ALLOWANCE_BYTES / 1e6], memory.TENSORS: [100]})
    ])
    assert target(found, "peak memory").value == pytest.approx(2)


def test_impatience_leaves_one_figure():
    calls = {"slow": lambda: 1, "fast": lambda: 2}
    impatient = dataclasses.replace(rows.QUICK, patience_seconds=-1)
    found = rows.measure(row("link", "name"), calls, impatient)
    assert found.rounds == {"slow": [1], "fast": [2]}
    patient = dataclasses.replace(rows.QUICK, patience_seconds=60)
    assert rows.measure(row("link", "name"), calls, patient, 4).rounds == {"slow": [1] * 4, "fast": [2] * 4}


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_each_follows_every_other_equally_often(count):
    names = "abcdef"[:count]
    rounds = count if count % 2 == 0 else 2 * count
    followed = collections.Counter(
        pair for order in turns(names, rounds) for pair in zip(order, order[1:], strict=False))
    assert len(followed) == count * (count - 1) and len(set(followed.values())) == 1
    assert all(sorted(order) == list(names) for order in turns(names, rounds))


def test_nobody_takes_no_turns():
    assert list(turns([], 2)) == [[], []] and list(turns("a", 2)) == [["a"], ["a"]]


def test_round_of_several_turns_is_their_median():
    order = []

    def contestant(name, *values):
        remaining = iter(values)

        def call():
            order.append(name)
            return next(remaining)
        return call

    effort = dataclasses.replace(rows.QUICK, warm_ups=2)
    calls = {"a": contestant("a", 0, 0, 5, 1, 3, 9, 7, 8), "b": contestant("b", 0, 0, 2, 2, 2, 4, 6, 4)}
    found = rows.measure(row("link", "name"), calls, effort, 2, turns_in_round=3)
    assert found.rounds == {"a": [3, 8], "b": [2, 4]}
    assert "".join(order) == "aabb" + "abbaab" + "baabba"


def test_rows_are_lines_and_json():
    one = row(links.Loopback.name, "something", bare=[1, 3, 2])
    text = "\n".join(tables.row_lines([one]))
    assert "==== loopback" in text and "something (u, more is better" in text
    entry = json.loads(json.dumps(one.to_json()))
    assert entry["contestants"]["bare"] == {"median": 2, "min": 1, "max": 3, "rounds": [1, 3, 2]}
