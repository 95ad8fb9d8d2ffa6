"""Measures the transport beside its peers and its floor; tests/bench/transport starts it when everything is built."""

import argparse
import json
import pathlib
import signal
import sys
import time

import grpc
import torch

from common import goals, machines
from transport_bench import loopback, memory, programs, rows, settings, slow_links, stage, tables, targets


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="tests/bench/transport",
        description="aclnn-server beside bare gRPC, plain TCP and a service in Python, in one run.")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--settings", action="store_true",
                        help="instead: bare gRPC with other settings of its core, one at a time; four minutes")
    parser.add_argument("--quick", action="store_true", help="few rounds: two minutes at most")
    return parser.parse_args(arguments)


def machine(effort):
    """What the figures depend on besides the code."""
    return {
        **machines.describe(),
        "grpc_of_python": grpc.__version__,
        "torch": torch.__version__,
        "bare_arguments": list(stage.BARE_ARGUMENTS),
        "bare_arguments_long": list(stage.BARE_ARGUMENTS_LONG),
        "bare_queues": stage.BARE_QUEUES,
        "rounds": effort.rounds,
        "turns_in_round": effort.turns,
    }


def measure(effort):
    """([rows], why others are missing)."""
    found = list(loopback.measure_all(effort))
    found.append(memory.measure(effort))
    slow, missing = slow_links.measure_all(effort)
    return found + slow, missing


def end(_number, _frame):
    """Leaves through all context managers."""
    sys.exit("ended by a signal")


def main(arguments):
    options = parse_arguments(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    effort = rows.QUICK if options.quick else rows.FULL
    about = machine(effort)
    machines.warn_if_busy(about, "figures say little")
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    begin = time.monotonic()
    try:
        if options.settings:
            print("\n".join(settings.lines(settings.measure())))
            return 0
        found, missing = measure(effort)
    except programs.ProgramFailed as error:
        print(f"tests/bench/transport: {error}", file=sys.stderr)
        return 1
    reached = targets.all_targets(found, missing)
    print("\n".join(tables.row_lines(found) + goals.target_lines(reached)))
    print(f"\n{len(found)} rows in {time.monotonic() - begin:.0f} s; the first result of every job was checked")
    if options.json:
        report = {
            "machine": about,
            "rows": [row.to_json() for row in found],
            "targets": [target.to_json() for target in reached],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
