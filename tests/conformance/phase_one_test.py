"""GetWorkspaceSize: what it answers and what it refuses."""

import pytest

import messages
from expect import refused
from jobs import Backward, backward_descriptions, described, forward_arguments, forward_request
from messages import BACKWARD, BF16, FLOAT, FLOAT16, FORWARD, INT32, INT64
from wire import blob, integer, packed, unpacked

MAX64 = (1 << 63) - 1


def backward(**changes):
    return messages.request(BACKWARD, backward_descriptions(**changes))


# ---- What it answers


def test_plan_names_every_tensor_with_its_bytes(client):
    plan = client.plan(Backward.make().request())
    names = [(item.name, item.direction, item.storage_bytes, item.transferred) for item in plan.tensors]
    assert names == [("gradOutput", messages.INPUT, 96, True), ("self", messages.INPUT, 1536, False),
                     ("indices", messages.INPUT, 192, True), ("gradInput", messages.OUTPUT, 1536, True)]
    assert len(plan.executor) > 0
    assert plan.max_chunk_bytes >= messages.CHUNK_BYTES_DEFAULT
    assert plan.target == messages.CPU or plan.target == messages.NPU


def test_tensors_stand_in_the_order_of_the_request(client):
    arguments = list(reversed(backward_descriptions()))
    plan = client.plan(messages.request(BACKWARD, arguments))
    assert [item.name for item in plan.tensors] == ["gradInput", "indices", "self", "gradOutput"]


def test_undescribed_output_is_inferred(client):
    plan = client.plan(forward_request((2, 3, 7, 9), (3, 2), BF16))
    output, indices = plan.tensors[1], plan.tensors[2]
    assert (output.name, output.data_type, output.shape, output.storage_bytes) == ("outputOut", BF16, (2, 3, 3, 2), 72)
    assert (indices.name, indices.data_type, indices.shape) == ("indicesOut", INT64, (2, 3, 3, 2))


def test_attributes_are_no_tensors(client):
    plan = client.plan(forward_request((2, 3, 7, 9), (3, 2)))
    assert [item.name for item in plan.tensors] == ["self", "outputOut", "indicesOut"]


@pytest.mark.parametrize("target", [0, messages.AUTO, messages.CPU])
@pytest.mark.parametrize("numerics, given", [(0, messages.DEVICE), (1, 1), (2, 2), (3, 3)])
def test_plan_says_target_and_numerics(client, target, numerics, given):
    plan = client.plan(Backward.make().request(target=target, numerics=numerics))
    # The CPU gives the exact bits whatever was asked for, and may say so.
    assert plan.numerics in (given, messages.EXACT)
    if target == messages.CPU:
        assert plan.target == messages.CPU


def test_strided_views_count_their_storage(client):
    change = {"shape": (2, 3, 2, 2), "strides": (1, 2, 6, 12), "storage_offset": 5}
    plan = client.plan(backward(gradOutput=change))
    assert plan.tensors[0].storage_bytes == (5 + 1 + 1 + 2 * 2 + 6 + 12) * 4
    plan = client.plan(backward(gradOutput={**change, "storage_elements": 100}))
    assert plan.tensors[0].storage_bytes == 400


def test_packed_and_unpacked_shapes_are_the_same(client):
    job = Backward.make()
    arguments = job.arguments()
    arguments[1] = messages.argument("self", blob(2, integer(1, FLOAT) + unpacked(2, job.input_shape)))
    assert client.plan(messages.request(BACKWARD, arguments)).tensors == client.plan(job.request()).tensors


def test_shape_may_be_packed_in_pieces(client):
    job = Backward.make()
    arguments = job.arguments()
    pieces = packed(2, (2, 3)) + integer(2, 8) + packed(2, ()) + packed(2, (8,))
    arguments[1] = messages.argument("self", blob(2, integer(1, FLOAT) + pieces))
    assert client.plan(messages.request(BACKWARD, arguments)).tensors == client.plan(job.request()).tensors


@pytest.mark.parametrize("data_type", [FLOAT, FLOAT16, BF16])
@pytest.mark.parametrize("index_type", [INT32, INT64])
@pytest.mark.parametrize("format", [0, messages.ND, messages.NCHW])
def test_supported_types_and_formats_are_taken(client, data_type, index_type, format):
    more = {"data_type": data_type, "format": format}
    client.plan(backward(gradOutput=more, self=more, gradInput=more,
                         indices={"data_type": index_type, "format": format}))


