"""The synchronous client against the fake server: results, the two phases, what messages look like."""

from __future__ import annotations

import copy
import pickle
import queue
import socket
import threading
from typing import Any, Dict, Tuple

import grpc
import numpy as np
import pytest

from aclnn_client import AclnnArgumentError, AclnnError, Client, Tensor, TensorSpec
from fake_server import FakeServer
from sample_jobs import BACKWARD, backward_plan, data_of, example, expected_gradient

RNG = np.random.default_rng(5)


# ---- Operators


def test_pooling_gives_outputs_and_indices(client: Client) -> None:
    x = np.arange(2 * 4 * 6, dtype=np.float32).reshape(1, 2, 4, 6)
    out, indices = client.adaptive_max_pool2d(x, (2, 3))
    assert np.array_equal(out[0, 0], [[7, 9, 11], [19, 21, 23]])
    assert np.array_equal(indices[0, 1], [[7, 9, 11], [19, 21, 23]])
    assert out.dtype == np.float32 and indices.dtype == np.int64


def test_output_sizes_are_given_as_in_torch(client: Client) -> None:
    x = RNG.random((3, 6, 8), np.float32)
    assert client.adaptive_max_pool2d(x, 2)[0].shape == (3, 2, 2)
    assert client.adaptive_max_pool2d(x, (None, 4))[0].shape == (3, 6, 4)
    assert client.adaptive_max_pool2d(x, [3, None])[0].shape == (3, 3, 8)


def test_indices_can_be_int32(client: Client) -> None:
    x = RNG.random((1, 2, 6, 8), np.float32)
    _, wide = client.adaptive_max_pool2d(x, 3)
    _, narrow = client.adaptive_max_pool2d(x, 3, indices_dtype="int32")
    assert narrow.dtype == np.int32 and np.array_equal(narrow, wide)


@pytest.mark.parametrize("description", ["array", "spec"])
def test_the_gradient_needs_only_the_shape_of_the_input(
    server: FakeServer, client: Client, description: str
) -> None:
    job = example()
    x = job["self"] if description == "array" else TensorSpec("float32", job["self"].shape)
    gradient = client.adaptive_max_pool2d_backward(job["gradOutput"], x, job["indices"])
    assert np.array_equal(gradient, expected_gradient(job))
    assert server.received_bytes == job["gradOutput"].nbytes + job["indices"].nbytes
    assert server.seen == {"Execute": 1}


def test_results_are_fresh_and_writable(client: Client) -> None:
    job = example()
    gradient = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    gradient += 1
    again = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert not np.array_equal(gradient, again)


def test_the_gradient_comes_in_the_layout_that_was_asked_for(client: Client) -> None:
    job = example((2, 3, 4, 5), (2, 2))
    layout = TensorSpec("float32", (2, 3, 4, 5), strides=(60, 1, 15, 3))
    gradient = client.adaptive_max_pool2d_backward(
        job["gradOutput"], job["self"], job["indices"], grad_input=layout
    )
    assert gradient.strides == (240, 4, 60, 12) and np.array_equal(gradient, expected_gradient(job))


