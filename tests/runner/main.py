"""The one command of the tests; tests/run starts it when the packages are there."""

import argparse
import pathlib
import sys
import time

from counts import Counts
from suites import Context, all_suites


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="tests/run", description="Builds everything, runs every test, ends with 'N passed, N failed'.")
    parser.add_argument("--quick", action="store_true", help="leave out what takes long")
    parser.add_argument("--sanitizers", action="store_true", help="the long form under asan, ubsan and tsan")
    parser.add_argument("--no-sanitizers", action="store_true", help="leave the sanitizers out")
    parser.add_argument("--long", action="store_true", help="faults under load for a minute, not just a few of them")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this suite (repeatable)")
    parser.add_argument("--list", action="store_true", help="name the suites")
    return parser.parse_args(arguments)


def chosen_suites(suites, options):
    """The suites that the options ask for; exits when a name is unknown."""
    unknown = sorted(set(options.only) - {suite.name for suite in suites})
    if unknown:
        print(f"tests/run: no suite {', '.join(unknown)}; there are: {' '.join(s.name for s in suites)}", file=sys.stderr)
        sys.exit(2)
    if options.only:
        # Binaries have to be there and new, whatever is asked for.
        return [suite for suite in suites if suite.name in options.only or suite.name == "build"]
    if options.quick and not options.sanitizers:
        suites = [suite for suite in suites if not suite.slow]
    if options.no_sanitizers:
        suites = [suite for suite in suites if not suite.sanitizer]
    return suites


def main(arguments):
    options = parse_arguments(arguments)
    root = pathlib.Path(__file__).resolve().parents[2]
    suites = all_suites(root, options.sanitizers)
    if options.list:
        print("\n".join(suite.name for suite in suites))
        return 0
    context = Context(root=root, quick=options.quick, long=options.long)
    total = Counts()
    table = []
    for suite in chosen_suites(suites, options):
        print(f"\n==== {suite.name}", flush=True)
        started = time.monotonic()
        counts = suite.run(context)
        total.add(counts)
        table.append(f"{suite.name:20} {counts.closing_line():40} {time.monotonic() - started:7.1f} s")
    print("\n==== summary\n" + "\n".join(table))
    for figure in dict.fromkeys(context.figures):
        print(figure)
    for name in total.failures:
        print(f"FAILED {name}")
    ran = total.passed + total.failed
    print(total.closing_line())
    return 0 if ran > 0 and total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
