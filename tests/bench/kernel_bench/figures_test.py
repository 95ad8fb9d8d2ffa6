"""Ratios, targets, tables, JSON and plot from figures that are made up."""

import json
import xml.etree.ElementTree

import pytest

import cases
import figures
import main
import plot
import rounds
import tables
import targets
from common import ratios

DENSE = (1, 64, 112, 112, 56, 56)
SPARSE = (32, 64, 112, 112, 7, 7)


def row(operator="backward", value_type="fp32", threads=1, shape=DENSE, **contestants):
    """A row; contestants as torch=[...], ours_wide_int64=[...]."""
    named = {name.replace("_wide_", " wide ").replace("limit_", "limit ").replace("memset_", "memset ").replace(
        "streaming_", "streaming ").replace("onednn_", "onednn ").replace("_last", " channels_last"): value
             for name, value in contestants.items()}
    return figures.Row(cases.Case(operator, value_type, threads, shape), named)


def target(found, name):
    matches = [entry for entry in found if name in entry.name]
    assert len(matches) == 1
    return matches[0]


def test_ratio_is_the_median_of_the_rounds_ratios():
    # The quotients are 2, 4 and 1; the medians' quotient would be 3.
    quotient = ratios.ratio([6, 4, 2], [3, 1, 2])
    assert (quotient.median, quotient.low, quotient.high) == (2, 1.5, 3)


def test_one_round_has_no_spread():
    assert ratios.ratio([3], [2]) == ratios.Ratio(1.5, 1.5, 1.5)


def test_geometric_mean_of_reciprocals_is_one():
    assert ratios.geometric_mean([4, 0.25]) == pytest.approx(1)


def test_best_peer_has_the_lowest_median():
    one = row("forward", torch=[9, 9, 1], torch_last=[5, 5, 5], onednn_nchw=[6, 4, 6])
    assert figures.best_peer(one) == "torch channels_last"
    assert figures.best_peer(row("forward")) is None


def test_limit_is_the_better_kind_of_store():
    one = row(ours_wide_int64=[6], limit_memset_int64=[5], limit_streaming_int64=[3])
    assert figures.times_limit(one, "wide", "int64").median == 2
    assert figures.times_limit(one, "wide", "int32") is None


def test_missing_contestant_gives_no_ratio():
    assert figures.times_faster(row(torch=[1]), "torch", "wide", "int64") is None
    assert figures.times_faster(row(ours_wide_int64=[1]), "torch", "wide", "int64") is None


def test_backward_mean_is_over_the_shapes_of_its_own_type_and_threads():
    rows = [
        row(torch=[8], ours_wide_int64=[4]),
        row(torch=[8], ours_wide_int64=[1], shape=SPARSE),
        row(torch=[8], ours_wide_int64=[100], threads=2),
        row(torch=[8], ours_wide_int64=[100], value_type="bf16"),
    ]
    found = target(targets.all_targets(rows, "wide"), "backward fp32 int64, 1 thr")
    assert found.value == pytest.approx(4)
    assert found.met and found.goal_met


def test_slowest_shape_is_named_and_fails_the_target():
    rows = [row(torch=[8], ours_wide_int64=[4], ours_wide_int32=[10]), row(torch=[8], ours_wide_int64=[2])]
    found = target(targets.all_targets(rows, "wide"), "slowest shape against torch")
    assert found.value == pytest.approx(0.8)
    assert found.where == "fp32, 1 thr, 1x64x112x112->56x56, int32"
    assert found.met is False and found.goal_met is False


def test_multiple_of_the_limit_has_to_be_low():
    rows = [
        row(shape=SPARSE, ours_wide_int64=[115], limit_memset_int64=[100]),
        row(shape=DENSE, ours_wide_int64=[900], limit_memset_int64=[100]),
    ]
    found = target(targets.all_targets(rows, "wide"), "times the limit")
    assert found.value == pytest.approx(1.15)
    assert found.met is True and found.goal_met is False


def test_only_large_outputs_with_few_gradients_are_held_to_the_limit():
    assert targets.is_large_and_sparse(cases.Case("backward", "bf16", 1, SPARSE))
    assert not targets.is_large_and_sparse(cases.Case("backward", "fp32", 1, cases.SINGLE_PLANE))
    assert not targets.is_large_and_sparse(cases.Case("backward", "fp32", 1, (8, 256, 38, 38, 1, 1)))