def test_rank_three_is_taken(client):
    shapes = dict(gradOutput={"shape": (3, 1, 1)}, self={"shape": (3, 4, 4)}, indices={"shape": (3, 1, 1)},
                  gradInput={"shape": (3, 4, 4)})
    client.plan(backward(**{name: {**desc, "format": messages.NCL} for name, desc in shapes.items()}))


def test_empty_batch_needs_no_workspace(client):
    plan = client.plan(backward(gradOutput={"shape": (0, 3, 2, 2)}, self={"shape": (0, 3, 8, 8)},
                                indices={"shape": (0, 3, 2, 2)}, gradInput={"shape": (0, 3, 8, 8)}))
    assert plan.workspace_size == 0
    assert [item.storage_bytes for item in plan.tensors] == [0, 0, 0, 0]


# ---- What it refuses


@pytest.mark.parametrize("name", ["gradOutput", "self", "indices", "gradInput"])
def test_missing_parameter_is_a_null_pointer(client, name):
    refused(client.plan_failure(backward(**{name: None})), "ACLNN_ERR_PARAM_NULLPTR", name)


@pytest.mark.parametrize("name", ["self", "outputSize", "outputOut", "indicesOut"])
def test_missing_parameter_of_the_forward_is_a_null_pointer(client, name):
    arguments = [item for item in forward_arguments((1, 2, 5, 5), (2, 2)) if name.encode() not in item]
    refused(client.plan_failure(messages.request(FORWARD, arguments)), "ACLNN_ERR_PARAM_NULLPTR", name)


def test_null_pointer_goes_before_other_faults(client):
    failure = client.plan_failure(backward(gradOutput=None, self={"data_type": INT32}))
    refused(failure, "ACLNN_ERR_PARAM_NULLPTR", "gradOutput")


WRONG_TENSORS = [
    # (what, changes, the parameter to blame or None, what the message says)
    ("types differ", dict(gradOutput={"data_type": FLOAT16}), None, ["float16"]),
    ("gradInput's type differs", dict(gradInput={"data_type": BF16}), None, ["bfloat16"]),
    ("values are integers", dict(gradOutput={"data_type": INT32}, self={"data_type": INT32},
                                 gradInput={"data_type": INT32}), None, ["int32"]),
    ("values are doubles", dict(gradOutput={"data_type": 12}, self={"data_type": 12},
                                gradInput={"data_type": 12}), None, ["float64"]),
    ("indices are floats", dict(indices={"data_type": FLOAT}), "indices", ["float32"]),
    ("indices are int16", dict(indices={"data_type": 8}), "indices", ["int16"]),
    ("type not given", dict(self={"data_type": 0}), "self", []),
    ("ranks differ", dict(gradOutput={"shape": (3, 2, 2)}), None, []),
    ("rank is two", dict(gradOutput={"shape": (1, 1)}, self={"shape": (2, 2)}, indices={"shape": (1, 1)},
                         gradInput={"shape": (2, 2)}), None, ["2"]),
    ("rank is five", dict(gradOutput={"shape": (2, 3, 1, 1, 1)}, self={"shape": (2, 3, 2, 2, 2)},
                          indices={"shape": (2, 3, 1, 1, 1)}, gradInput={"shape": (2, 3, 2, 2, 2)}), None, ["5"]),
    ("rank is nine", dict(self={"shape": (1,) * 9}), "self", []),
    ("indices' shape differs", dict(indices={"shape": (2, 3, 2, 1)}), None, []),
    ("gradInput's shape differs", dict(gradInput={"shape": (2, 3, 8, 7)}), None, ["7"]),
    # The public unit tests let these two pass phase 1 (the real stack fails later); we refuse at once.
    ("channels differ", dict(gradOutput={"shape": (2, 1, 2, 2)}, indices={"shape": (2, 1, 2, 2)}), None, []),
    ("batches differ", dict(gradOutput={"shape": (1, 3, 2, 2)}, indices={"shape": (1, 3, 2, 2)}), None, []),
    ("negative dim", dict(self={"shape": (2, 3, -8, 8)}, gradInput={"shape": (2, 3, -8, 8)}), "self", ["-8"]),
    ("formats differ", dict(self={"format": messages.NCHW}, gradInput={"format": messages.ND},
                            gradOutput={"format": messages.NCHW}, indices={"format": messages.NCHW}), None, []),
    # CANN lets NHWC pass and then reads it as NCHW; we refuse it.
    ("NHWC", {name: {"format": messages.NHWC} for name in ("gradOutput", "self", "indices", "gradInput")}, None,
     ["NHWC"]),
    ("plane too large", dict(self={"shape": (2, 3, 100000000, 1000)}, gradInput={"shape": (2, 3, 100000000, 1000)}),
     None, ["2147483647"]),
    ("plane one too large", dict(self={"shape": (2, 3, 1, 1 << 31)}, gradInput={"shape": (2, 3, 1, 1 << 31)}), None,
     ["2147483648", "2147483647"]),
    ("height is zero", dict(self={"shape": (2, 3, 0, 8)}, gradInput={"shape": (2, 3, 0, 8)}), None, []),
    ("negative stride", dict(gradOutput={"strides": (12, 4, -2, 1)}), "gradOutput", ["-2"]),
    ("too few strides", dict(gradOutput={"strides": (4, 2, 1)}), "gradOutput", []),
    ("negative offset", dict(gradOutput={"storage_offset": -1}), "gradOutput", ["-1"]),
    ("storage too small", dict(gradOutput={"storage_elements": 23}), "gradOutput", ["23"]),
    ("offset beyond the storage", dict(gradOutput={"storage_offset": 1, "storage_elements": 24}), "gradOutput", []),
    ("negative storage", dict(gradOutput={"storage_elements": -5}), "gradOutput", ["-5"]),
    ("output overlaps", dict(gradInput={"strides": (0, 64, 8, 1)}), "gradInput", []),
    ("output's rows overlap", dict(gradInput={"strides": (192, 64, 7, 1)}), "gradInput", []),
]


