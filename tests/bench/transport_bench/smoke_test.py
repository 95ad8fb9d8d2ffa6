"""The whole way once, small; what it says about speed is nobody's business here."""

import json
import os
import subprocess

import pytest

from transport_bench import links, main, programs, rows, settings, targets

TINY = rows.Effort(rounds=2, turns=2, planes=(1, 2), calls=8, concurrent_calls=128, pipelined_jobs=64, warm_ups=1,
                   patience_seconds=60, link_rounds=1)


def namespaces():
    found = subprocess.run(["ip", "netns", "list"], stdout=subprocess.PIPE, text=True, check=False)
    return [line for line in found.stdout.splitlines() if line.startswith(f"aclnn-bench-{os.getpid()}-")]


def test_everybody_takes_part_and_everything_is_removed():
    found, missing = main.measure(TINY)
    for row in found:
        assert all(value > 0 for values in row.rounds.values() for value in values), row
    for target in targets.all_targets(found, missing):
        assert target.value is not None or (missing and target.doubt == missing), target
    assert json.dumps([row.to_json() for row in found])
    assert namespaces() == []


def test_every_setting_has_its_figures():
    variants = dict(list(settings.VARIANTS.items())[-2:])
    found = settings.measure(variants, rounds=1, long_rounds=1, size=1 << 16, long_size=1 << 12)
    assert list(found) == list(variants)
    assert all(len(figures) == 6 and min(figures.values()) > 0 for figures in found.values()), found
    assert len(settings.lines(found)) == 2 + len(variants)


def test_link_that_cannot_be_made_is_told(monkeypatch):
    monkeypatch.setattr(links, "GIGABIT", "no rate")
    with pytest.raises(links.Unavailable):
        with links.Gigabit():
            pass
    assert namespaces() == []


def test_program_that_fails_says_why():
    with programs.Program(programs.binary("bare_client"), "127.0.0.1:1") as client:
        with pytest.raises(programs.ProgramFailed, match="no command 'dance'"):
            client.ask("dance")
