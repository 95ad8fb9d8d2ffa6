"""What a server doesn't know is refused, never passed over: unknown fields, enum values and empty oneofs."""

import pytest

import messages
from expect import refused
from jobs import Backward, backward_descriptions, forward_arguments
from messages import BACKWARD, FLOAT, FORWARD, HINT
from wire import FIXED32, FIXED64, LENGTH, VARINT, blob, integer, packed, tag, varint

JOB = Backward.make()
UNKNOWN_NUMBERS = [37, 998]
HINT_NUMBERS = [HINT, HINT + 234, (1 << 29) - 1]


def with_argument(argument):
    return messages.request(BACKWARD, backward_descriptions(self=None) + [argument])


def in_request(extra):
    return JOB.request(extra=extra)


def in_argument(extra):
    desc = messages.tensor_desc(FLOAT, (2, 3, 8, 8))
    return with_argument(messages.argument("self", blob(2, desc), extra))


def in_tensor_desc(extra):
    desc = messages.tensor_desc(FLOAT, (2, 3, 8, 8), extra=extra)
    return with_argument(messages.argument("self", blob(2, desc)))


def in_int_array(extra):
    arguments = forward_arguments((2, 3, 8, 8), (2, 2))
    arguments[1] = messages.argument("outputSize", blob(3, packed(1, (2, 2)) + extra))
    return messages.request(FORWARD, arguments)


REQUEST_DEPTHS = [in_request, in_argument, in_tensor_desc, in_int_array]


def execute_top(extra):
    return messages.execute(messages.begin(request=JOB.request()), JOB.chunks(), extra)


def execute_begin(extra):
    return messages.execute(messages.begin(request=JOB.request(), extra=extra), JOB.chunks())


def execute_chunk(extra):
    chunks = JOB.chunks()
    index = 2
    chunks[1] = messages.chunk(index, 0, JOB.data()[index], extra=extra)
    return messages.execute(messages.begin(request=JOB.request()), chunks)