def test_strided_inputs_give_the_same_result(client: Client) -> None:
    job = example((2, 8, 6, 6), (3, 3))
    wanted = expected_gradient(job)
    strided = np.ascontiguousarray(job["gradOutput"].transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    reversed_indices = np.ascontiguousarray(job["indices"][:, ::-1])[:, ::-1]
    gradient = client.adaptive_max_pool2d_backward(strided, job["self"], reversed_indices)
    assert np.array_equal(gradient, wanted)


def test_raw_bfloat16_comes_back_raw(client: Client) -> None:
    job = example()
    gradient = Tensor.from_float32(job["gradOutput"])
    result = client.adaptive_max_pool2d_backward(gradient, TensorSpec("bf16", job["self"].shape), job["indices"])
    wanted = expected_gradient(dict(job, gradOutput=gradient.to_float32()))
    assert isinstance(result, Tensor) and np.array_equal(result.bits, Tensor.from_float32(wanted).bits)


def test_empty_tensors_go_both_ways(client: Client) -> None:
    out, indices = client.adaptive_max_pool2d(np.empty((0, 3, 8, 8), np.float32), 2)
    assert out.shape == indices.shape == (0, 3, 2, 2)


def test_any_operator_can_be_called_by_name(server: FakeServer, client: Client) -> None:
    a, b = RNG.random((3, 4), np.float32), RNG.random((4, 5), np.float32)
    for _ in range(3):
        result = client.call("aclnnMm", {"self": a, "mat2": b}, ["out"], {"cubeMathType": 0})
        assert np.allclose(result["out"], a @ b)
    assert result.summary.target == "cpu" and result.summary.attempts == 1
    assert server.seen == {"ListOperators": 1, "Execute": 3}


def test_inputs_of_which_only_the_shape_counts_are_not_sent(server: FakeServer, client: Client) -> None:
    job = example()
    result = client.call(BACKWARD, job, {"gradInput": None})
    assert np.array_equal(result["gradInput"], expected_gradient(job))
    assert server.received_bytes == job["gradOutput"].nbytes + job["indices"].nbytes


def test_the_server_tells_about_itself(client: Client) -> None:
    info = client.server_info()
    assert info.server_version == "0.0-fake" and info.limits["max_executors"] == 9
    assert info.targets[0].target == "cpu" and info.targets[0].numerics == ("device", "deterministic", "exact")
    backward = {operator.name: operator for operator in client.list_operators()}[BACKWARD]
    by_name = {parameter.name: parameter for parameter in backward.parameters}
    assert by_name["self"].shape_only and by_name["indices"].dtypes == ("int32", "int64")
    assert by_name["gradInput"].direction == "output" and backward.effect == "pure"


def test_health_is_asked_for_by_service(client: Client) -> None:
    assert client.health() and client.health("aclnn.v1.OperatorService")
    with pytest.raises(AclnnError) as caught:
        client.health("nobody")
    assert caught.value.code == grpc.StatusCode.NOT_FOUND


# ---- The two phases


def test_phase_one_tells_what_phase_two_needs(client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, numerics="exact")
    assert (plan.workspace_size, plan.target, plan.numerics) == (4096, "cpu", "exact")
    assert plan.executor and plan.expires_at > 0 and not plan.repeatable
    assert [(t.name, t.direction, t.transferred) for t in plan.tensors] == [
        ("gradOutput", "input", True),
        ("self", "input", False),
        ("indices", "input", True),
        ("gradInput", "output", True),
    ]
    assert plan.tensors[3].spec == TensorSpec.of(job["self"])
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))


def test_a_one_shot_plan_runs_once(client: Client) -> None:
    job = example()
    plan = backward_plan(client, job)
    client.execute(plan, data_of(job))
    with pytest.raises(AclnnError) as caught:
        client.execute(plan, data_of(job))
    assert caught.value.reason == "EXECUTOR_CONSUMED"
    assert caught.value.code == grpc.StatusCode.FAILED_PRECONDITION


def test_a_repeatable_plan_runs_until_it_is_destroyed(server: FakeServer, client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, repeatable=True, ttl=5)
    for _ in range(3):
        assert np.array_equal(client.execute(plan, job)["gradInput"], expected_gradient(job))
    client.destroy(plan)
    client.destroy(plan)
    assert server.executor_count == 0
    with pytest.raises(AclnnError, match="was destroyed"):
        client.execute(plan, data_of(job))


def test_arrays_of_another_layout_than_planned_are_packed(client: Client) -> None:
    job = example((2, 8, 6, 6), (3, 3))
    plan = backward_plan(client, job)
    data = data_of(job)
    data["gradOutput"] = np.asfortranarray(data["gradOutput"])
    assert np.array_equal(client.execute(plan, data)["gradInput"], expected_gradient(job))


