"""Calls to a server over a plain gRPC channel, with raw bytes both ways."""

import dataclasses
import queue

import grpc

import messages
from wire import Message

SERVICE = "/aclnn.v1.OperatorService/"
# A loaded machine is slow; a call that takes longer hangs.
CALL_SECONDS_MAX = 60


@dataclasses.dataclass
class Failure:
    """A failed call, taken apart."""

    code: grpc.StatusCode
    message: str
    reason: str = ""
    domain: str = ""
    metadata: dict = dataclasses.field(default_factory=dict)
    retry_ms: int = 0
    details_bytes: int = 0
    status_code: int = 0  # the number inside the details
    status_message: str = ""

    @property
    def status(self):
        return int(self.metadata.get("aclnn_status", 0))

    @classmethod
    def of(cls, error):
        failure = cls(error.code(), error.details() or "")
        # Pairs: asyncio's metadata can't be made a dict of.
        trailers = {key: value for key, value in error.trailing_metadata() or ()}  # noqa: C416
        details = trailers.get("grpc-status-details-bin")
        if details is None:
            return failure
        failure.details_bytes = len(details)
        status = Message(details)
        failure.status_code, failure.status_message = status.integer(1), status.text(2)
        for item in status.messages(3):
            kind, value = item.text(1), item.message(2)
            if kind == "type.googleapis.com/google.rpc.ErrorInfo":
                failure.reason, failure.domain = value.text(1), value.text(2)
                failure.metadata = {entry.text(1): entry.text(2) for entry in value.messages(3)}
            elif kind == "type.googleapis.com/google.rpc.RetryInfo":
                delay = value.message(1)
                failure.retry_ms = delay.integer(1) * 1000 + delay.integer(2) // 1000000
        return failure


class CallFailed(Exception):
    """Carries a Failure."""

    def __init__(self, error):
        self.failure = Failure.of(error)
        super().__init__(str(self.failure))


@dataclasses.dataclass
class Result:
    """What came back for one job."""

    accepted: bool = False
    plan: messages.Plan = None
    tensors: dict = dataclasses.field(default_factory=dict)  # storage by tensor index
    done: messages.Done = None
    chunk_sizes: list = dataclasses.field(default_factory=list)
    codecs: list = dataclasses.field(default_factory=list)
    wire_bytes: int = 0


class Stream:
    """One Execute call under the test's own hand: send and read in any order.

    Responses are checked against the order (accepted chunk* done)* as they arrive.
    """

    def __init__(self, callable_, timeout, decode):
        self._requests = queue.Queue()
        self._call = callable_(iter(self._requests.get, None), timeout=timeout)
        self._decode = decode
        self.results = []
        self._open = None

    def send(self, data):
        self._requests.put(data)
        return self

    def half_close(self):
        self._requests.put(None)
        return self

    def cancel(self):
        self._call.cancel()
        self._requests.put(None)

    def read(self):
        """Reads one message; None at the end of the call. Raises CallFailed."""
        try:
            data = next(self._call)
        except StopIteration:
            assert self._open is None, "the call ended well inside a job"
            return None
        except grpc.RpcError as error:
            self._requests.put(None)
            raise CallFailed(error) from None
        self._take(data)
        return data

    def read_result(self):
        """Reads until the next job is done."""
        wanted = len(self.results) + 1
        while len(self.results) < wanted:
            assert self.read() is not None, "the call ended before the job was done"
        return self.results[-1]

    def read_accepted(self):
        """Reads until the job under way was accepted; returns what is known of it."""
        while self._open is None:
            assert self.read() is not None
            if self._open is None:
                return self.results[-1]
        return self._open

    def finish(self):
        """Half-closes and reads to the end."""
        self.half_close()
        while self.read() is not None:
            pass
        return self.results

    def fail(self):
        """Reads until the call fails; returns how."""
        try:
            while self.read() is not None:
                pass
        except CallFailed as error:
            return error.failure
        raise AssertionError("the call was expected to fail")

    def _take(self, data):
        assert len(data) < messages.MESSAGE_BYTES_MAX
        message = Message(data)
        assert any(message.has(number) for number in (1, 2, 3)), "an empty response"
        if message.has(1):
            assert self._open is None, "accepted inside a job"
            self._open = Result(accepted=True)
            accepted = message.message(1)
            if accepted.has(1):
                self._open.plan = messages.Plan.read(accepted.message(1))
        for item in message.messages(2):
            self._take_chunk(item)
        if message.has(3):
            assert self._open is not None, "done without accepted"
            self._open.done = messages.Done.read(message.message(3))
            self.results.append(self._open)
            self._open = None

    def _take_chunk(self, item):
        result = self._open
        assert result is not None, "a chunk before accepted"
        index, codec, data = item.integer(1), item.integer(3), item.data(999)
        storage = result.tensors.setdefault(index, bytearray())
        assert item.integer(2) == len(storage), "a chunk out of order"
        assert len(data) > 0, "an empty chunk"
        result.wire_bytes += len(data)
        result.codecs.append(codec)
        if codec != messages.NONE:
            data = self._decode(data, item.integer(4))
        result.chunk_sizes.append(len(data))
        storage += data


class Client:
    """The calls of OperatorService on one channel."""

    def __init__(self, address, options=()):
        target = address if address.startswith("unix:") else address
        self.channel = grpc.insecure_channel(target, options=list(options))
        self._execute = self.channel.stream_stream(SERVICE + "Execute")

    def close(self):
        self.channel.close()

    def unary(self, method, data, timeout=CALL_SECONDS_MAX, service=SERVICE):
        """One unary call; raises CallFailed."""
        try:
            return self.channel.unary_unary(service + method)(data, timeout=timeout)
        except grpc.RpcError as error:
            raise CallFailed(error) from None

    def plan(self, request, timeout=CALL_SECONDS_MAX):
        """GetWorkspaceSize."""
        return messages.Plan.read(Message(self.unary("GetWorkspaceSize", request, timeout)))

    def plan_failure(self, request):
        return self.unary_failure("GetWorkspaceSize", request)

    def unary_failure(self, method, data, service=SERVICE):
        try:
            self.unary(method, data, service=service)
        except CallFailed as error:
            return error.failure
        raise AssertionError(f"{method} was expected to fail")

    def destroy(self, executor):
        self.unary("DestroyExecutor", messages.blob(1, executor))

    def stream(self, timeout=CALL_SECONDS_MAX, decode=None):
        """Opens an Execute call."""
        return Stream(self._execute, timeout, decode)

    def execute(self, *data, timeout=CALL_SECONDS_MAX, decode=None):
        """Sends all messages, half-closes and reads everything; returns the results."""
        stream = self.stream(timeout, decode)
        for item in data:
            stream.send(item)
        return stream.finish()

    def execute_failure(self, *data, half_close=True, timeout=CALL_SECONDS_MAX):
        """As execute, but the call has to fail; returns (failure, results before it)."""
        stream = self.stream(timeout)
        for item in data:
            stream.send(item)
        if half_close:
            stream.half_close()
        return stream.fail(), stream.results

    def health(self, service=""):
        """grpc.health.v1 Check: the status' number."""
        request = messages.blob(1, service) if service else b""
        return Message(self.unary("Check", request, service="/grpc.health.v1.Health/")).integer(1)