@pytest.mark.parametrize("changes, parameter, says", [case[1:] for case in WRONG_TENSORS],
                         ids=[case[0] for case in WRONG_TENSORS])
def test_wrong_tensor_is_refused(client, changes, parameter, says):
    refused(client.plan_failure(backward(**changes)), "ACLNN_ERR_PARAM_INVALID", parameter, says)


HOSTILE_SHAPES = [
    (1 << 31, 1 << 31, 1, 1), (1 << 32, 1 << 32, 1, 1), (1 << 62, 2, 1, 1), (1 << 62, 4, 1, 1), (MAX64, 1, 1, 1),
    (MAX64, MAX64, 1, 1), (MAX64, MAX64, MAX64, MAX64), (3037000500, 3037000500, 1, 1), (1 << 16,) * 4,
    (1, 1, 1 << 32, 1 << 32), (1, 1, 1 << 62, 1 << 62), (-(1 << 63), 1, 1, 1), (-1, -1, 1, 1), (0, MAX64, MAX64, 1),
    (2, 3, MAX64, 0),
]


@pytest.mark.parametrize("shape", HOSTILE_SHAPES)
def test_hostile_shape_is_refused_without_allocation(server, client, shape):
    before = server.resident_bytes()
    pooled = shape[:2] + (1, 1)
    request = backward(gradOutput={"shape": pooled}, self={"shape": shape}, indices={"shape": pooled},
                       gradInput={"shape": shape})
    failure = client.plan_failure(request)
    assert failure.reason in ("ACLNN_ERR_PARAM_INVALID", "JOB_TOO_LARGE"), failure
    refused(failure, failure.reason)
    assert server.resident_bytes() - before < 64 << 20


@pytest.mark.parametrize("strides", [(MAX64, 1, 1, 1), (1, 1, 1, MAX64), (MAX64,) * 4, (1 << 62, 1 << 62, 1, 1)])
def test_hostile_strides_are_refused(client, strides):
    refused(client.plan_failure(backward(gradOutput={"strides": strides})), "ACLNN_ERR_PARAM_INVALID", "gradOutput")


def test_hostile_offset_is_refused(client):
    refused(client.plan_failure(backward(gradOutput={"storage_offset": MAX64})), "ACLNN_ERR_PARAM_INVALID",
            "gradOutput")


