"""Rows and targets as text."""

import math

import cases
import figures
from common import goals


def _number(value, width=7):
    if value is None:
        return "-".rjust(width)
    return (f"{value:.0f}" if value >= 100 else f"{value:.1f}").rjust(width)


def _ratio(value):
    if value is None:
        return "-".center(17)
    return f"{value.median:5.2f} {value.low:5.2f}-{value.high:<5.2f}"


def _short(value):
    return "    -" if value is None else f"{value.median:5.2f}"


def _median(row, name):
    return row.median(name) if row is not None and name in row.rounds else None


def _other_paths(row, paths):
    return " ".join(
        _number(_median(row, figures.ours(path, index_type))) for path in paths[:-1]
        for index_type in cases.INDEX_TYPES)


def _heading(paths, peers):
    columns = [
        "shape".ljust(30), "ours64".rjust(7), "ours32".rjust(7), "x64  quartiles".ljust(17), "x32  quartiles".ljust(17),
        "lim64", "lim32"
    ]
    columns += [name.rjust(7) for name in peers]
    columns += [f"{path[:4]}{index[3:]}".rjust(7) for path in paths[:-1] for index in cases.INDEX_TYPES]
    return " ".join(columns)


_PEER_COLUMNS = {"torch": "torch", "ch_last": "torch channels_last", "dnnl": "onednn nchw", "dnnl16c": "onednn blocked",
                 "numpy": "numpy"}


def block(rows, twins, paths):
    """The lines of one operator, type and number of threads. twins: fp16's rows by shape, beside bf16's."""
    case = rows[0].case
    best = paths[-1]
    against = "torch" if case.operator == "backward" else "the best peer"
    lines = [
        f"\n{case.operator} {case.value_type}, threads: {case.threads}; microseconds; ours is {best}; "
        f"x: {against} / ours, median and quartiles; lim: ours / limit",
        _heading(paths, _PEER_COLUMNS) + ("  fp16_64 fp16_32" if twins else "")
    ]
    for row in rows:
        peer = "torch" if case.operator == "backward" else figures.best_peer(row)
        fields = [row.case.shape_name.ljust(30)]
        fields += [_number(_median(row, figures.ours(best, index))) for index in cases.INDEX_TYPES]
        fields += [_ratio(figures.times_faster(row, peer, best, index)) for index in cases.INDEX_TYPES]
        fields += [_short(figures.times_limit(row, best, index)) for index in cases.INDEX_TYPES]
        fields += [_number(_median(row, name)) for name in _PEER_COLUMNS.values()]
        if len(paths) > 1:
            fields.append(_other_paths(row, paths))
        if twins:
            twin = twins.get(row.case.shape)
            fields += [_number(_median(twin, figures.ours(best, index))) for index in cases.INDEX_TYPES]
        lines.append(" ".join(fields))
    return lines


def blocks(rows, paths):
    """All tables. fp16 has no peer in torch 1.13; it stands beside bf16."""
    lines = []
    keys = dict.fromkeys((row.case.operator, row.case.value_type, row.case.threads) for row in rows)
    for operator, value_type, threads in keys:
        own = [row for row in rows if (row.case.operator, row.case.threads) == (operator, threads)]
        if value_type == "fp16" and any(row.case.value_type == "bf16" for row in own):
            continue
        twins = {row.case.shape: row for row in own if row.case.value_type == "fp16"} if value_type == "bf16" else {}
        lines += block([row for row in own if row.case.value_type == value_type], twins, paths)
    return lines


def product_lines(rows):
    """The matrix product: microseconds, and what that is in operations."""
    lines = []
    for row in rows:
        operations = 2 * math.prod(row.case.shape)
        lines.append(f"\naclnnMm {row.case.shape_name}, threads: {row.case.threads}")
        lines += [f"  {name:12} {_number(row.median(name))} us  {operations / row.median(name) / 1e3:7.1f} GFLOP/s"
                  for name in row.rounds]
    return lines


def target_lines(targets):
    return goals.target_lines(targets) + [
        "at limit: the value that a kernel would have which took as long as the memory takes for the same bytes"
    ]
