"""From microseconds to ratios and targets. Knows nothing of who measured."""

import dataclasses
import statistics

import cases
from common.ratios import ratio

PEERS = ("torch", "torch channels_last", "onednn nchw", "onednn blocked")
# Outputs that no cache of a core's complex holds, and so few gradients that writing zeros is the work.
LARGE_OUTPUT_BYTES = 32 << 20
FEW_GRADIENTS = 16  # at most one for so many elements of the output


@dataclasses.dataclass
class Row:
    """One measured case: microseconds by contestant, one figure for every round."""

    case: cases.Case
    rounds: dict

    def median(self, name):
        return statistics.median(self.rounds[name])


def ours(path, index_type):
    return f"ours {path} {index_type}"


def fastest(row, names):
    """The one of the names that took part and has the lowest median; None if none did."""
    return min((name for name in names if name in row.rounds), key=row.median, default=None)


def best_peer(row):
    return fastest(row, PEERS)


def limit(row, index_type):
    return fastest(row, (f"limit memset {index_type}", f"limit streaming {index_type}"))


def times_faster(row, peer, path, index_type):
    """How many times as long the peer takes as ours; None if one of them isn't there."""
    name = ours(path, index_type)
    if peer not in row.rounds or name not in row.rounds:
        return None
    return ratio(row.rounds[peer], row.rounds[name])


def times_limit(row, path, index_type):
    """How many times as long ours takes as the memory needs; None where there is no such limit."""
    name = limit(row, index_type)
    if name is None or ours(path, index_type) not in row.rounds:
        return None
    return ratio(row.rounds[ours(path, index_type)], row.rounds[name])


def possible(row, peer, index_type):
    """How many times as long the peer takes as the memory needs: what ours could reach at the most."""
    name = limit(row, index_type)
    if name is None or peer not in row.rounds:
        return None
    return ratio(row.rounds[peer], row.rounds[name])


def row_to_json(row, path):
    """Everything of a row: all rounds, and the ratios of every path of ours."""
    ratios = {}
    for name in row.rounds:
        if name.startswith("ours "):
            _, own_path, index_type = name.split()
            entry = {}
            for peer in (*PEERS, "numpy"):
                quotient = times_faster(row, peer, own_path, index_type)
                if quotient is not None:
                    entry[peer] = dataclasses.asdict(quotient)
            bound = times_limit(row, own_path, index_type)
            if bound is not None:
                entry["limit"] = dataclasses.asdict(bound)
            ratios[name] = entry
    return {
        "operator": row.case.operator,
        "dtype": row.case.value_type,
        "threads": row.case.threads,
        "shape": list(row.case.shape),
        "name": row.case.shape_name,
        "path": path,
        "best_peer": best_peer(row),
        "contestants": {
            name: {"median_us": row.median(name), "rounds_us": [round(value, 3) for value in figures]}
            for name, figures in row.rounds.items()
        },
        "ratios": ratios,
    }