def test_forward_is_held_to_the_best_peer_of_each_shape():
    rows = [
        row("forward", torch=[90], onednn_nchw=[8], ours_wide_int64=[4]),
        row("forward", torch=[16], ours_wide_int64=[2], shape=SPARSE),
    ]
    found = targets.all_targets(rows, "wide")
    assert target(found, "forward fp32, 1 thr").value == pytest.approx(4)
    worst = target(found, "forward fp32, slowest")
    assert worst.value == pytest.approx(2)
    assert worst.where.endswith("(onednn nchw)")


def test_targets_say_what_the_memory_would_allow():
    rows = [
        row(torch=[80], ours_wide_int64=[10], limit_memset_int64=[5], limit_streaming_int64=[4]),
        row(torch=[90], ours_wide_int64=[90], limit_memset_int64=[18], shape=SPARSE),
        row("forward", torch=[90], onednn_blocked=[8], ours_wide_int64=[16], limit_memset_int64=[10]),
    ]
    found = targets.all_targets(rows, "wide")
    assert target(found, "backward fp32 int64, 1 thr").at_limit == pytest.approx(10)
    assert target(found, "backward fp32 and bf16, slowest").at_limit == pytest.approx(5)
    assert target(found, "forward fp32, slowest").at_limit == pytest.approx(0.8)
    assert target(found, "aclnnMm fp32").at_limit is None


def test_targets_of_two_threads_are_not_judged_on_a_disturbed_machine():
    rows = [row(torch=[8], ours_wide_int64=[1]), row(torch=[800], ours_wide_int64=[1], threads=2)]
    found = targets.all_targets(rows, "wide")
    assert target(found, "backward fp32 int64, 1 thr").met is True
    two = target(found, "backward fp32 int64, 2 thr")
    assert two.value == pytest.approx(800) and two.met is None and two.goal_met is None
    assert any("not judged: torch with 2 threads takes 100 times" in line for line in tables.target_lines(found))


def test_product_is_held_to_its_slowest_number_of_threads():
    rows = [
        figures.Row(cases.Case("mm", "fp32", threads, cases.PRODUCT),
                    {"cblas_sgemm": [10], "mm fp32": [fp32], "mm bf16": [20]}) for threads, fp32 in ((1, 8), (2, 16))
    ]
    found = targets.all_targets(rows, "wide")
    assert target(found, "aclnnMm fp32").value == pytest.approx(10 / 16)
    assert target(found, "aclnnMm fp32").where == "fp32, 2 thr, 1024x1024x1024"
    assert target(found, "aclnnMm bf16").value == pytest.approx(8 / 20)
    assert f"{2 * 1024**3 / 8 / 1e3:.1f} GFLOP/s" in "\n".join(tables.product_lines(rows))


def test_what_was_not_measured_is_neither_met_nor_missed():
    for entry in targets.all_targets([], "wide"):
        assert entry.value is None and entry.met is None and entry.goal_met is None
    assert all("not measured" in line for line in tables.target_lines(targets.all_targets([], "wide"))[1:-1])


def test_target_without_all_of_its_rows_is_not_measured():
    rows = [
        row(torch=[8], ours_wide_int64=[1]),
        row("forward", torch=[8], ours_wide_int64=[1]),
        figures.Row(cases.Case("mm", "fp32", 1, cases.PRODUCT), {"cblas_sgemm": [9], "mm fp32": [8], "mm bf16": [8]})
    ]
    left_out = [
        cases.Case("backward", "fp32", 1, SPARSE), cases.Case("mm", "fp32", 2, cases.PRODUCT),
        cases.Case("forward", "fp32", 2, DENSE)
    ]
    found = targets.all_targets(rows, "wide", left_out)
    for name in ("backward fp32 int64, 1 thr", "slowest shape against torch", "times the limit", "aclnnMm fp32",
                 "forward fp32, slowest", "forward fp32, 2 thr"):
        entry = target(found, name)
        assert entry.value is None and entry.met is None and entry.goal_met is None
    assert target(found, "backward fp32 int64, 1 thr").where == "1 of 2 rows"
    assert "not measured (1 of 2 rows)" in "\n".join(tables.target_lines(found))
    assert target(found, "forward fp32, 1 thr").met is True
    assert target(targets.all_targets(rows, "wide"), "aclnnMm fp32").met is True


def test_types_without_a_peer_are_no_part_of_the_targets_against_it():
    left_out = [cases.Case("backward", "fp16", 1, DENSE)]
    found = targets.all_targets([row(torch=[8], ours_wide_int64=[1])], "wide", left_out)
    assert target(found, "slowest shape against torch").met is True