EXECUTE_DEPTHS = [execute_top, execute_begin, execute_chunk]
# One of each wire type, of a given field number.
VALUES = {
    "varint": lambda number: integer(number, 1),
    "zero": lambda number: integer(number, 0),
    "fixed64": lambda number: tag(number, FIXED64) + bytes(8),
    "fixed32": lambda number: tag(number, FIXED32) + bytes(4),
    "bytes": lambda number: blob(number, b"abc"),
    "empty": lambda number: blob(number, b""),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("number", UNKNOWN_NUMBERS)
@pytest.mark.parametrize("depth", REQUEST_DEPTHS)
def test_unknown_field_of_phase_one_is_refused(client, depth, number, value):
    refused(client.plan_failure(depth(VALUES[value](number))), "FEATURE_UNSUPPORTED", says=[number])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("number", HINT_NUMBERS)
@pytest.mark.parametrize("depth", REQUEST_DEPTHS)
def test_hint_of_phase_one_is_ignored(client, depth, number, value):
    client.plan(depth(VALUES[value](number)))


@pytest.mark.parametrize("number", UNKNOWN_NUMBERS)
@pytest.mark.parametrize("depth", REQUEST_DEPTHS)
def test_unknown_field_inside_a_begin_is_refused(client, depth, number):
    message = messages.execute(messages.begin(request=depth(integer(number, 1))))
    refused(client.execute_failure(message)[0], "FEATURE_UNSUPPORTED", says=[number])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("number", UNKNOWN_NUMBERS)
@pytest.mark.parametrize("depth", EXECUTE_DEPTHS)
def test_unknown_field_of_execute_is_refused(client, depth, number, value):
    refused(client.execute_failure(depth(VALUES[value](number)))[0], "FEATURE_UNSUPPORTED", says=[number])


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("number", HINT_NUMBERS)
@pytest.mark.parametrize("depth", EXECUTE_DEPTHS)
def test_hint_of_execute_is_ignored(client, depth, number, value):
    (result,) = client.execute(depth(VALUES[value](number)))
    JOB.check(result)


@pytest.mark.parametrize("method", ["GetServerInfo", "ListOperators", "DestroyExecutor"])
@pytest.mark.parametrize("number", UNKNOWN_NUMBERS)
def test_unknown_field_of_other_calls_is_refused(client, method, number):
    executor = client.plan(JOB.request()).executor if method == "DestroyExecutor" else b""
    data = (blob(1, executor) if executor else b"") + integer(number, 1)
    refused(client.unary_failure(method, data), "FEATURE_UNSUPPORTED", says=[number])


@pytest.mark.parametrize("method", ["GetServerInfo", "ListOperators", "DestroyExecutor"])
def test_hint_of_other_calls_is_ignored(client, method):
    executor = client.plan(JOB.request()).executor if method == "DestroyExecutor" else b""
    client.unary(method, (blob(1, executor) if executor else b"") + integer(HINT, 1))


def test_hint_that_is_a_group_is_ignored_or_no_message(client):
    group = tag(HINT, 3) + integer(1, 5) + tag(HINT, 4)
    try:
        client.plan(in_request(group))
    except Exception as error:  # protobuf's implementations differ about groups
        refused(error.failure, "MESSAGE_INVALID")


@pytest.mark.parametrize("value", [28, 999, 1 << 31 - 1, -1])
def test_unknown_data_type_is_refused(client, value):
    refused(client.plan_failure(with_argument(messages.tensor("self", value, (2, 3, 8, 8)))), "FEATURE_UNSUPPORTED",
            says=[value])


@pytest.mark.parametrize("value", [5, 1234, -1])
def test_unknown_format_is_refused(client, value):
    argument = messages.tensor("self", FLOAT, (2, 3, 8, 8), format=value)
    refused(client.plan_failure(with_argument(argument)), "FEATURE_UNSUPPORTED", says=[value])


@pytest.mark.parametrize("value", [4, 77, -1])
def test_unknown_target_is_refused(client, value):
    refused(client.plan_failure(JOB.request(target=value)), "FEATURE_UNSUPPORTED", says=[value])


@pytest.mark.parametrize("value", [4, 77, -1])
def test_unknown_numerics_is_refused(client, value):
    refused(client.plan_failure(JOB.request(numerics=value)), "FEATURE_UNSUPPORTED", says=[value])


@pytest.mark.parametrize("value", [2, 100])
def test_unknown_codec_of_a_chunk_is_refused(client, value):
    chunk = messages.chunk(0, 0, JOB.data()[0], codec=value, raw_bytes=96)
    message = messages.execute(messages.begin(request=JOB.request()), [chunk])
    refused(client.execute_failure(message)[0], "FEATURE_UNSUPPORTED", says=[value])


def test_unknown_codec_among_the_offers_is_passed_over(client):
    message = messages.execute(messages.begin(request=JOB.request(), accept_codecs=(7, 0, 1000, 1 << 30)),
                               JOB.chunks())
    (result,) = client.execute(message)
    JOB.check(result)
    assert set(result.codecs) == {messages.NONE}


@pytest.mark.parametrize("name", ["self", "gradInput"])
def test_argument_without_a_value_is_refused(client, name):
    arguments = backward_descriptions(**{name: None}) + [messages.argument(name, b"")]
    refused(client.plan_failure(messages.request(BACKWARD, arguments)), "FEATURE_UNSUPPORTED")


@pytest.mark.parametrize("begin", [b"", integer(3, 16), packed(4, (1,))])
def test_begin_without_a_plan_is_refused(client, begin):
    refused(client.execute_failure(messages.execute(begin))[0], "FEATURE_UNSUPPORTED")


def test_known_field_of_another_wire_type_is_refused(client):
    for data in (JOB.request(extra=blob(3, b"\x01")), JOB.request(extra=tag(5, FIXED32) + bytes(4)),
                 tag(1, VARINT) + varint(3), tag(2, VARINT) + varint(1)):
        failure = client.plan_failure(data)
        assert failure.reason in ("MESSAGE_INVALID", "FEATURE_UNSUPPORTED"), failure
        refused(failure, failure.reason)


def test_last_value_of_a_oneof_holds(client):
    desc = messages.tensor_desc(FLOAT, (2, 3, 8, 8))
    client.plan(with_argument(messages.argument("self", integer(4, 9) + blob(2, desc))))


def test_lengths_beyond_the_message_are_refused(client):
    for size in (1 << 20, (1 << 31) - 1, 1 << 31, (1 << 63) - 1):
        data = messages.execute(messages.begin(request=JOB.request())) + tag(2, LENGTH) + varint(size) + b"abc"
        refused(client.execute_failure(data)[0], "MESSAGE_INVALID")
