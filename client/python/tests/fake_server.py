"""A small server that keeps the rules of the wire, for the tests of the client.

It is the peer of the unit tests: strict about what it is sent, and able to misbehave on request (`Faults`).
Run as a program it prints its address and serves until its standard input ends.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import threading
import time
from concurrent import futures
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import grpc
import numpy as np

from aclnn_client import TensorSpec
from aclnn_client import _codec as codec
from aclnn_client import _messages as messages
from aclnn_client._job import chunk_header
from aclnn_client._tensors import desc_to_spec, spec_to_desc
from aclnn_client._wire import WireError, decode, encode, encode_varint, read_varint, skip_field
from fake_operators import OPERATORS, Operator, Refusal, bind, compute

MESSAGE_BYTES_MAX = 4 << 20
ONE_SHOT_CHUNK_BYTES_MAX = 1 << 20
# A field that no client knows: number 1007, and what it holds.
UNKNOWN_FIELD = encode_varint(1007 << 3 | 2) + b"\x04new!"


class Hold:
    """A place where a call waits."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()


@dataclasses.dataclass
class Faults:
    """What the server is to do wrong.

    Attributes:
      refusals: by RPC name: errors with which its next calls are refused at once, None for a good answer.
      holds: by RPC name: its calls wait there.
      lose_after_replies: of the next Execute calls: the connection seems lost after so many messages of the reply.
      refuse_after_bytes: refuses an Execute call after that many tensor bytes, with `upload_refusal`.
      refuse_once: does so for one call alone.
      reply_chunk_bytes: sends outputs in chunks of this size (not above what the client asked for).
      unknown_fields: adds fields that nobody knows to every reply.
      encoding: the codec of outputs if the client takes it.
      accept_codecs: what phase 1 says the server can decode.
      max_chunk_bytes: what phase 1 says about the client's chunks.
      break_reply: "no_done", "short", "gap", "double", "garbage", "unasked": a reply against the rules.
      change_plan: changes the entry of each output in a plan.
    """

    refusals: Dict[str, List[Optional[Refusal]]] = dataclasses.field(default_factory=dict)
    holds: Dict[str, Hold] = dataclasses.field(default_factory=dict)
    lose_after_replies: List[int] = dataclasses.field(default_factory=list)
    refuse_after_bytes: Optional[int] = None
    refuse_once: bool = False
    upload_refusal: Refusal = dataclasses.field(
        default_factory=lambda: Refusal("RESOURCE_EXHAUSTED", "QUEUE_TIMEOUT", "waited too long")
    )
    reply_chunk_bytes: int = 1 << 20
    unknown_fields: bool = False
    encoding: int = 0
    accept_codecs: Tuple[int, ...] = ()
    max_chunk_bytes: int = 1 << 20
    break_reply: str = ""
    change_plan: Optional[Callable[[Dict[str, Any]], None]] = None


def check_known(message: Any, data: bytes) -> None:
    """Must understand: raises the refusal of a field that isn't in the table, at any depth."""
    view, position = memoryview(data), 0
    while position < len(view):
        tag, position = read_varint(view, position, len(view))
        field = message.by_number(tag >> 3)
        start = position
        position = skip_field(view, position, len(view), tag & 7)
        if field is None and tag >> 3 < 1000:
            raise Refusal("UNIMPLEMENTED", "FEATURE_UNSUPPORTED", f"{message.name} has no field {tag >> 3}")
        if field is not None and field.message is not None:
            length, start = read_varint(view, start, len(view))
            check_known(field.message, bytes(view[start : start + length]))


def parse(message: Any, data: bytes) -> Dict[str, Any]:
    """A request, strictly."""
    try:
        check_known(message, data)
        return decode(message, data)
    except WireError as error:
        raise Refusal("INVALID_ARGUMENT", "MESSAGE_INVALID", str(error)) from error