def test_json_has_the_promised_keys():
    one = row(torch=[8, 8], ours_wide_int64=[4, 2], limit_memset_int64=[2, 2])
    entry = json.loads(json.dumps(figures.row_to_json(one, "wide")))
    assert entry["contestants"]["torch"] == {"median_us": 8, "rounds_us": [8, 8]}
    assert entry["ratios"]["ours wide int64"]["torch"]["median"] == 3
    assert entry["ratios"]["ours wide int64"]["limit"]["median"] == 1.5
    for found in targets.all_targets([one], "wide"):
        assert {"name", "value", "at_least", "goal", "met"} <= set(json.loads(json.dumps(found.to_json())))


def test_tables_put_fp16_beside_bf16():
    rows = [
        row(value_type="bf16", torch=[8], ours_wide_int64=[4], ours_wide_int32=[4]),
        row(value_type="fp16", ours_wide_int64=[777], ours_wide_int32=[888])
    ]
    text = "\n".join(tables.blocks(rows, ["plain", "wide"]))
    assert "777" in text and "888" in text
    assert "backward fp16" not in text
    assert "backward fp16" in "\n".join(tables.blocks(rows[1:], ["plain", "wide"]))


def test_plot_is_xml_with_a_dot_for_every_ratio():
    rows = [
        row(torch=[8, 9], ours_wide_int64=[4, 4], ours_wide_int32=[2, 2]),
        row("forward", torch=[8, 9], ours_wide_int64=[4, 4]),
        row(value_type="fp16", ours_wide_int64=[4, 4])
    ]
    root = xml.etree.ElementTree.fromstring(plot.svg(rows, "wide", "a < b & c"))
    name = "{http://www.w3.org/2000/svg}"
    legend = 2
    assert len(root.findall(f"{name}circle")) == legend + 3
    assert root.findtext(f"{name}text") == "a < b & c"


def test_every_contestant_is_called_in_every_round():
    called = []
    found = rounds.run({name: lambda name=name: called.append(name) for name in "abc"}, rounds=3, block_seconds=0)
    assert {name: len(values) for name, values in found.items()} == {"a": 3, "b": 3, "c": 3}
    assert all(value > 0 for values in found.values() for value in values)
    assert set(called) == set("abc")


def test_long_calls_are_rounds_of_their_own():
    assert rounds.size_of_a_round(1.0, 0.006) == (1, 1)
    assert rounds.size_of_a_round(0.01, 0.006) == (rounds.PARTS, 1)
    assert rounds.size_of_a_round(0.000001, 0.006) == (rounds.PARTS, 1500)


def test_cases_are_the_sixteen_shapes_in_every_type_and_number_of_threads():
    everything = cases.cases(cases.FULL)
    pooling = [case for case in everything if case.operator != "mm"]
    assert len(pooling) == len(set(pooling)) == 2 * 3 * 2 * 16
    assert [case.threads for case in everything if case.operator == "mm"] == [1, 2]
    assert cases.FULL.rounds >= 7
    assert set(cases.cases(cases.QUICK)) < set(everything)


def taken(*words):
    selection = main.parse_arguments(words).selection
    return [case for case in cases.cases(cases.FULL) if selection.takes(case)]


def test_everything_is_measured_unless_something_is_named():
    assert taken() == cases.cases(cases.FULL)


def test_only_what_is_named_is_measured():
    assert taken("--shapes", "38x38->2,112x112->56", "--types", "fp32", "--threads", "2", "--operators", "forward") == [
        cases.Case("forward", "fp32", 2, DENSE), cases.Case("forward", "fp32", 2, (8, 256, 38, 38, 2, 2))
    ]
    assert {case.operator for case in taken("--operators", "mm,backward")} == {"mm", "backward"}
    assert {case.value_type for case in taken("--types", "bf16,fp16")} == {"bf16", "fp16"}


@pytest.mark.parametrize("words, message", [
    (("--types", "fp64"), "'fp64' is none of fp32 bf16 fp16"),
    (("--threads", "1,3"), "'3' is none of 1 2"),
    (("--operators", ""), "'' is none of backward forward mm"),
    (("--shapes", "39x39"), "nothing is left to measure; the shapes are 32x64x112x112->7x7 "),
    (("--operators", "mm", "--shapes", "38x38"), "nothing is left to measure"),
    (("--quick", "--shapes", "14x14"), "nothing is left to measure"),
])
def test_selection_of_nothing_is_refused(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        main.parse_arguments(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
