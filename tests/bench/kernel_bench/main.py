"""Measures the kernels beside their peers; tests/bench/kernels starts it when everything is built."""

import argparse
import json
import os
import pathlib
import re
import sys
import time

import torch

import cases
import contestants
import figures
import libraries
import plot
import rounds
import tables
import targets
from common import machines


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        prog="tests/bench/kernels",
        description="The kernels of the CPU beside torch, oneDNN, numpy and what the memory can do, in one run.")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write all figures there, and a plot beside it (FILE with .svg for its ending)")
    parser.add_argument("--quick", action="store_true", help="few rounds of few shapes: a minute at most")
    for name, values in (("operators", cases.OPERATORS), ("types", cases.VALUE_TYPES), ("threads", cases.FULL.threads)):
        parser.add_argument(f"--{name}", type=words_of(values), default=(), metavar=name.upper(),
                            help=f"only these, with commas between: {' '.join(map(str, values))}")
    parser.add_argument("--shapes", type=lambda text: tuple(text.split(",")), default=(), metavar="SHAPES",
                        help="only shapes whose names have one of these parts, such as 38x38,7x7")
    options = parser.parse_args(arguments)
    options.effort = cases.QUICK if options.quick else cases.FULL
    options.selection = cases.Selection(options.operators, options.types, options.threads, options.shapes)
    if not any(map(options.selection.takes, cases.cases(options.effort))):
        names = dict.fromkeys(case.shape_name for case in cases.cases(options.effort))
        parser.error(f"nothing is left to measure; the shapes are {' '.join(names)}")
    return options


def words_of(values):
    """What reads words with commas between, each of which has to be one of the values."""
    by_word = {str(value): value for value in values}

    def read(text):
        words = text.split(",")
        unknown = [word for word in words if word not in by_word]
        if unknown:
            raise argparse.ArgumentTypeError(f"'{unknown[0]}' is none of {' '.join(by_word)}")
        return tuple(by_word[word] for word in words)

    return read


def machine(kernels, onednn, effort):
    """What the figures depend on besides the code."""
    capability = re.search(r"CPU capability usage: (\S+)", torch.__config__.show())
    return {
        **machines.describe(),
        "paths": kernels.paths(),
        "torch": torch.__version__,
        "torch_capability": capability.group(1) if capability else None,
        "onednn": onednn.version() if onednn else None,
        "numpy": contestants.np.__version__,
        "openblas_core": kernels.blas_core(),
        "rounds": effort.rounds,
    }


def measure(case, group, effort):
    """One row; ours were checked before anything is timed."""
    try:
        return figures.Row(case, rounds.run(group.calls, effort.rounds, effort.block_seconds, group.rest))
    finally:
        group.close()


def measure_pooling(kernels, onednn, effort, wanted):
    """A row for each case, in their order; the data of a type and shape are made once."""
    found = {}
    for value_type, shape in dict.fromkeys((case.value_type, case.shape) for case in wanted):
        print(f"{value_type} {cases.shape_name(shape)}", file=sys.stderr, flush=True)
        data = contestants.Data(value_type, shape)
        for case in wanted:
            if (case.value_type, case.shape) == (value_type, shape):
                found[case] = measure(case, contestants.Contestants(case, data, kernels, onednn), effort)
    return [found[case] for case in wanted]


def measure_products(kernels, effort, wanted):
    found = []
    for case in wanted:
        print(f"mm {case.shape_name}", file=sys.stderr, flush=True)
        found.append(measure(case, contestants.Products(case, kernels), effort))
    return found


def write_files(path, report, picture):
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".svg").write_text(picture, encoding="utf-8")
    print(f"\nwritten: {path} and {path.with_suffix('.svg')}")


def main(arguments):
    options = parse_arguments(arguments)
    effort = options.effort
    wanted = [case for case in cases.cases(effort) if options.selection.takes(case)]
    left_out = [case for case in cases.cases(effort) if not options.selection.takes(case)]
    folder = pathlib.Path(os.environ["ACLNN_BIN"]) / "tests" / "bench" / "kernel_bench"
    kernels = libraries.Kernels(str(folder / "libkernel_bench.so"))
    onednn = libraries.OneDnn(str(folder / "libonednn_bench.so"))
    about = machine(kernels, onednn, effort)
    machines.warn_if_busy(about, "figures, above all of several threads, say little")
    print("\n".join(f"{key}: {value}" for key, value in about.items()))
    begin = time.monotonic()
    try:
        rows = measure_pooling(kernels, onednn, effort, [case for case in wanted if case.operator != "mm"])
        products = measure_products(kernels, effort, [case for case in wanted if case.operator == "mm"])
    except contestants.WrongResult as error:
        print(f"tests/bench/kernels: {error}", file=sys.stderr)
        return 1
    best = kernels.paths()[-1]
    reached = targets.all_targets(rows + products, best, left_out)
    lines = tables.blocks(rows, kernels.paths()) + tables.product_lines(products) + tables.target_lines(reached)
    print("\n".join(lines))
    print(f"\n{len(rows)} rows in {time.monotonic() - begin:.0f} s; every result of ours had torch's fp32 bits")
    if options.json:
        report = {
            "machine": about,
            "rows": [figures.row_to_json(row, best) for row in rows + products],
            "targets": [target.to_json() for target in reached],
        }
        write_files(options.json, report, plot.svg(rows, best, f"aclnn-server's CPU kernels ({best}), {about['cpu']}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