def error_details(refusal: Refusal) -> bytes:
    """grpc-status-details-bin."""
    metadata = dict(refusal.metadata)
    if refusal.status:
        metadata["aclnn_status"] = str(refusal.status)
    if refusal.parameter:
        metadata["parameter"] = refusal.parameter
    entries = [{"key": key, "value": value} for key, value in metadata.items()]
    info = {"reason": refusal.reason, "domain": "aclnn", "metadata": entries}
    details = [
        {
            "type_url": "type.googleapis.com/google.rpc.ErrorInfo",
            "value": encode(messages.ErrorInfo, info),
        }
    ]
    if refusal.retry_ms is not None:
        seconds, rest = divmod(refusal.retry_ms, 1000)
        retry = {"retry_delay": {"seconds": seconds, "nanos": rest * 1000000}}
        details.append(
            {
                "type_url": "type.googleapis.com/google.rpc.RetryInfo",
                "value": encode(messages.RetryInfo, retry),
            }
        )
    code = grpc.StatusCode[refusal.code].value[0]
    return encode(messages.ErrorStatus, {"code": code, "message": str(refusal), "details": details})


class Executor:
    """A planned request."""

    def __init__(self, request: Dict[str, Any]) -> None:
        found = OPERATORS.get(request["operator_name"])
        if found is None:
            name = request["operator_name"]
            raise Refusal("NOT_FOUND", "OPERATOR_UNKNOWN", f"there is no operator {name}")
        self.operator: Operator = found
        self.repeatable = request["repeatable"]
        self.target = max(request["target"], 1)
        self.numerics = request["numerics"] or messages.NUMERICS["DEVICE"]
        given = [(argument["name"], self._value(argument)) for argument in request["arguments"]]
        self.names = [argument["name"] for argument in request["arguments"] if argument["tensor"] is not None]
        self.args = bind(found, given)
        self.parameters = {parameter.name: parameter for parameter in found.parameters}
        if self.target == messages.TARGET["NPU"]:
            raise Refusal("FAILED_PRECONDITION", "TARGET_UNAVAILABLE", "no NPU is configured")

    @staticmethod
    def _value(argument: Dict[str, Any]) -> Any:
        if argument["tensor"] is not None:
            desc = argument["tensor"]
            return desc_to_spec(desc) if desc["data_type"] else None
        if argument["int_array"] is not None:
            return list(argument["int_array"]["values"])
        found = [argument[kind] for kind in ("integer", "real", "boolean", "text") if argument[kind] is not None]
        if not found:
            raise Refusal("UNIMPLEMENTED", "FEATURE_UNSUPPORTED", f"{argument['name']} has no value")
        return found[0]

    def is_transferred(self, name: str) -> bool:
        """Whether the tensor's data travel."""
        return not self.parameters[name].shape_only

    def plan(self, handle: bytes, faults: Faults) -> Dict[str, Any]:
        """The GetWorkspaceSizeResponse."""
        tensors = []
        for name in self.names:
            spec: TensorSpec = self.args[name]
            output = self.parameters[name].output
            desc = dict(spec_to_desc(spec), strides=spec.full_strides)
            entry: Dict[str, Any] = {
                "name": name,
                "direction": messages.DIRECTION["OUTPUT" if output else "INPUT"],
                "desc": desc,
                "storage_bytes": spec.storage_bytes,
                "transferred": self.is_transferred(name),
            }
            if faults.change_plan is not None and output:
                faults.change_plan(entry)
            tensors.append(entry)
        return {
            "executor": handle,
            "workspace_size": 4096,
            "ttl_ms": 60000,
            "expire_unix_ms": int(time.time() * 1000) + 60000,
            "target": messages.TARGET["CPU"],
            "numerics": self.numerics,
            "tensors": tensors,
            "max_chunk_bytes": faults.max_chunk_bytes,
            "accept_codecs": faults.accept_codecs,
        }