@pytest.mark.parametrize(
    "change, status, message",
    [
        ({"indices": None}, 161001, "the data of indices are missing"),
        ({"indices": TensorSpec("int64", (2, 3, 4, 5))}, 161001, "the data of indices are missing"),
        ({"gradOutput": np.zeros((1, 3, 4, 5), "f4")}, 161002, r"gradOutput is float32\[1, 3, 4, 5\], the plan"),
        ({"gradOutput": np.zeros((2, 3, 4, 5), "f8")}, 161002, r"gradOutput is float64\[2, 3, 4, 5\], the plan"),
        ({"gradoutput": 1}, 161002, "the plan has no input gradoutput; its inputs are: gradOutput, indices, self"),
    ],
)
def test_data_that_do_not_fit_the_plan_are_not_sent(
    server: FakeServer, client: Client, change: Any, status: int, message: str
) -> None:
    job = example()
    plan = backward_plan(client, job)
    with pytest.raises(AclnnArgumentError, match=message) as caught:
        client.execute(plan, {**data_of(job), **change})
    error = caught.value
    assert isinstance(error, AclnnError) and isinstance(error, ValueError)
    assert (error.code, error.status, error.parameter) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        status,
        next(iter(change)),
    )
    assert "Execute" not in server.seen


def test_what_is_no_tensor_is_a_type_error_with_a_plan_too(server: FakeServer, client: Client) -> None:
    job = example()
    plan = backward_plan(client, job)
    with pytest.raises(TypeError, match="is not a tensor"):
        client.execute(plan, {**data_of(job), "indices": [1, 2]})
    assert "Execute" not in server.seen


@pytest.mark.parametrize(
    "arguments, error",
    [
        (({"self": np.zeros((2, 2), "U1")}, ["out"]), TypeError),
        (({"self": [1.0, 2.0]}, ["out"]), TypeError),
        (({}, ["out"], {"size": {"a": 1}}), TypeError),
        (({}, ["out"], {"size": [1.5]}), TypeError),
        (({}, ["out"], {"size": [1 << 63]}), ValueError),
    ],
)
def test_arguments_that_cannot_be_sent_are_refused_here(
    server: FakeServer, client: Client, arguments: Any, error: Any
) -> None:
    with pytest.raises(error):
        client.get_workspace_size("aclnnMm", *arguments)
    assert server.seen == {}


@pytest.mark.parametrize(
    "options",
    [{"target": "gpu"}, {"numerics": "fast"}, {"max_chunk_bytes": 4095}, {"retries": -1}, {"timeout": 0}],
)
def test_a_client_refuses_options_that_make_no_sense(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Client("127.0.0.1:1", **options)


# ---- Messages


def test_a_small_job_is_one_message(server: FakeServer, client: Client) -> None:
    job = example()
    client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert len(server.request_sizes) == 1


@pytest.mark.parametrize("chunk_bytes", [4096, 100_000, 1 << 20, (4 << 20) - 65536])
@pytest.mark.parametrize("two_phases", [True, False])
def test_large_tensors_travel_in_chunks_below_the_limit(
    server: FakeServer, chunk_bytes: int, two_phases: bool
) -> None:
    server.faults.max_chunk_bytes = 3 << 20
    job = example((2, 16, 256, 256), (128, 128))
    with Client(server.address, timeout=60, max_chunk_bytes=chunk_bytes) as client:
        if two_phases:
            result = client.execute(backward_plan(client, job), data_of(job))
        else:
            result = client.call(BACKWARD, job, ["gradInput"])
    assert np.array_equal(result["gradInput"], expected_gradient(job))
    assert max(server.request_sizes) < (4 << 20)


@pytest.mark.parametrize("reply_chunk_bytes", [1, 7, 1000])
def test_replies_may_come_in_any_chunks(server: FakeServer, client: Client, reply_chunk_bytes: int) -> None:
    server.faults.reply_chunk_bytes = reply_chunk_bytes
    job = example()
    gradient = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert np.array_equal(gradient, expected_gradient(job))


def test_unknown_fields_of_replies_are_ignored(server: FakeServer, client: Client) -> None:
    server.faults.unknown_fields = True
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    assert client.server_info().cpu_path == "numpy" and client.list_operators() and client.health()
    client.destroy(plan)


@pytest.mark.parametrize("encoding", [1, 16])
def test_replies_may_be_encoded(server: FakeServer, client: Client, encoding: int) -> None:
    if encoding == 1:
        pytest.importorskip("lz4.block")
    server.faults.encoding = encoding
    job = example((2, 4, 64, 64), (3, 3))
    gradient = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert np.array_equal(gradient, expected_gradient(job))


@pytest.mark.parametrize("encodings", [(1,), (16,), (1, 16, 99)])
def test_what_the_server_decodes_is_sent_encoded_where_it_pays(
    server: FakeServer, client: Client, monkeypatch: Any, encodings: Tuple[int, ...]
) -> None:
    from aclnn_client import _codec

    if encodings == (1,):
        pytest.importorskip("lz4.block")
    # As if encoding took no time: then all that gets smaller pays.
    monkeypatch.setattr(_codec.Choice.__init__, "__defaults__", (lambda: 0.0,))
    server.faults.accept_codecs = encodings
    job = example((1, 4, 512, 512), (256, 256))
    job["gradOutput"][...] = 0
    job["gradOutput"][0, 0, 0, :9] = -0.0
    result = client.execute(backward_plan(client, job), data_of(job))
    assert np.array_equal(result["gradInput"], expected_gradient(job))
    assert server.encoded_chunks > 0
    assert server.received_bytes == job["gradOutput"].nbytes + job["indices"].nbytes


def test_without_lz4_it_is_neither_offered_nor_used(
    server: FakeServer, client: Client, monkeypatch: Any
) -> None:
    from aclnn_client import _codec

    monkeypatch.setattr(_codec, "_lz4", None)
    server.faults.accept_codecs, server.faults.encoding = (1,), 1
    job = example((1, 4, 512, 512), (256, 256))
    job["gradOutput"][...] = 0
    result = client.execute(backward_plan(client, job), data_of(job))
    assert np.array_equal(result["gradInput"], np.zeros_like(job["self"]))
    assert server.encoded_chunks == 0


def test_metadata_accompany_every_call(server: FakeServer) -> None:
    with Client(server.address, metadata=[("authorization", "Bearer x")]) as client:
        client.server_info()
        assert ("authorization", "Bearer x") in server.call_metadata
        server.call_metadata = []
        client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)
        assert ("authorization", "Bearer x") in server.call_metadata


