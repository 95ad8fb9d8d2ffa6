"""The golden cases: inputs, expected bytes and expected refusals, through the Python client."""

import json
import pathlib
import zlib

import numpy
import pytest

import aclnn_client
import reference
from arrays import STORED, from_client, spec, to_client

DATA = pathlib.Path(__file__).resolve().parents[1] / "golden" / "data"
CASES = json.loads((DATA / "manifest.json").read_text(encoding="utf-8"))["cases"]
RUN = set()
CANN_NAMES = {"grad_output": "gradOutput", "self": "self", "indices": "indices", "grad_input": "gradInput"}


@pytest.fixture(scope="module")
def data():
    return memoryview((DATA / "data.bin").read_bytes())


def load(data, tensor):
    """A tensor of the manifest as stored bits; its checksum has to fit."""
    raw = data[tensor["offset"]:tensor["offset"] + tensor["nbytes"]]
    assert zlib.crc32(raw) == tensor["crc32"]
    return numpy.frombuffer(raw, STORED[tensor["dtype"]]).reshape(tensor["shape"])


def count(figures, case):
    """Each case once, though it is run on the CPU and on emulated devices."""
    RUN.add(case["id"])
    figures["golden cases"] = len(RUN)


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']}-{case['name']}" for case in CASES])
def test_golden_case(any_client, data, figures, case):
    count(figures, case)
    if case["expect"] == "reject_params":
        check_refused_parameters(any_client, case)
    elif case["kind"] == "forward":
        check_forward(any_client, data, case)
    else:
        check_backward(any_client, data, case)


def check_refused_parameters(client, case):
    specs = {CANN_NAMES[name]: spec(tensor["shape"], tensor["dtype"]) for name, tensor in case["params"].items()}
    outputs = {"gradInput": specs.pop("gradInput")}
    with pytest.raises(aclnn_client.AclnnError) as error:
        client.get_workspace_size("aclnnAdaptiveMaxPool2dBackward", inputs=specs, outputs=outputs)
    assert error.value.status == 161002


def check_forward(client, data, case):
    data_type = case["dtype"]
    values = load(data, case["tensors"]["self"])
    output, indices = client.adaptive_max_pool2d(to_client(values, data_type), tuple(case["output_size"]))
    assert reference.same_bits(from_client(output, data_type), load(data, case["tensors"]["output"]), data_type)
    assert numpy.array_equal(indices, load(data, case["tensors"]["indices"]))


def check_backward(client, data, case):
    data_type = case["dtype"]
    grads = to_client(load(data, case["tensors"]["grad_output"]), data_type)
    indices = load(data, case["tensors"]["indices"])
    if case["expect"] == "reject_index":
        with pytest.raises(aclnn_client.AclnnError) as error:
            client.adaptive_max_pool2d_backward(grads, spec(case["self_shape"], data_type), indices)
        assert error.value.status == 161002
        assert case["bad_value"] in str(error.value) and str(case["bad_flat_position"]) in str(error.value)
        return
    got = client.adaptive_max_pool2d_backward(grads, spec(case["self_shape"], data_type), indices)
    assert reference.same_bits(from_client(got, data_type), load(data, case["tensors"]["grad_input"]), data_type)


def test_all_golden_cases_are_there():
    assert len(CASES) >= 201