class Upload:
    """The inputs of a job while their chunks come in."""

    def __init__(self, executor: Executor, chunk_bytes_max: int, codecs: Tuple[int, ...]) -> None:
        self.executor = executor
        self._chunk_bytes_max = chunk_bytes_max
        self._codecs = codecs
        self.storages: Dict[str, bytearray] = {}
        self._sizes: Dict[str, int] = {}
        for name in executor.names:
            if not executor.parameters[name].output and executor.is_transferred(name):
                self.storages[name] = bytearray()
                self._sizes[name] = executor.args[name].storage_bytes

    @property
    def complete(self) -> bool:
        """Whether the last byte is there."""
        return all(len(self.storages[name]) == size for name, size in self._sizes.items())

    def add(self, chunk: Dict[str, Any]) -> None:
        """Takes a chunk, strictly."""
        index = chunk["tensor_index"]
        name = self.executor.names[index] if index < len(self.executor.names) else ""
        data = bytes(chunk["data"])
        if chunk["codec"]:
            if chunk["codec"] not in self._codecs:
                raise Refusal("INVALID_ARGUMENT", "CODEC_INVALID", "the codec was not offered")
            out = np.empty(chunk["raw_bytes"], np.uint8)
            codec.decode(chunk["codec"], chunk["data"], chunk["raw_bytes"], out)
            data = out.tobytes()
        storage = self.storages.get(name)
        wrong = (
            storage is None
            or not data
            or chunk["offset"] != len(storage)
            or len(data) > self._chunk_bytes_max
            or len(storage) + len(data) > self._sizes[name]
        )
        if storage is None or wrong:
            raise Refusal("INVALID_ARGUMENT", "TENSOR_DATA_INVALID", f"chunk of tensor {index} ({name})")
        storage += data


