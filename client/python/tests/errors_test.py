"""What goes wrong, and how it is reported: refusals, broken connections, replies against the rules."""

from __future__ import annotations

import pickle
import socket
import threading
from concurrent import futures
from typing import Any, Dict, Iterator, List

import grpc
import numpy as np
import pytest

from aclnn_client import AclnnArgumentError, AclnnError, Client, TensorSpec
from aclnn_client import _messages as messages
from aclnn_client._errors import error_from_rpc
from aclnn_client._wire import encode
from either_client import KINDS, run_with
from fake_operators import Refusal
from fake_server import FakeServer
from sample_jobs import BACKWARD, backward_plan, data_of, example, expected_gradient

BUSY = Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "the queue is full", retry_ms=1)
LOST = Refusal("UNAVAILABLE", "", "Socket closed")


class Proxy:
    """Passes bytes between one client and the server, until it is told to cut the connections."""

    def __init__(self, upstream: str) -> None:
        host, port = upstream.split(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: List[socket.socket] = []
        self.cut_after_bytes: "int | None" = None  # of what the client sends; once
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._upstream)
            self._sockets += (near, far)
            threading.Thread(target=self._pump, args=(near, far, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(far, near, False), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        passed = 0
        try:
            while True:
                data = source.recv(65536)
                passed += len(data)
                if counted and self.cut_after_bytes is not None and passed >= self.cut_after_bytes:
                    self.cut_after_bytes = None
                    data = b""
                if not data:
                    break
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._listener.close()
        for end in self._sockets:
            end.close()


@pytest.fixture
def proxy(server: FakeServer) -> Iterator[Proxy]:
    made = Proxy(server.address)
    yield made
    made.close()


def without_retries(server: FakeServer) -> Client:
    return Client(server.address, timeout=60, retries=0)


# ---- The errors of the service


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("INVALID_ARGUMENT", "ACLNN_ERR_PARAM_NULLPTR", "indices is missing", 161001, "indices"),
        Refusal("INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", "rank 5", 161002, "self", position="3"),
        Refusal("NOT_FOUND", "OPERATOR_UNKNOWN", "no such operator"),
        Refusal("INVALID_ARGUMENT", "MESSAGE_INVALID", "no message"),
        Refusal("UNIMPLEMENTED", "FEATURE_UNSUPPORTED", "field 77"),
        Refusal("RESOURCE_EXHAUSTED", "JOB_TOO_LARGE", "too large", job_bytes=10, limit_bytes=5),
        Refusal("FAILED_PRECONDITION", "TARGET_UNAVAILABLE", "no NPU"),
        Refusal("UNAVAILABLE", "DEVICE_LOST", "all devices failed", 361001),
        Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", retry_ms=2500),
        Refusal("UNAVAILABLE", "DRAINING", "draining", retry_ms=1000),
        Refusal("UNAUTHENTICATED", "UNAUTHENTICATED", "no token"),
        Refusal("INTERNAL", "INTERNAL", "Größe stimmt nicht", 561000),
    ],
    ids=lambda refusal: refusal.reason,
)
@pytest.mark.parametrize("method", ["GetWorkspaceSize", "Execute"])
def test_everything_that_the_server_says_is_in_the_error(
    server: FakeServer, method: str, refusal: Refusal
) -> None:
    job = example()
    server.faults.refusals[method] = [refusal]
    with without_retries(server) as client, pytest.raises(AclnnError) as caught:
        if method == "Execute":
            client.call(BACKWARD, job, ["gradInput"])
        else:
            backward_plan(client, job)
    error = caught.value
    assert (error.code.name, error.reason, error.status) == (refusal.code, refusal.reason, refusal.status)
    assert error.message == str(refusal) and error.parameter == (refusal.parameter or None)
    assert error.retry_after == (None if refusal.retry_ms is None else refusal.retry_ms / 1000)
    assert refusal.metadata.items() <= error.metadata.items()
    assert refusal.reason in str(error) and str(refusal) in str(error)


def test_a_bad_index_is_named_with_its_position(client: Client) -> None:
    job = example()
    job["indices"][0, 1, 2, 3] = 99
    with pytest.raises(AclnnError) as caught:
        client.call(BACKWARD, job, ["gradInput"])
    error = caught.value
    assert (error.status, error.parameter) == (161002, "indices")
    assert (error.metadata["position"], error.metadata["value"]) == ("33", "99")


