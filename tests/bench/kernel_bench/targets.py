"""What the kernels are to reach, and what they reached. Knows nothing of who measured."""

import dataclasses

import cases
import figures
from common.goals import Target
from common.ratios import geometric_mean, ratio


# A second thread costs at most this factor, with tiny work, where the machine does nothing else.
DISTURBED = 5


@dataclasses.dataclass(frozen=True)
class _Measured:
    """Rows, and the cases that could have been measured and weren't wanted."""

    rows: list
    left_out: tuple


class _Found:
    """Values with the case that each is of. Of rows some of which are left out no target is judged."""

    def __init__(self):
        self.values = []
        self.at_limit = []
        self.cases = []
        self.row_count = 0
        self.left_out_count = 0

    def rows_of(self, measured, keep=lambda case: True, **wanted):
        """The rows with the wanted properties."""

        def fits(case):
            return all(getattr(case, key) == value for key, value in wanted.items()) and keep(case)

        rows = [row for row in measured.rows if fits(row.case)]
        self.row_count += len(rows)
        self.left_out_count += sum(map(fits, measured.left_out))
        return rows

    def _is_whole(self, target):
        if self.left_out_count > 0:
            target.where = f"{self.row_count} of {self.row_count + self.left_out_count} rows"
        return self.left_out_count == 0 and len(self.values) > 0

    def add(self, ratio, case, note="", possible=None):
        if ratio is not None:
            self.values.append(ratio.median)
            self.at_limit.append(None if possible is None else possible.median)
            self.cases.append(f"{case.value_type}, {case.threads} thr, {case.shape_name}{note}")

    def mean(self, target):
        if self._is_whole(target):
            target.value = geometric_mean(self.values)
            target.where = f"{len(self.values)} shapes"
            if None not in self.at_limit:
                target.at_limit = geometric_mean(self.at_limit)
        return target

    def worst(self, target):
        if self._is_whole(target):
            target.value = max(self.values) if target.at_most else min(self.values)
            place = self.values.index(target.value)
            target.where = self.cases[place]
            target.at_limit = self.at_limit[place]
        return target

    def add_against(self, row, peer, path, index_type, note=""):
        """Ours against a peer, with what the memory would allow."""
        self.add(figures.times_faster(row, peer, path, index_type), row.case, note,
                 figures.possible(row, peer, index_type))


def _backward_means(measured, path):
    marks = {"fp32": {"int64": (1.7, 1.9), "int32": (1.95, 2.2)}, "bf16": {"int64": (2.5, 2.8), "int32": (2.5, 2.8)}}
    for value_type, by_index in marks.items():
        for index_type, (at_least, goal) in by_index.items():
            for threads in (1, 2):
                found = _Found()
                for row in found.rows_of(measured, operator="backward", value_type=value_type, threads=threads):
                    found.add_against(row, "torch", path, index_type)
                name = f"backward {value_type} {index_type}, {threads} thr, geometric mean against torch"
                yield found.mean(Target(name, at_least, goal))


def has_torch(case):
    return case.value_type != "fp16"


def _backward_worst(measured, path):
    found = _Found()
    for row in found.rows_of(measured, has_torch, operator="backward"):
        for index_type in cases.INDEX_TYPES:
            found.add_against(row, "torch", path, index_type, f", {index_type}")
    return found.worst(Target("backward fp32 and bf16, slowest shape against torch", 1.0, 1.2))


def is_large_and_sparse(case):
    """Whether writing zeros that no cache holds is nearly all the work."""
    elements = cases.large_elements(case.shape)
    return (elements * cases.VALUE_BYTES[case.value_type] > figures.LARGE_OUTPUT_BYTES
            and cases.small_elements(case.shape) * figures.FEW_GRADIENTS <= elements)


def _limit(measured, path):
    found = _Found()
    for row in found.rows_of(measured, is_large_and_sparse, operator="backward"):
        for index_type in cases.INDEX_TYPES:
            found.add(figures.times_limit(row, path, index_type), row.case, f", {index_type}")
    name = "backward, output over 32 MB with few gradients: times the limit, worst"
    return found.worst(Target(name, 1.2, 1.1, at_most=True))


def _single_plane(measured, path):
    found = _Found()
    for row in found.rows_of(measured, operator="backward", value_type="fp32", threads=2, shape=cases.SINGLE_PLANE):
        found.add_against(row, "torch", path, "int32")
    name = f"backward fp32 int32, 2 thr, {cases.shape_name(cases.SINGLE_PLANE)} against torch"
    return found.worst(Target(name, 2.9, 3.5))


def _forward(measured, path):
    every = _Found()
    for row in every.rows_of(measured, operator="forward", value_type="fp32"):
        peer = figures.best_peer(row)
        every.add_against(row, peer, path, "int64", f" ({peer})")
    yield every.worst(Target("forward fp32, slowest shape against the best peer", 1.0, 1.2))
    for threads in (1, 2):
        found = _Found()
        for row in found.rows_of(measured, operator="forward", value_type="fp32", threads=threads):
            found.add_against(row, figures.best_peer(row), path, "int64")
        yield found.mean(Target(f"forward fp32, {threads} thr, geometric mean against the best peer", 1.5, 2.0))


def _products(measured):
    for name, at_least, peer, own in (("aclnnMm fp32 1024^3 against cblas_sgemm called directly", 0.97, "cblas_sgemm",
                                       "mm fp32"),
                                      ("aclnnMm bf16 1024^3 against fp32's rate", 0.8, "mm fp32", "mm bf16")):
        found = _Found()
        for row in found.rows_of(measured, operator="mm"):
            found.add(ratio(row.rounds[peer], row.rounds[own]), row.case)
        yield found.worst(Target(name, at_least, None))


def disturbance(rows):
    """Says so if other programs took torch's threads away: what it then takes says nothing about its code."""
    alone = {(row.case.operator, row.case.value_type, row.case.shape): row.median("torch")
             for row in rows if row.case.threads == 1 and "torch" in row.rounds}
    for row in rows:
        single = alone.get((row.case.operator, row.case.value_type, row.case.shape))
        if row.case.threads == 2 and single is not None and row.median("torch") > DISTURBED * single:
            return (f"torch with 2 threads takes {row.median('torch') / single:.0f} times as long as with one for "
                    f"{row.case.operator} {row.case.value_type} {row.case.shape_name}: other programs are running")
    return ""


def all_targets(rows, path, left_out=()):
    """Every target with its value; path is the code path of ours that runs without being asked for another.

    A target that asks for one of the cases that were left out has no value.
    """
    found = _all_targets(_Measured(rows, left_out), path)
    doubt = disturbance(rows)
    for target in found:
        if "2 thr" in target.name:
            target.doubt = doubt
    return found


def _all_targets(measured, path):
    return [
        *_backward_means(measured, path),
        _backward_worst(measured, path),
        _limit(measured, path),
        _single_plane(measured, path),
        *_forward(measured, path),
        *_products(measured),
    ]