# ---- The client as an object


def test_threads_share_a_client_and_a_plan(client: Client) -> None:
    jobs = [example() for _ in range(8)]
    plan = backward_plan(client, jobs[0], repeatable=True)
    wrong = []

    def work(job: Dict[str, np.ndarray]) -> None:
        for _ in range(10):
            planned = client.execute(plan, data_of(job))["gradInput"]
            direct = client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
            if not (np.array_equal(planned, direct) and np.array_equal(direct, expected_gradient(job))):
                wrong.append(job)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_closed_client_says_so(server: FakeServer) -> None:
    client = Client(server.address)
    client.server_info()
    client.close()
    client.close()
    with pytest.raises(ValueError, match="closed"):
        client.server_info()


def test_closing_ends_the_calls_of_other_threads() -> None:
    outcomes: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
    job = example((1, 4, 1024, 1024), (512, 512))  # more than a window, so that it is in the middle of sending

    def run(call: Any) -> None:
        try:
            outcomes.put(call())
        except Exception as error:
            outcomes.put(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts and says nothing
        client = Client(f"127.0.0.1:{listener.getsockname()[1]}")
        calls = (
            client.server_info,
            lambda: client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1),
            lambda: client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"]),
        )
        threads = [threading.Thread(target=run, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        accepted, _ = listener.accept()
        client.close()
        for thread in threads:
            thread.join()
        accepted.close()
    for _ in calls:
        outcome = outcomes.get_nowait()
        assert isinstance(outcome, (AclnnError, ValueError))  # ValueError: the client was closed before the call
        assert isinstance(outcome, ValueError) or outcome.code == grpc.StatusCode.CANCELLED


def test_copies_of_a_client_connect_by_themselves(server: FakeServer, client: Client) -> None:
    client.server_info()
    for twin in (copy.deepcopy(client), pickle.loads(pickle.dumps(client))):
        with twin:
            assert twin.server_info() == client.server_info()
    assert server.seen["GetServerInfo"] == 5


def test_a_unix_socket_is_an_address(tmp_path: Any) -> None:
    fake = FakeServer()
    path = f"unix:{tmp_path}/aclnn.sock"
    fake._server.add_insecure_port(path)
    fake.start()
    try:
        with Client(path, timeout=60) as client:
            assert client.health()
    finally:
        fake.stop()