def test_errors_survive_pickling() -> None:
    error = AclnnError(
        "why", code=grpc.StatusCode.INTERNAL, status=5, reason="R", parameter="p", metadata={"a": "b"}, retry_after=2
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.__dict__ == error.__dict__
    assert AclnnError("only a message").code == grpc.StatusCode.UNKNOWN
    unfit = pickle.loads(pickle.dumps(AclnnArgumentError.invalid("self", "self is 1")))
    assert isinstance(unfit, AclnnArgumentError) and (unfit.status, unfit.parameter) == (161002, "self")


@pytest.mark.parametrize(
    "trailers",
    [
        None,
        (),
        (("grpc-status-details-bin", b"\xff\xff\xff"),),
        (("grpc-status-details-bin", encode(messages.ErrorStatus, {"details": [{"type_url": "x/y.Z"}]})),),
        (("other", "text"),),
    ],
)
def test_details_that_cannot_be_read_leave_code_and_message(trailers: Any) -> None:
    error = error_from_rpc(grpc.StatusCode.UNAVAILABLE, "gone", trailers)
    assert (error.code, error.message, error.reason, error.status) == (
        grpc.StatusCode.UNAVAILABLE,
        "gone",
        "",
        0,
    )


def test_details_of_another_domain_are_not_ours() -> None:
    info = encode(messages.ErrorInfo, {"reason": "QUOTA", "domain": "proxy.example"})
    details = [{"type_url": "type.googleapis.com/google.rpc.ErrorInfo", "value": info}]
    status = encode(messages.ErrorStatus, {"details": details})
    error = error_from_rpc(grpc.StatusCode.UNAVAILABLE, "gone", (("grpc-status-details-bin", status),))
    assert error.reason == "" and error.metadata == {}


# ---- In the middle of an upload


@pytest.mark.parametrize("after", [1, 1 << 20, 5 << 20])
def test_a_refusal_in_the_middle_of_an_upload_arrives_with_its_details(server: FakeServer, after: int) -> None:
    server.faults.refuse_after_bytes = after
    job = example((1, 4, 1024, 1024), (512, 512))
    with without_retries(server) as client:
        with pytest.raises(AclnnError) as caught:
            client.call(BACKWARD, job, ["gradInput"])
        assert (caught.value.reason, caught.value.code.name) == ("QUEUE_TIMEOUT", "RESOURCE_EXHAUSTED")
        assert caught.value.metadata["job"] == "0"
        server.faults.refuse_after_bytes = None
        assert np.array_equal(client.call(BACKWARD, job, ["gradInput"])["gradInput"], expected_gradient(job))


def test_an_early_refusal_arrives_with_its_details(server: FakeServer) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    server.faults.refusals["Execute"] = [Refusal("INVALID_ARGUMENT", "TENSOR_DATA_INVALID", "no")] * 20
    with without_retries(server) as client:
        for _ in range(20):
            with pytest.raises(AclnnError) as caught:
                client.call(BACKWARD, job, ["gradInput"])
            assert caught.value.reason == "TENSOR_DATA_INVALID"


def test_a_failure_while_messages_are_made_is_reported_as_such(client: Client, monkeypatch: Any) -> None:
    from aclnn_client import _codec

    job = example((1, 4, 1024, 1024), (512, 512))
    calls = iter(range(100))

    def fails_later(choice: Any, data: Any) -> None:
        if next(calls) == 3:
            raise MemoryError("no room")

    monkeypatch.setattr(_codec.Choice, "encode", fails_later)
    with pytest.raises(MemoryError, match="no room"):
        client.call(BACKWARD, job, ["gradInput"])


# ---- Trying again


def test_advice_to_try_again_is_followed(server: FakeServer, client: Client) -> None:
    job = example()
    for method in ("GetWorkspaceSize", "Execute", "GetServerInfo", "DestroyExecutor"):
        server.faults.refusals[method] = [BUSY, BUSY]
    plan = backward_plan(client, job, repeatable=True)
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    client.server_info()
    client.destroy(plan)
    assert server.seen == {"GetWorkspaceSize": 3, "Execute": 3, "GetServerInfo": 3, "DestroyExecutor": 3}


def test_retries_are_bounded(server: FakeServer) -> None:
    server.faults.refusals["Execute"] = [BUSY] * 10
    with Client(server.address, retries=3) as client, pytest.raises(AclnnError) as caught:
        client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)
    assert caught.value.reason == "QUEUE_FULL" and server.seen["Execute"] == 4