@pytest.mark.parametrize("elements", [MAX64, MAX64 // 4 + 1, 1 << 62])
def test_hostile_storage_is_refused(client, elements):
    failure = client.plan_failure(backward(gradOutput={"storage_elements": elements}))
    assert failure.reason in ("ACLNN_ERR_PARAM_INVALID", "JOB_TOO_LARGE"), failure
    refused(failure, failure.reason)


WRONG_OUTPUT_SIZES = [(0, 1), (1, 0), (-1, 1), (1,), (1, 1, 1), (), (1 << 40, 1 << 40), (MAX64, MAX64)]


@pytest.mark.parametrize("output_size", WRONG_OUTPUT_SIZES)
def test_wrong_output_size_is_refused(client, output_size):
    failure = client.plan_failure(forward_request((1, 2, 5, 5), output_size))
    if failure.reason == "JOB_TOO_LARGE" and output_size[0] > 1:
        refused(failure, "JOB_TOO_LARGE")
    else:
        refused(failure, "ACLNN_ERR_PARAM_INVALID")


@pytest.mark.parametrize("data_type", [INT32, INT64, 6, 7, 8, 12, 13])
def test_forward_takes_floats_only(client, data_type):
    refused(client.plan_failure(forward_request((1, 2, 5, 5), (2, 2), data_type)), "ACLNN_ERR_PARAM_INVALID")


def test_unknown_name_is_refused(client):
    arguments = backward_descriptions() + described(gradOuptut=(FLOAT, (1,)))
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "ACLNN_ERR_PARAM_INVALID", "gradOuptut")


def test_double_name_is_refused(client):
    arguments = backward_descriptions() + described(self=(FLOAT, (2, 3, 8, 8)))
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "ACLNN_ERR_PARAM_INVALID", "self")


@pytest.mark.parametrize("argument", [messages.int_array("self", (2, 3)), messages.integer_argument("self", 3)])
def test_wrong_kind_is_refused(client, argument):
    arguments = backward_descriptions(self=None) + [argument]
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "ACLNN_ERR_PARAM_INVALID", "self")


def test_thousands_of_arguments_are_refused(client):
    arguments = described(**{f"name{number}": (FLOAT, (1,)) for number in range(5000)})
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "ACLNN_ERR_PARAM_INVALID")


def test_very_long_name_is_shortened_in_the_message(client):
    arguments = backward_descriptions() + [messages.tensor("x" * 100000, FLOAT, (1,))]
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "ACLNN_ERR_PARAM_INVALID")


def test_negative_ttl_is_refused(client):
    refused(client.plan_failure(Backward.make().request(ttl_ms=-1)), "ACLNN_ERR_PARAM_INVALID", says=["ttl_ms"])


@pytest.mark.parametrize("name", ["aclnnNoSuchOperator", "", "aclnnAdaptiveMaxPool2dBackwardX", "x" * 20000])
def test_unknown_operator_is_not_found(client, name):
    failure = refused(client.plan_failure(messages.request(name, backward_descriptions())), "OPERATOR_UNKNOWN")
    assert name[:20] in failure.message


def test_npu_that_is_not_there_is_unavailable(start_server, connect):
    client = connect(start_server("--npu", "off"))
    refused(client.plan_failure(Backward.make().request(target=messages.NPU)), "TARGET_UNAVAILABLE")
    assert client.plan(Backward.make().request(target=messages.AUTO)).target == messages.CPU


@pytest.mark.parametrize("data", [b"\xff", b"\x0a", b"\x0a\x05abc", b"\x08", b"\x80" * 11, b"\x00\x00", b"\x0f\x01",
                                  b"\x12\x02\x0a\x7f", b"\x0b\x0c", b"\x07", b"\x0a" + b"\xff" * 9 + b"\x01"])
def test_what_is_no_protobuf_message_is_refused(client, data):
    failure = client.plan_failure(data)
    assert failure.reason in ("MESSAGE_INVALID", "FEATURE_UNSUPPORTED"), failure
    refused(failure, failure.reason)


@pytest.mark.parametrize("name", [b"\xff\xfe", b"\xc3", b"abc\xed\xa0\x80", b"\xc0\x80", b"acl\x00nn"])
def test_bad_text_is_refused(client, name):
    refused(client.plan_failure(messages.request(name, backward_descriptions())), "MESSAGE_INVALID")
    argument = messages.argument(name, messages.blob(2, messages.tensor_desc(FLOAT, (1,))))
    refused(client.plan_failure(messages.request(BACKWARD, [argument])), "MESSAGE_INVALID")


def test_deeply_nested_bytes_do_no_harm(client):
    data = b""
    for _ in range(2000):
        data = messages.blob(2, data)[:60000]
    failure = client.plan_failure(data)
    assert failure.reason in ("MESSAGE_INVALID", "FEATURE_UNSUPPORTED", "OPERATOR_UNKNOWN"), failure
