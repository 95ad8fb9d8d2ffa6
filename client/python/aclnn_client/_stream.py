"""Several jobs on one Execute call, for the synchronous client."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from typing import Any, Callable, Iterator, List, Mapping, Optional

import grpc

from ._calls import converse, failure_of, outgoing
from ._channel import Connection
from ._errors import AclnnError, decode_reply
from ._fork import gate
from ._job import Job, Result
from ._operations import EXECUTE, Core, Driver, Effect, Operation, Pause, Unary
from ._plan import Outputs, Plan
from ._stream_state import Outcome, StreamState
from ._work import Work


class Stream:
    """Jobs that run in the order in which they were submitted, the remote form of an aclrtStream.

    Made by `Client.stream()`. `submit` and `submit_call` don't wait; data are sent and results read in the
    background, so that the transfers of neighbouring jobs overlap.

    If the connection is lost, or the server advises to try again, the jobs that have no result are sent again,
    as often as the client's `retries` say, which count anew with each result. Until its result is there, the
    arrays of a job must not change and its plan must not be destroyed. Any other failure ends the stream: the
    results of the jobs before it still come, then every `result` raises its AclnnError, whose metadata has the
    `job` (from 0).

        with client.stream() as stream:
            for gradient, indices in batches:
                stream.submit(plan, {"gradOutput": gradient, "indices": indices})
            for outputs in stream.results():
                ...

    Use it from one thread at a time.
    """

    def __init__(
        self,
        core: Core,
        run: Callable[[Operation], Any],
        connection: Connection,
        timeout: Optional[float],
    ) -> None:
        connection.method("stream_stream", EXECUTE)  # a closed client has no streams
        self._core = core
        self._run = run
        self._connection = connection
        self._pid = os.getpid()
        self._state = StreamState()
        self._lock = threading.Lock()  # while something is submitted, a call begins, or the stream is closed
        self._feed: Optional["queue.SimpleQueue[Optional[Job]]"] = None  # what the present call has to send
        self._call: Any = None
        self._closing = threading.Event()
        self._outcomes: "queue.SimpleQueue[Outcome]" = queue.SimpleQueue()
        self._driver = Driver(core.stream(self._state), timeout)
        self._reader = threading.Thread(target=self._read, name="aclnn_client.Stream", daemon=True)
        self._reader.start()

    # ---- The reader thread

    def _read(self) -> None:
        failure: Optional[BaseException] = None
        try:
            self._driver.run(self._perform)
        except Exception as error:
            failure = error
        gate.depart()
        with self._lock:
            end = self._state.ended(failure)
        self._outcomes.put(end)

    def _perform(self, effect: Effect, left: Optional[float]) -> Any:
        if isinstance(effect, Pause):
            effect.check(left)
            if self._connection.closed or self._closing.wait(effect.seconds):
                raise effect.error
            return None
        if isinstance(effect, Unary):
            return self._exchange(effect, self._core.settings.time_limit(left))
        return self._converse()

    def _begin(self, method: Callable[..., Any], request: Any, timeout: Optional[float]) -> Any:
        """A call that `close` can cancel."""
        with gate.call(), self._lock:
            if self._closing.is_set():
                raise AclnnError("the stream was closed", code=grpc.StatusCode.CANCELLED)
            self._call = method(request, timeout=timeout, metadata=self._connection.metadata)
            return self._call

    def _exchange(self, effect: Unary, timeout: Optional[float]) -> Any:
        method = self._connection.method("unary_unary", effect.method)
        call = self._begin(method.future, effect.request, timeout)
        try:
            reply = call.result()
        except (grpc.RpcError, grpc.FutureCancelledError):
            raise failure_of(call) from None
        return decode_reply(effect.reply, reply)

    def _converse(self) -> None:
        """One Execute call, from the time when there is a job for it."""
        feed: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        with self._lock:
            for job in self._state.jobs_to_send():
                feed.put(job)
            if self._state.closed:
                feed.put(None)
            self._feed = feed
        try:
            first = feed.get()
            if first is not None:
                self._state.call_ended(self._send_and_read(first, feed))
        finally:
            with self._lock:
                self._feed = None
            feed.put(None)  # ends gRPC's thread that sends

    def _send_and_read(self, first: Job, feed: "queue.SimpleQueue[Optional[Job]]") -> Optional[AclnnError]:
        jobs = itertools.chain((first,), iter(feed.get, None))
        messages = (message for job in jobs for message in job.messages())
        failures: List[BaseException] = []
        method = self._connection.method("stream_stream", EXECUTE)
        call = self._begin(method, outgoing(messages, failures), self._driver.time_left())
        return converse(call, failures, self._take)

    def _take(self, message: bytes) -> None:
        result = self._state.read(message)
        if result is not None:
            self._outcomes.put(result)

    # ---- The user's side

    def _submit(self, work: Work) -> int:
        if self._pid != os.getpid():
            raise ValueError("a stream can't be used in a forked process; open one there")
        with self._lock:
            number = self._state.add(work)
            if self._feed is not None:
                self._feed.put(work.job_to_send())
        return number

    def submit(self, plan: Plan, inputs: Mapping[str, Any]) -> int:
        """Sends a job for a plan; the job's number in this stream, from 0."""
        return self._submit(self._core.plan_work(plan, inputs))

    def submit_call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
    ) -> int:
        """Sends a job without a plan, as `Client.call` takes it; the job's number in this stream."""
        request = self._core.request(name, inputs, outputs, attributes, None, None)
        return self._submit(self._run(self._core.one_shot_work(request, inputs)))

    def result(self) -> Result:
        """The outputs of the oldest job whose result wasn't taken yet; waits for it."""
        self._state.expect_result()
        return self._state.take(self._outcomes.get())

    def results(self) -> Iterator[Result]:
        """The outputs of all jobs that were submitted and not taken yet, in order."""
        while self._state.unfinished:
            yield self.result()

    def close(self) -> None:
        """Ends the stream; jobs whose result wasn't taken are cancelled."""
        if self._state.closed or self._pid != os.getpid():
            return
        with self._lock:
            self._state.closed = True
            self._closing.set()
            if self._feed is not None:
                self._feed.put(None)
            if self._state.unfinished and self._call is not None:
                self._call.cancel()
        self._reader.join()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