@pytest.mark.parametrize("code", ["UNAVAILABLE", "CANCELLED"])
def test_a_lost_connection_is_tried_again(server: FakeServer, client: Client, code: str) -> None:
    job = example()
    server.faults.refusals["Execute"] = [Refusal(code, "", "Socket closed")]
    plan = backward_plan(client, job)
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    assert server.seen["Execute"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_way_that_breaks_on_a_retry_does_not_hide_what_the_server_said(server: FakeServer, kind: str) -> None:
    draining = Refusal("UNAVAILABLE", "DRAINING", "draining", retry_ms=1)
    server.faults.refusals["GetServerInfo"] = [draining, LOST, LOST]

    async def body(client: Any) -> None:
        with pytest.raises(AclnnError, match="draining") as caught:
            await client.server_info()
        assert (caught.value.reason, caught.value.retry_after) == ("DRAINING", 0.001)
        assert isinstance(caught.value.__cause__, AclnnError) and "Socket closed" in str(caught.value.__cause__)

    run_with(kind, server.address, body)
    assert server.seen["GetServerInfo"] == 3


@pytest.mark.parametrize(
    "refusals, reason, code",
    [
        ([LOST, BUSY, LOST], "QUEUE_FULL", "RESOURCE_EXHAUSTED"),
        ([BUSY, Refusal("UNAVAILABLE", "DRAINING", "", retry_ms=1), LOST], "DRAINING", "UNAVAILABLE"),
        ([BUSY, Refusal("DEADLINE_EXCEEDED", "", "late")], "", "DEADLINE_EXCEEDED"),
        ([LOST, LOST, LOST], "", "UNAVAILABLE"),
    ],
)
def test_the_last_reason_of_the_server_is_reported(
    server: FakeServer, client: Client, refusals: Any, reason: str, code: str
) -> None:
    server.faults.refusals["GetServerInfo"] = refusals
    with pytest.raises(AclnnError) as caught:
        client.server_info()
    assert (caught.value.reason, caught.value.code.name) == (reason, code)


def test_advice_beyond_the_time_limit_is_not_followed(server: FakeServer) -> None:
    late = Refusal("RESOURCE_EXHAUSTED", "QUEUE_FULL", "full", retry_ms=25_000)
    server.faults.refusals["GetServerInfo"] = [late]
    with Client(server.address, timeout=10) as client, pytest.raises(AclnnError) as caught:
        client.server_info()
    assert caught.value.reason == "QUEUE_FULL" and server.seen["GetServerInfo"] == 1


@pytest.mark.parametrize(
    "refusal",
    [
        Refusal("UNAVAILABLE", "DEVICE_LOST", "lost", 361001),
        Refusal("UNAVAILABLE", "DEVICE_LOST", "lost", 361001, retry_ms=1),
        Refusal("RESOURCE_EXHAUSTED", "JOB_TOO_LARGE", "too large"),
        Refusal("INTERNAL", "INTERNAL", "oops", 561000),
        Refusal("ABORTED", "IDLE_TIMEOUT", "idle"),
        Refusal("RESOURCE_EXHAUSTED", "", "message too large"),
    ],
)
def test_what_may_not_help_is_not_tried_again(server: FakeServer, client: Client, refusal: Refusal) -> None:
    server.faults.refusals["Execute"] = [refusal]
    with pytest.raises(AclnnError) as caught:
        client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)
    assert caught.value.reason == refusal.reason and server.seen["Execute"] == 1


def test_a_one_shot_plans_anew_before_it_is_tried_again(server: FakeServer, client: Client) -> None:
    job = example()
    plan = backward_plan(client, job)
    first = plan.executor
    server.faults.refusals["Execute"] = [BUSY]
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    assert plan.executor != first
    assert server.seen == {"GetWorkspaceSize": 2, "Execute": 2, "DestroyExecutor": 1}
    assert server.executor_count == 0


