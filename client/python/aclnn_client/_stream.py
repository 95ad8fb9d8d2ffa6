"""Several jobs on one Execute call, for the synchronous client."""

from __future__ import annotations

import os
import queue
import threading
from typing import Any, Callable, Iterator, Mapping, Optional

import grpc

from ._errors import error_from_rpc
from ._fork import gate
from ._job import Job, Result
from ._operations import Core, Operation
from ._plan import Outputs, Plan
from ._stream_state import Outcome, StreamState


class Stream:
    """Jobs that run in the order in which they were submitted, the remote form of an aclrtStream.

    Made by `Client.stream()`. `submit` and `submit_call` don't wait; data are sent and results read in the
    background, so that the transfers of neighbouring jobs overlap. The arrays of a job must not change until
    its result is there. A failure ends the stream: the results of the jobs before it still come, then every
    `result` raises its AclnnError, whose metadata has the `job` (from 0). Nothing is tried again.

        with client.stream() as stream:
            for gradient, indices in batches:
                stream.submit(plan, {"gradOutput": gradient, "indices": indices})
            for outputs in stream.results():
                ...

    Use it from one thread at a time.
    """

    def __init__(
        self, core: Core, run: Callable[[Operation], Any], method: Any, timeout: Optional[float], metadata: Any
    ) -> None:
        self._core = core
        self._run = run
        self._pid = os.getpid()
        self._state = StreamState()
        self._to_send: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        self._outcomes: "queue.SimpleQueue[Outcome]" = queue.SimpleQueue()
        self._call = method(self._messages(), timeout=timeout, metadata=metadata)
        self._reader = threading.Thread(target=self._read, name="aclnn_client.Stream", daemon=True)
        self._reader.start()

    def _messages(self) -> Iterator[bytes]:
        """What gRPC sends, on a thread of its own."""
        try:
            while True:
                job = self._to_send.get()
                if job is None:
                    return
                yield from job.messages()
        except Exception as error:
            self._state.sending_failure = error
            raise

    def _read(self) -> None:
        """The reader thread."""
        try:
            for message in self._call:
                result = self._state.read(message)
                if result is not None:
                    self._outcomes.put(result)
            end = self._state.ended()
        except grpc.RpcError as error:
            failure = error_from_rpc(error.code(), error.details(), error.trailing_metadata())
            end = self._state.ended(failure)
        except Exception as error:
            self._call.cancel()
            end = self._state.ended(error)
        self._to_send.put(None)
        gate.depart()
        self._outcomes.put(end)

    def _send(self, job: Job) -> int:
        if self._pid != os.getpid():
            raise ValueError("a stream can't be used in a forked process; open one there")
        number = self._state.add(job)
        self._to_send.put(job)
        return number

    def submit(self, plan: Plan, inputs: Mapping[str, Any]) -> int:
        """Sends a job for a plan; the job's number in this stream, from 0."""
        return self._send(self._core.plan_job(plan, plan.snapshot(), inputs))

    def submit_call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
    ) -> int:
        """Sends a job without a plan, as `Client.call` takes it; the job's number in this stream."""
        request = self._core.request(name, inputs, outputs, attributes, None, None)
        return self._send(self._run(self._core.one_shot_job(request, inputs)))

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
        self._state.closed = True
        self._to_send.put(None)
        if self._state.unfinished:
            self._call.cancel()
        self._reader.join()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
