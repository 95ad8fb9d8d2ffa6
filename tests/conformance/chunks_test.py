"""Execute: how a tensor's bytes may be cut into chunks and messages, and what breaks the rules."""

import itertools
import random

import numpy
import pytest

import messages
from expect import refused
from jobs import GRAD_INPUT, GRAD_OUTPUT, INDICES, SELF, Backward
from messages import begin, chunk, execute, split
from wire import blob, integer

JOB = Backward.make(planes=(2, 5), input_size=(13, 11), output_size=(7, 6))
GRADS, PLACES = JOB.data()[GRAD_OUTPUT], JOB.data()[INDICES]
BEGIN = begin(request=JOB.request())


def run(client, *data):
    (result,) = client.execute(*data)
    JOB.check(result)
    return result


# ---- Every legal cut


def test_everything_in_one_message(client):
    run(client, execute(BEGIN, JOB.chunks()))


def test_one_message_per_piece(client):
    run(client, execute(BEGIN), *(execute(None, [item]) for item in JOB.chunks(100)))


def test_small_job_is_answered_by_one_message(client):
    stream = client.stream().send(execute(BEGIN, JOB.chunks()))
    stream.read()
    assert len(stream.results) == 1
    JOB.check(stream.results[0])
    stream.finish()


@pytest.mark.parametrize("size", [1, 3, 4, 7, 8, 63, 64, 65, 255, 839, 840, 1000, 1679, 1680, 1681, 100000])
def test_any_chunk_size(client, size):
    run(client, execute(BEGIN, JOB.chunks(size)))


@pytest.mark.parametrize("size", [1, 13, 500])
def test_any_chunk_size_with_a_message_each(client, size):
    step = max(size, 40) if size == 1 else size
    run(client, execute(BEGIN), *(execute(None, [item]) for item in JOB.chunks(step)))


def test_tensors_may_interleave(client):
    grads, places = split(GRAD_OUTPUT, GRADS, 50), split(INDICES, PLACES, 91)
    mixed = [item for pair in zip(grads, places) for item in pair]
    mixed += grads[len(places):] + places[len(grads):]
    run(client, execute(BEGIN, mixed))


def test_tensors_may_come_in_any_order(client):
    run(client, execute(BEGIN, split(INDICES, PLACES) + split(GRAD_OUTPUT, GRADS)))


@pytest.mark.parametrize("seed", range(20))
def test_random_cuts(client, seed):
    draw = random.Random(seed)
    left = {GRAD_OUTPUT: GRADS, INDICES: PLACES}
    at = {GRAD_OUTPUT: 0, INDICES: 0}
    data, pending = [], [BEGIN, []]
    while any(at[index] < len(left[index]) for index in at):
        index = draw.choice([index for index in at if at[index] < len(left[index])])
        size = draw.choice([1, 2, 5, 17, 64, 333, 4000])
        pending[1].append(chunk(index, at[index], left[index][at[index]:at[index] + size]))
        at[index] += len(left[index][at[index]:at[index] + size])
        if draw.random() < 0.3:
            data.append(execute(*pending))
            pending = [None, []]
    if pending[0] is not None or pending[1]:
        data.append(execute(*pending))
    run(client, *data)


def test_fields_of_a_chunk_come_in_any_order(client):
    for index, raw in ((GRAD_OUTPUT, GRADS), (INDICES, PLACES)):
        parts = [integer(1, index), integer(2, 0), integer(3, 0), integer(4, len(raw)), blob(999, raw)]
        other = split(INDICES if index == GRAD_OUTPUT else GRAD_OUTPUT, PLACES if index == GRAD_OUTPUT else GRADS)
        for order in itertools.permutations(parts):
            run(client, execute(BEGIN, [b"".join(order)] + other))


def test_parts_of_a_message_come_in_any_order(client):
    parts = [blob(2, item) for item in JOB.chunks()]
    run(client, parts[0] + blob(1, BEGIN) + parts[1])
    run(client, parts[0] + parts[1] + blob(1, BEGIN))


def test_begin_in_two_pieces_is_one_begin_or_refused(client):
    data = blob(1, BEGIN) + blob(1, integer(5, 8192)) + b"".join(
        blob(2, item) for item in JOB.chunks())
    refused(client.execute_failure(data)[0], "SEQUENCE_INVALID")


def test_reply_keeps_to_the_chunk_size_that_was_asked_for(client):
    job = Backward.make(planes=(2, 5), input_size=(100, 50))
    for size in (4096, 5000, 65536):
        message = execute(begin(request=job.request(), max_chunk_bytes=size), job.chunks())
        (result,) = client.execute(message)
        job.check(result)
        assert max(result.chunk_sizes) <= size


def test_reply_chunks_default_to_one_mebibyte(client):
    job = Backward.make(planes=(1, 1), input_size=(1000, 1000))
    assert max(job.run(client).chunk_sizes) <= messages.CHUNK_BYTES_DEFAULT