def test_a_plan_that_the_server_forgot_is_made_anew_once(server: FakeServer, client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    server.forget_executors()
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    assert server.seen == {"GetWorkspaceSize": 2, "Execute": 2}
    invalid = Refusal("INVALID_ARGUMENT", "EXECUTOR_INVALID", "unreadable")
    server.faults.refusals["Execute"] = [invalid]
    assert np.array_equal(client.execute(plan, data_of(job))["gradInput"], expected_gradient(job))
    server.faults.refusals["Execute"] = [invalid, invalid]
    with pytest.raises(AclnnError) as caught:
        client.execute(plan, data_of(job))
    assert caught.value.reason == "EXECUTOR_INVALID"


def test_threads_that_meet_a_forgotten_plan_leave_one_executor(server: FakeServer, client: Client) -> None:
    job = example()
    plan = backward_plan(client, job, repeatable=True)
    server.forget_executors()
    results: List[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(client.execute(plan, data_of(job))["gradInput"]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all(np.array_equal(result, expected_gradient(job)) for result in results)
    assert server.executor_count == 1


# ---- The connection


def test_an_unreachable_server_is_an_error_without_a_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with Client(f"127.0.0.1:{port}", retries=0) as client:
        for call in (client.server_info, lambda: client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)):
            with pytest.raises(AclnnError) as caught:
                call()
            assert caught.value.code == grpc.StatusCode.UNAVAILABLE
            assert (caught.value.status, caught.value.reason) == (0, "")


def test_a_connection_that_drops_in_the_middle_is_tried_again(server: FakeServer, proxy: Proxy) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    with Client(proxy.address, timeout=60) as client:
        plan = backward_plan(client, job)
        proxy.cut_after_bytes = 3 << 20
        result = client.execute(plan, data_of(job))
        assert np.array_equal(result["gradInput"], expected_gradient(job))
        assert proxy.cut_after_bytes is None and server.seen["Execute"] == 2


def test_a_connection_that_drops_in_the_middle_is_reported(server: FakeServer, proxy: Proxy) -> None:
    job = example((1, 4, 1024, 1024), (512, 512))
    with Client(proxy.address, timeout=60, retries=0) as client:
        client.server_info()
        proxy.cut_after_bytes = 3 << 20
        with pytest.raises(AclnnError) as caught:
            client.call(BACKWARD, job, ["gradInput"])
    assert (caught.value.code, caught.value.status) == (grpc.StatusCode.UNAVAILABLE, 0)


def test_a_silent_server_ends_with_the_time_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with Client(address, timeout=0.2) as client:
            for call in (client.server_info, lambda: client.adaptive_max_pool2d(np.zeros((1, 2, 2), np.float32), 1)):
                with pytest.raises(AclnnError) as caught:
                    call()
                assert caught.value.code == grpc.StatusCode.DEADLINE_EXCEEDED


# ---- Replies against the rules


@pytest.mark.parametrize(
    "fault, message",
    [
        ("no_done", "the call ended before the job"),
        ("short", "done after .* bytes of gradInput"),
        ("gap", "a chunk of .* at 1 of gradInput"),
        ("double", "a chunk of .* of gradInput"),
        ("garbage", "ExecuteResponse"),
        ("unasked", "a chunk of tensor 77"),
    ],
)
def test_a_reply_against_the_rules_is_an_error(
    server: FakeServer, client: Client, fault: str, message: str
) -> None:
    job = example()
    server.faults.break_reply = fault
    with pytest.raises(AclnnError, match="breaks the contract: .*" + message) as caught:
        client.adaptive_max_pool2d_backward(job["gradOutput"], job["self"], job["indices"])
    assert caught.value.code == grpc.StatusCode.INTERNAL
    server.faults.break_reply = ""
    assert client.health()


class _SaysNothing(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Every call ends well at once, without a message."""

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: iter(()))


def test_a_call_that_ends_well_without_a_reply_is_an_error() -> None:
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(_SaysNothing(),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        with Client(address) as client:
            for call in (client.server_info, client.list_operators, client.health, lambda: backward_plan(client, example())):
                with pytest.raises(AclnnError, match="without a reply") as caught:
                    call()
                assert caught.value.code == grpc.StatusCode.INTERNAL
    finally:
        server.stop(None)


def _planned(storage_bytes: Any = None, transferred: bool = True, **desc: Any) -> Any:
    """A change of an output's plan. The desc is taken as given, storage_bytes too unless it is None."""

    def change(entry: Dict[str, Any]) -> None:
        entry["desc"] = dict(entry["desc"], **desc)
        entry["transferred"] = transferred
        if storage_bytes is not None:
            entry["storage_bytes"] = storage_bytes

    return change


def _renamed(entry: Dict[str, Any]) -> None:
    entry["name"] = "gradOther"


def _turned_round(entry: Dict[str, Any]) -> None:
    entry["direction"] = messages.DIRECTION["INPUT"]


# The plan is that of a float32 output of 3 planes of 4 x 5: 240 bytes.
INCONSISTENT_PLANS = {
    "renamed": _renamed,
    "turned_round": _turned_round,
    "untransferred": _planned(transferred=False),
    "no_storage": _planned(0),
    "byte_less": _planned(239),
    "byte_more": _planned(241),
    "negative_storage": _planned(-1),
    "huge_storage": _planned(1 << 62),
    "larger_shape": _planned(shape=(3, 40, 50)),
    "negative_dims": _planned(shape=(3, -4, -5)),
    "overflowing_shape": _planned(0, shape=(1 << 32, 1 << 32, 4), strides=()),
    "rank_9": _planned(shape=(3, 4, 5) + (1,) * 6, strides=()),
    "spread": _planned(4 * (2 * 1000 + 3 * 500 + 5), strides=(1000, 500, 1)),
    "spread_outside": _planned(strides=(1000, 500, 1)),
    "transposed": _planned(strides=(20, 1, 4)),
    "repeated": _planned(4 * 20, strides=(0, 5, 1)),
    "negative_stride": _planned(strides=(20, -5, 1)),
    "stride_missing": _planned(strides=(5, 1)),
    "shifted": _planned(4 * 62, storage_offset=2),
    "shifted_outside": _planned(storage_offset=10**6),
    "negative_offset": _planned(storage_offset=-1),
    "padded": _planned(4 * 61, storage_elements=61),
    "small_storage": _planned(4, storage_elements=1),
    "no_type": _planned(data_type=0),
    "string": _planned(data_type=messages.DATA_TYPE["STRING"]),
    "half_bytes": _planned(data_type=messages.DATA_TYPE["INT4"]),
    "type_99": _planned(data_type=99),
}


@pytest.mark.parametrize("lie", INCONSISTENT_PLANS)
@pytest.mark.parametrize("phases", ["one", "two"])
def test_an_inconsistent_plan_is_an_error(server: FakeServer, client: Client, phases: str, lie: str) -> None:
    job = example((3, 4, 5), (2, 2))
    server.faults.change_plan = INCONSISTENT_PLANS[lie]
    with pytest.raises(AclnnError, match="breaks the contract: the plan ") as caught:
        if phases == "one":
            client.call(BACKWARD, job, ["gradInput"])
        else:
            backward_plan(client, job)
    assert caught.value.code == grpc.StatusCode.INTERNAL


def test_a_plan_of_another_tensor_than_was_asked_for_is_an_error(server: FakeServer, client: Client) -> None:
    job = example((3, 4, 5), (2, 2))
    wanted = {"gradInput": TensorSpec("float32", (3, 4, 5))}
    assert client.call(BACKWARD, job, wanted)["gradInput"].shape == (3, 4, 5)
    for change in (_planned(shape=(3, 5, 4), strides=()), _planned(data_type=messages.DATA_TYPE["INT32"])):
        server.faults.change_plan = change
        with pytest.raises(AclnnError, match="the plan of gradInput: not as in the request"):
            client.call(BACKWARD, job, wanted)


@pytest.mark.parametrize("shape", [(1, 1 << 20, 1 << 25), (1, 1 << 30, 1 << 30)], ids=["2**47", "2**62"])
def test_an_output_beyond_all_memory_is_an_error(server: FakeServer, client: Client, shape: Any) -> None:
    server.faults.change_plan = _planned(4 * shape[1] * shape[2], shape=shape, strides=())
    with pytest.raises(AclnnError, match="no memory for the .* bytes of gradInput") as caught:
        client.call(BACKWARD, example((3, 4, 5), (2, 2)), ["gradInput"])
    assert (caught.value.code, caught.value.parameter) == (grpc.StatusCode.INTERNAL, "gradInput")


def test_an_unknown_operator_is_refused_by_the_server(server: FakeServer, client: Client) -> None:
    with pytest.raises(AclnnError) as caught:
        client.call("aclnnNothing", {"self": TensorSpec("float32", (1,))}, ["out"])
    assert caught.value.reason == "OPERATOR_UNKNOWN"
