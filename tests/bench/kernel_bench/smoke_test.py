"""One tiny case of each kind through the whole way, without oneDNN, whose package tests don't need."""

import os
import pathlib

import pytest

import cases
import contestants
import figures
import libraries
import main

TINY = cases.Effort(rounds=2, block_seconds=0, shapes=((2, 16, 8, 8, 4, 4), (1, 3, 5, 7, 3, 2)),
                    value_types=cases.VALUE_TYPES, threads=(1, 2))


@pytest.fixture(name="kernels", scope="module")
def kernels_fixture():
    folder = pathlib.Path(os.environ["ACLNN_BIN"]) / "tests" / "bench" / "kernel_bench"
    return libraries.Kernels(str(folder / "libkernel_bench.so"))


def test_every_path_takes_part_in_every_case(kernels):
    wanted = [case for case in cases.cases(TINY) if case.operator != "mm"]
    rows = main.measure_pooling(kernels, None, TINY, wanted)
    assert [row.case for row in rows] == wanted
    for row in rows:
        for path in kernels.paths():
            for index_type in cases.INDEX_TYPES:
                assert figures.times_limit(row, path, index_type).median > 0
                peer = figures.best_peer(row)
                assert (peer is None) == (row.case.value_type == "fp16")
                assert peer is None or figures.times_faster(row, peer, path, index_type).median > 0


def test_products_take_part(kernels):
    case = cases.Case("mm", "fp32", 2, (24, 40, 16))
    row = main.measure(case, contestants.Products(case, kernels), TINY)
    assert set(row.rounds) == {"cblas_sgemm", "mm fp32", "mm bf16", "mm fp16"}
    assert all(value > 0 for values in row.rounds.values() for value in values)


def test_wrong_result_is_not_timed(kernels):
    data = contestants.Data("fp32", (1, 1, 4, 4, 2, 2))
    data.expected_grad_input[0, 0, 0, 0] += 1
    with pytest.raises(contestants.WrongResult, match="differs from torch"):
        contestants.Contestants(cases.Case("backward", "fp32", 1, (1, 1, 4, 4, 2, 2)), data, kernels, None)


def test_refusal_is_told(kernels):
    with pytest.raises(RuntimeError, match="data type|dtype|float64"):
        kernels.plan(cases.Case("backward", "float64", 1, (1, 1, 4, 4, 2, 2)), "int64", "scalar")
    with pytest.raises(RuntimeError, match="code path"):
        kernels.plan(cases.Case("backward", "fp32", 1, (1, 1, 4, 4, 2, 2)), "int64", "widest")