@pytest.mark.parametrize("size", [1, 4095, -1, -(1 << 63)])
def test_chunk_size_below_the_minimum_is_refused(client, size):
    message = execute(begin(request=JOB.request(), max_chunk_bytes=size), JOB.chunks())
    refused(client.execute_failure(message)[0], "ACLNN_ERR_PARAM_INVALID", says=["max_chunk_bytes", size, 4096])


@pytest.mark.parametrize("size", [(4 << 20) - 65536, 4 << 20, 1 << 40, (1 << 63) - 1])
def test_large_chunk_size_is_cut_to_what_a_message_holds(client, size):
    job = Backward.make(planes=(1, 1), input_size=(1500, 1500))
    (result,) = client.execute(execute(begin(request=job.request(), max_chunk_bytes=size), job.chunks()))
    job.check(result)


def test_chunk_of_the_announced_maximum_is_taken(client):
    job = Backward.make(planes=(1, 8), input_size=(8, 8), output_size=(512, 256))
    plan = client.plan(job.request())
    stream = client.stream().send(execute(begin(executor=plan.executor, workspace_size=plan.workspace_size)))
    for index, raw in job.data().items():
        for item in split(index, raw, plan.max_chunk_bytes):
            stream.send(execute(None, [item]))
    job.check(stream.read_result())
    stream.finish()


def test_bytes_of_holes_come_back_as_zeros(client):
    strides = {"strides": (800, 240, 26, 2), "storage_offset": 3, "storage_elements": 2000}
    shape = (2, 3, 8, 8)
    job = Backward.make()
    arguments = job.arguments()
    arguments[GRAD_INPUT] = messages.tensor("gradInput", messages.FLOAT, shape, **strides)
    request = messages.request(messages.BACKWARD, arguments)
    (result,) = client.execute(execute(begin(request=request), job.chunks()))
    expected = numpy.zeros(2000, numpy.float32)
    view = numpy.lib.stride_tricks.as_strided(expected[3:], shape, [stride * 4 for stride in strides["strides"]])
    view[...] = numpy.frombuffer(job.expected(), numpy.float32).reshape(shape)
    assert bytes(result.tensors[GRAD_INPUT]) == expected.tobytes()


def test_strided_inputs_travel_as_storage(client):
    job = Backward.make()
    arguments = job.arguments()
    shape = job.grad_output.shape
    storage = numpy.full(200, 1e30, numpy.float32)
    strides = (60, 12, 5, 2)
    view = numpy.lib.stride_tricks.as_strided(storage[7:], shape, [stride * 4 for stride in strides])
    view[...] = job.grad_output
    arguments[GRAD_OUTPUT] = messages.tensor("gradOutput", messages.FLOAT, shape, strides, 7, storage_elements=200)
    request = messages.request(messages.BACKWARD, arguments)
    data = split(GRAD_OUTPUT, storage.tobytes()) + split(INDICES, job.data()[INDICES])
    job.check(client.execute(execute(begin(request=request), data))[0])


def test_expanded_input_is_sent_once(client):
    job = Backward.make()
    job.grad_output = numpy.broadcast_to(numpy.float32(2.5), job.grad_output.shape)
    arguments = job.arguments()
    arguments[GRAD_OUTPUT] = messages.tensor("gradOutput", messages.FLOAT, job.grad_output.shape, (0, 0, 0, 0))
    request = messages.request(messages.BACKWARD, arguments)
    data = [chunk(GRAD_OUTPUT, 0, numpy.float32(2.5).tobytes())] + split(INDICES, job.data()[INDICES])
    (result,) = client.execute(execute(begin(request=request), data))
    assert bytes(result.tensors[GRAD_INPUT]) == job.expected()


def test_empty_job_needs_no_chunk(client):
    job = Backward.make(planes=(0, 3))
    (result,) = client.execute(execute(begin(request=job.request())))
    assert result.done is not None and not result.tensors.get(GRAD_INPUT)


def test_empty_gradient_over_full_input_gives_zeros(client):
    job = Backward.make(planes=(2, 3), output_size=(0, 2))
    (result,) = client.execute(execute(begin(request=job.request())))
    assert bytes(result.tensors[GRAD_INPUT]) == bytes(2 * 3 * 8 * 8 * 4)


# ---- Every illegal one