class FakeServer:
    """The server. `faults` may be changed between calls; `seen` counts calls by RPC name."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.seen: Dict[str, int] = {}
        self.request_sizes: List[int] = []  # of the messages of Execute
        self.received_bytes = 0  # of tensors
        self.encoded_chunks = 0
        self.jobs_computed = 0
        self.call_metadata: List[Tuple[str, Any]] = []
        self._executors: Dict[bytes, Executor] = {}
        self._handles = 0
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(16))
        self._server.add_generic_rpc_handlers((_Handler(self),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"

    def start(self) -> "FakeServer":
        """Begins to serve."""
        self._server.start()
        return self

    def stop(self) -> None:
        """Ends at once and waits until everything is gone."""
        self._server.stop(0).wait()

    def forget_executors(self) -> None:
        """All plans expire."""
        with self._lock:
            self._executors.clear()

    @property
    def executor_count(self) -> int:
        """How many plans are kept."""
        with self._lock:
            return len(self._executors)

    def begin_call(self, method: str, context: Any) -> None:
        """Counts a call and raises what it is to be refused with."""
        name = method.rpartition("/")[2]
        with self._lock:
            self.seen[name] = self.seen.get(name, 0) + 1
            self.call_metadata = [(key, value) for key, value in context.invocation_metadata()]
            waiting = self.faults.refusals.get(name)
            refusal = waiting.pop(0) if waiting else None
        hold = self.faults.holds.get(name)
        if hold is not None:
            hold.reached.set()
            hold.released.wait()
        if refusal is not None:
            raise refusal

    def reply(self, message: Any, values: Dict[str, Any]) -> bytes:
        """A reply, with unknown fields if the faults say so."""
        return encode(message, values) + (UNKNOWN_FIELD if self.faults.unknown_fields else b"")

    # ---- Unary calls

    def unary(self, name: str, data: bytes) -> bytes:
        """Answers a unary call of the service."""
        answers = {
            "GetServerInfo": (messages.GetServerInfoRequest, self._server_info),
            "ListOperators": (messages.ListOperatorsRequest, self._list_operators),
            "GetWorkspaceSize": (messages.GetWorkspaceSizeRequest, self._get_workspace_size),
            "DestroyExecutor": (messages.DestroyExecutorRequest, self._destroy),
            "Check": (messages.HealthCheckRequest, self._check),
        }
        message, answer = answers[name]
        return answer(parse(message, data))

    def _server_info(self, request: Dict[str, Any]) -> bytes:
        info = {
            "server_version": "0.0-fake",
            "contract_revision": 1,
            "features": ["one_shot"],
            "limits": {"max_chunk_bytes": 1 << 20, "max_message_bytes": MESSAGE_BYTES_MAX, "max_executors": 9},
            "codecs": [0],
            "targets": [
                {
                    "target": messages.TARGET["CPU"],
                    "available": True,
                    "devices": [{"name": "cpu", "healthy": True, "detail": ""}],
                    "numerics": [1, 2, 3],
                }
            ],
            "cpu_path": "numpy",
        }
        return self.reply(messages.GetServerInfoResponse, info)

    def _list_operators(self, request: Dict[str, Any]) -> bytes:
        operators = []
        for operator in OPERATORS.values():
            parameters = []
            for parameter in operator.parameters:
                types = [messages.DATA_TYPE[_ENUM_NAMES.get(name, name.upper())] for name in parameter.types]
                parameters.append(
                    {
                        "name": parameter.name,
                        "kind": messages.PARAMETER_KIND[parameter.kind],
                        "direction": messages.DIRECTION["OUTPUT" if parameter.output else "INPUT"],
                        "shape_only": parameter.shape_only,
                        "data_types": types,
                        "ranks": [3, 4] if types else [],
                    }
                )
            operators.append({"name": operator.name, "parameters": parameters, "effect": 1, "targets": [2]})
        return self.reply(messages.ListOperatorsResponse, {"operators": operators})

    def _get_workspace_size(self, request: Dict[str, Any]) -> bytes:
        executor = Executor(request)
        with self._lock:
            self._handles += 1
            handle = b"handle %d %s" % (self._handles, b"again" if executor.repeatable else b"once")
            self._executors[handle] = executor
        return self.reply(messages.GetWorkspaceSizeResponse, executor.plan(handle, self.faults))

    def _destroy(self, request: Dict[str, Any]) -> bytes:
        with self._lock:
            self._executors.pop(bytes(request["executor"]), None)
        return self.reply(messages.DestroyExecutorResponse, {})

    def _check(self, request: Dict[str, Any]) -> bytes:
        if request["service"] not in ("", "aclnn.v1.OperatorService"):
            raise Refusal("NOT_FOUND", "", "no such service")
        return self.reply(messages.HealthCheckResponse, {"status": messages.SERVING_STATUS["SERVING"]})

    # ---- Execute

    def execute_until_lost(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        """Answers an Execute call as far as the faults allow."""
        if not self.faults.lose_after_replies:
            yield from self.execute(requests)
            return
        limit = self.faults.lose_after_replies.pop(0)
        yield from itertools.islice(self.execute(requests), limit)
        raise Refusal("UNAVAILABLE", "", "Socket closed")

    def execute(self, requests: Iterator[bytes]) -> Iterator[bytes]:
        """Answers an Execute call: jobs one after the other, each read whole before it is answered."""
        job = 0
        try:
            upload: Optional[Upload] = None
            for data in requests:
                self.request_sizes.append(len(data))
                if len(data) >= MESSAGE_BYTES_MAX:
                    raise Refusal("RESOURCE_EXHAUSTED", "", "message too large")
                request = parse(messages.ExecuteRequest, data)
                if request["begin"] is not None:
                    if upload is not None:
                        raise Refusal("INVALID_ARGUMENT", "SEQUENCE_INVALID", "a begin in the middle")
                    begin = request["begin"]
                    upload = self._begin(begin)
                if upload is None:
                    raise Refusal("INVALID_ARGUMENT", "SEQUENCE_INVALID", "a chunk without a begin")
                for chunk in request["chunks"]:
                    self._receive(upload, chunk)
                if upload.complete:
                    yield from self._answer(upload, begin)
                    upload, job = None, job + 1
            if upload is not None:
                raise Refusal("INVALID_ARGUMENT", "TENSOR_DATA_INVALID", "the call ends before the last byte")
        except Refusal as refusal:
            refusal.metadata.setdefault("job", str(job))
            raise

    def _begin(self, begin: Dict[str, Any]) -> Upload:
        if begin["request"] is not None:
            executor = Executor(begin["request"])
            if executor.repeatable:
                raise Refusal("INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", "repeatable", 161002)
            return Upload(executor, ONE_SHOT_CHUNK_BYTES_MAX, ())
        if begin["executor"] is None:
            raise Refusal("UNIMPLEMENTED", "FEATURE_UNSUPPORTED", "begin has neither executor nor request")
        handle = bytes(begin["executor"])
        with self._lock:
            found = self._executors.get(handle)
            if found is not None and not found.repeatable:
                del self._executors[handle]
        if found is None and handle.endswith(b"once"):
            raise Refusal("FAILED_PRECONDITION", "EXECUTOR_CONSUMED", "used up")
        if found is None:
            raise Refusal("NOT_FOUND", "EXECUTOR_EXPIRED", "forgotten")
        if begin["workspace_size"] < 4096:
            raise Refusal("INVALID_ARGUMENT", "ACLNN_ERR_PARAM_INVALID", "workspace_size is too small", 161002)
        return Upload(found, self.faults.max_chunk_bytes, self.faults.accept_codecs)

    def _receive(self, upload: Upload, chunk: Dict[str, Any]) -> None:
        upload.add(chunk)
        self.received_bytes += chunk["raw_bytes"] or len(chunk["data"])
        self.encoded_chunks += chunk["codec"] != 0
        limit = self.faults.refuse_after_bytes
        if limit is not None and self.received_bytes >= limit:
            if self.faults.refuse_once:
                self.faults.refuse_after_bytes = None
            raise self.faults.upload_refusal

    def _answer(self, upload: Upload, begin: Dict[str, Any]) -> Iterator[bytes]:
        executor, broken = upload.executor, self.faults.break_reply
        self.jobs_computed += 1
        outputs = compute(executor.operator, executor.args, upload.storages)
        plan = executor.plan(b"", self.faults) if begin["request"] is not None else None
        yield self.reply(messages.ExecuteResponse, {"accepted": {"plan": plan}})
        if broken == "garbage":
            yield b"\xff\xff\xff"
        if broken == "unasked":
            yield chunk_header(77, 0, 1) + b"x"
        limit = min(self.faults.reply_chunk_bytes, begin["max_chunk_bytes"] or 1 << 20)
        for index, name in enumerate(executor.names):
            if executor.parameters[name].output:
                data = outputs[name]
                yield from self._chunks(index, data[:-4] if broken == "short" else data, limit, begin)
        if broken != "no_done":
            done = {"target": messages.TARGET["CPU"], "numerics": executor.numerics, "attempts": 1, "compute_ns": 5}
            yield self.reply(messages.ExecuteResponse, {"done": done})

    def _chunks(self, index: int, data: bytes, limit: int, begin: Dict[str, Any]) -> Iterator[bytes]:
        encoding = self.faults.encoding
        unknown = UNKNOWN_FIELD if self.faults.unknown_fields else b""
        shift = 1 if self.faults.break_reply == "gap" else 0
        for offset in range(0, len(data), limit):
            piece = data[offset : offset + limit]
            if encoding and encoding in begin["accept_codecs"]:
                block = codec.encode(encoding, 4, memoryview(piece))
                message = chunk_header(index, offset, len(block), encoding, len(piece)) + block
            else:
                message = chunk_header(index, offset + shift, len(piece)) + piece
            yield message + unknown
            if self.faults.break_reply == "double":
                yield message


_ENUM_NAMES = {"float32": "FLOAT", "bfloat16": "BF16"}


class _Handler(grpc.GenericRpcHandler):
    """Routes raw messages of any method to the server."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server

    def service(self, details: Any) -> Any:
        if details.method.endswith("/Execute"):
            return grpc.stream_stream_rpc_method_handler(self._stream)
        name = details.method.rpartition("/")[2]

        def unary(data: bytes, context: Any) -> bytes:
            try:
                self._server.begin_call(details.method, context)
                return self._server.unary(name, data)
            except Refusal as refusal:
                self._refuse(context, refusal)
                raise

        return grpc.unary_unary_rpc_method_handler(unary)

    def _stream(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        try:
            self._server.begin_call("/Execute", context)
            yield from self._server.execute_until_lost(requests)
        except Refusal as refusal:
            self._refuse(context, refusal)

    @staticmethod
    def _refuse(context: Any, refusal: Refusal) -> None:
        if refusal.reason:
            context.set_trailing_metadata((("grpc-status-details-bin", error_details(refusal)),))
        context.abort(grpc.StatusCode[refusal.code], str(refusal))


def main() -> None:
    """Serves until standard input ends."""
    server = FakeServer().start()
    print("listening on", server.address, flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