HALF = len(GRADS) // 2
WHOLE_PLACES = split(INDICES, PLACES)
FIRST_HALF = chunk(GRAD_OUTPUT, 0, GRADS[:HALF])
BROKEN = {
    "gap": [FIRST_HALF, chunk(GRAD_OUTPUT, HALF + 4, GRADS[HALF + 4:])],
    "gap at the start": [chunk(GRAD_OUTPUT, 4, GRADS[4:])],
    "overlap": [FIRST_HALF, chunk(GRAD_OUTPUT, HALF - 4, GRADS[HALF - 4:])],
    "twice the same": [FIRST_HALF, FIRST_HALF],
    "surplus in the chunk": [chunk(GRAD_OUTPUT, 0, GRADS + b"\x00")],
    "surplus in a chunk of its own": split(GRAD_OUTPUT, GRADS) + [chunk(GRAD_OUTPUT, len(GRADS), b"\x00")],
    "empty chunk": [chunk(GRAD_OUTPUT, 0, b"")],
    "empty chunk at the end": split(GRAD_OUTPUT, GRADS) + [chunk(GRAD_OUTPUT, len(GRADS), b"")],
    "chunk without data": [integer(1, GRAD_OUTPUT)],
    "negative offset": [chunk(GRAD_OUTPUT, -1, GRADS)],
    "huge offset": [FIRST_HALF, chunk(GRAD_OUTPUT, (1 << 63) - 1, GRADS[HALF:])],
    "untransferred tensor": [chunk(SELF, 0, bytes(16))],
    "output": [chunk(GRAD_INPUT, 0, bytes(16))],
    "unknown tensor": [chunk(4, 0, bytes(16))],
    "largest tensor index": [chunk((1 << 32) - 1, 0, bytes(16))],
}


@pytest.mark.parametrize("chunks", BROKEN.values(), ids=BROKEN.keys())
@pytest.mark.parametrize("apart", [False, True], ids=["one message", "messages"])
def test_broken_chunks_are_refused(client, chunks, apart):
    data = [execute(BEGIN)] + [execute(None, [item]) for item in chunks] if apart else [execute(BEGIN, chunks)]
    failure, results = client.execute_failure(*data, half_close=False)
    refused(failure, "TENSOR_DATA_INVALID")
    assert results == [] and failure.metadata.get("job") == "0"


def test_refusal_names_the_tensor_and_the_numbers(client):
    failure, _ = client.execute_failure(execute(BEGIN, BROKEN["gap"]), half_close=False)
    refused(failure, "TENSOR_DATA_INVALID", "gradOutput", [HALF, HALF + 4])


def test_surplus_in_the_completing_message_fails_that_job(client):
    message = execute(BEGIN, JOB.chunks() + [chunk(INDICES, len(PLACES), b"\x00")])
    failure, results = client.execute_failure(message, half_close=False)
    refused(failure, "TENSOR_DATA_INVALID")
    assert results == [] and failure.metadata["job"] == "0"


@pytest.mark.parametrize("wait", [False, True])
def test_surplus_in_a_later_message_comes_after_the_result(client, wait):
    stream = client.stream().send(execute(BEGIN, JOB.chunks()))
    if wait:
        stream.read_result()
    stream.send(execute(None, [chunk(INDICES, len(PLACES), b"\x00")]))
    failure = stream.fail()
    refused(failure, "SEQUENCE_INVALID") if failure.reason == "SEQUENCE_INVALID" else refused(
        failure, "TENSOR_DATA_INVALID")
    JOB.check(stream.results[0])
    assert failure.metadata["job"] == "1"


def test_chunk_above_the_maximum_is_refused(client):
    job = Backward.make(planes=(1, 8), input_size=(8, 8), output_size=(512, 256))
    plan = client.plan(job.request())
    raw = job.data()[GRAD_OUTPUT][:plan.max_chunk_bytes + 1]
    if len(raw) + 4096 > messages.MESSAGE_BYTES_MAX:
        # Such a message doesn't fit through a channel either.
        raw = raw[:messages.MESSAGE_BYTES_MAX - 64]
    assert len(raw) > plan.max_chunk_bytes
    message = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), [chunk(0, 0, raw)])
    refused(client.execute_failure(message, half_close=False)[0], "TENSOR_DATA_INVALID", says=[plan.max_chunk_bytes])


@pytest.mark.parametrize("chunks", [[], [FIRST_HALF], split(GRAD_OUTPUT, GRADS),
                                    split(GRAD_OUTPUT, GRADS) + [chunk(INDICES, 0, PLACES[:-1])]],
                         ids=["nothing", "half a tensor", "one tensor", "all but a byte"])
def test_half_close_before_the_last_byte_is_refused(client, chunks):
    failure, _ = client.execute_failure(execute(BEGIN, chunks))
    refused(failure, "TENSOR_DATA_INVALID")
    assert failure.metadata["job"] == "0"


def test_message_above_the_limit_of_grpc_ends_the_call_alone(client):
    failure, _ = client.execute_failure(execute(BEGIN, [chunk(GRAD_OUTPUT, 0, bytes(4 << 20))]), half_close=False)
    assert failure.code.name == "RESOURCE_EXHAUSTED" and failure.details_bytes == 0
    JOB.run(client)
