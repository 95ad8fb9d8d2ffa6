"""The client for asyncio: AsyncClient has the methods of Client as coroutines."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import Any, AsyncIterator, Callable, Generator, List, Mapping, Optional, Tuple

import grpc
import grpc.aio

from ._channel import Address, ChannelOptions, Metadata
from ._errors import AclnnError, decode_reply, error_from_rpc, reply_error
from ._fork import gate
from ._info import OperatorInfo, ServerInfo
from ._job import CHUNK_BYTES_DEFAULT, Job, Result
from ._operations import EXECUTE, Conversation, Core, Driver, Effect, Exchange, Operation, Pause, Settings
from ._operations import Unary
from ._plan import Outputs, Plan
from ._stream_state import Outcome, StreamState
from ._tensors import TensorSpec
from ._work import Work

__all__ = ["AsyncClient", "AsyncStream"]

# What gRPC raises when a call has ended: its status, or that nothing can be done on it any more.
_CALL_ENDED = (grpc.aio.AioRpcError, asyncio.InvalidStateError)


def _task_is_cancelled() -> bool:
    """Whether a CancelledError is meant for this task; else the call that it awaits was cancelled."""
    cancelling = getattr(asyncio.current_task(), "cancelling", None)  # from Python 3.11 on
    return cancelling is None or cancelling() > 0


async def _send(
    call: Any, first: Job, feed: "asyncio.Queue[Optional[Job]]", failures: List[Exception]
) -> None:
    """The writer task: sends jobs until the feed ends. What goes wrong with that lands in `failures`.

    A call that ended meanwhile is no failure here: reading it tells why.
    """
    job: Optional[Job] = first
    try:
        while job is not None:
            for message in job.messages():
                await call.write(message)
            job = await feed.get()
        await call.done_writing()
    except _CALL_ENDED:
        return
    except Exception as error:
        failures.append(error)
        call.cancel()


async def _next_reply(call: Any) -> Optional[bytes]:
    """The next message that comes back; None when the call has ended."""
    try:
        message = await call.read()
    except _CALL_ENDED:
        return None
    except asyncio.CancelledError:
        if _task_is_cancelled():
            raise
        return None
    return None if message is grpc.aio.EOF else message


async def _converse(
    call: Any, first: Job, feed: "asyncio.Queue[Optional[Job]]", take: Callable[[bytes], Any]
) -> Optional[AclnnError]:
    """Sends jobs and reads the call to its end; what it failed with, None if it ended well.

    Raises what `take` raises, and what went wrong while messages were made.
    """
    failures: List[Exception] = []
    writer = asyncio.create_task(_send(call, first, feed, failures))
    try:
        message = await _next_reply(call)
        while message is not None:
            take(message)
            message = await _next_reply(call)
        code = await call.code()
        if code == grpc.StatusCode.OK:
            return None
        if failures:
            raise failures[0]
        return error_from_rpc(code, await call.details(), await call.trailing_metadata())
    except BaseException:
        call.cancel()
        raise
    finally:
        writer.cancel()


class AsyncStream:
    """Several jobs on one Execute call, as `Stream`; made by `AsyncClient.stream()`.

    async with client.stream() as stream:
        await stream.submit(plan, {"gradOutput": gradient, "indices": indices})
        async for outputs in stream.results():
            ...
    """

    def __init__(self, client: "AsyncClient", timeout: Optional[float]) -> None:
        self._client = client
        self._timeout = timeout
        self._state = StreamState()
        self._feed: Optional["asyncio.Queue[Optional[Job]]"] = None  # what the present call has to send
        self._outcomes: "asyncio.Queue[Outcome]" = asyncio.Queue()
        self._reader: Optional["asyncio.Task[None]"] = None

    def _ended(self, reader: "asyncio.Task[None]") -> None:
        """The reader task, which is the driver's, is done."""
        if reader.cancelled():
            failure: Optional[BaseException] = AclnnError(
                "the stream was cancelled", code=grpc.StatusCode.CANCELLED
            )
        else:
            failure = reader.exception()
        self._outcomes.put_nowait(self._state.ended(failure))

    async def _perform(self, driver: Driver, effect: Effect, left: Optional[float]) -> Any:
        if isinstance(effect, Conversation):
            return await self._converse(driver)
        if isinstance(effect, Unary):
            left = self._client._core.settings.time_limit(left)
        return await self._client._perform(effect, left)

    async def _converse(self, driver: Driver) -> None:
        """One Execute call, from the time when there is a job for it."""
        feed: "asyncio.Queue[Optional[Job]]" = asyncio.Queue()
        for job in self._state.jobs_to_send():
            feed.put_nowait(job)
        if self._state.closed:
            feed.put_nowait(None)
        self._feed = feed
        try:
            first = await feed.get()
            if first is not None:
                call = self._client._execute(driver.time_left())
                self._state.call_ended(await _converse(call, first, feed, self._take))
        finally:
            self._feed = None

    def _take(self, message: bytes) -> None:
        result = self._state.read(message)
        if result is not None:
            self._outcomes.put_nowait(result)

    def _submit(self, work: Work) -> int:
        if self._reader is None:
            self._client._channel()  # raises if the client is closed
        number = self._state.add(work)
        if self._reader is None:
            driver = Driver(self._client._core.stream(self._state), self._timeout)
            self._reader = asyncio.create_task(driver.run_async(partial(self._perform, driver)))
            self._reader.add_done_callback(self._ended)
        if self._feed is not None:
            self._feed.put_nowait(work.job_to_send())
        return number

    async def submit(self, plan: Plan, inputs: Mapping[str, Any]) -> int:
        """Sends a job for a plan; the job's number in this stream, from 0."""
        return self._submit(self._client._core.plan_work(plan, inputs))

    async def submit_call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
    ) -> int:
        """Sends a job without a plan, as `AsyncClient.call` takes it; the job's number in this stream."""
        core = self._client._core
        request = core.request(name, inputs, outputs, attributes, None, None)
        return self._submit(await self._client._run(core.one_shot_work(request, inputs)))

    async def result(self) -> Result:
        """The outputs of the oldest job whose result wasn't taken yet; waits for it."""
        self._state.expect_result()
        return self._state.take(await self._outcomes.get())

    async def results(self) -> AsyncIterator[Result]:
        """The outputs of all jobs that were submitted and not taken yet, in order."""
        while self._state.unfinished:
            yield await self.result()

    async def close(self) -> None:
        """Ends the stream; jobs whose result wasn't taken are cancelled."""
        if self._state.closed:
            return
        self._state.closed = True
        if self._reader is None:
            return
        if self._feed is not None:
            self._feed.put_nowait(None)
        if self._state.unfinished or self._feed is None:
            self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self.close()

    def __await__(self) -> Generator[Any, None, "AsyncStream"]:
        # For those who take `AsyncClient.stream` for a coroutine, as the other methods are.
        return self.__aenter__().__await__()


class AsyncClient:
    """A connection to an aclnn-server for asyncio; arguments and methods are those of Client.

    It belongs to the event loop that runs when it is first used; in another loop it connects again. Making
    messages out of arrays happens on the loop's thread, about a millisecond for each 4 MiB.
    """

    def __init__(
        self,
        address: str,
        *,
        target: str = "auto",
        numerics: str = "device",
        timeout: Optional[float] = None,
        max_chunk_bytes: int = CHUNK_BYTES_DEFAULT,
        retries: int = 2,
        credentials: Optional[grpc.ChannelCredentials] = None,
        metadata: Metadata = (),
        channel_options: ChannelOptions = (),
    ) -> None:
        settings = Settings.make(target, numerics, timeout, max_chunk_bytes, retries)
        self._address = Address(address, credentials, metadata, channel_options)
        self._core = Core(settings)
        self._pid = 0
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._open_channel: Any = None
        self._closed = False

    # ---- The server

    async def server_info(self) -> ServerInfo:
        """As Client.server_info."""
        return await self._run(self._core.server_info())

    async def list_operators(self) -> Tuple[OperatorInfo, ...]:
        """As Client.list_operators."""
        return await self._run(self._core.list_operators())

    async def health(self, service: str = "") -> bool:
        """As Client.health."""
        return await self._run(self._core.health(service))

    # ---- The two phases

    async def get_workspace_size(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
        *,
        repeatable: bool = False,
        ttl: Optional[float] = None,
        target: Optional[str] = None,
        numerics: Optional[str] = None,
    ) -> Plan:
        """As Client.get_workspace_size."""
        operation = self._core.get_workspace_size(
            name, inputs, outputs, attributes, repeatable, ttl, target, numerics
        )
        return await self._run(operation)

    async def execute(self, plan: Plan, inputs: Mapping[str, Any]) -> Result:
        """As Client.execute."""
        return await self._run(self._core.execute(plan, inputs))

    async def destroy(self, plan: Plan) -> None:
        """As Client.destroy."""
        await self._run(self._core.destroy(plan))

    async def call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
        *,
        target: Optional[str] = None,
        numerics: Optional[str] = None,
    ) -> Result:
        """As Client.call."""
        return await self._run(self._core.call(name, inputs, outputs, attributes, target, numerics))

    def stream(self, timeout: Optional[float] = None) -> AsyncStream:
        """As Client.stream; for `async with client.stream() as stream`, nothing is awaited to open it."""
        return AsyncStream(self, timeout)

    # ---- Operators

    async def adaptive_max_pool2d(
        self, x: Any, output_size: Any, *, indices_dtype: Any = "int64"
    ) -> Tuple[Any, Any]:
        """As Client.adaptive_max_pool2d."""
        return await self._run(self._core.adaptive_max_pool2d(x, output_size, indices_dtype))

    async def adaptive_max_pool2d_backward(
        self, grad_output: Any, x: Any, indices: Any, *, grad_input: Optional[TensorSpec] = None
    ) -> Any:
        """As Client.adaptive_max_pool2d_backward."""
        return await self._run(self._core.adaptive_max_pool2d_backward(grad_output, x, indices, grad_input))

    # ---- The client itself

    async def close(self) -> None:
        """Ends the connection; calls that are under way fail."""
        self._closed = True
        channel, self._open_channel = self._open_channel, None
        if channel is None:
            return
        if self._pid == os.getpid():
            gate.depart()
            if self._loop is asyncio.get_running_loop():
                await channel.close()
        else:
            gate.abandon(channel)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self._address.target!r})"

    # ---- Driving operations

    def _channel(self) -> Any:
        """The channel for the running loop in this process."""
        if self._closed:
            raise ValueError("this client is closed")
        loop, pid = asyncio.get_running_loop(), os.getpid()
        if self._pid != pid and self._open_channel is not None:
            gate.abandon(self._open_channel)
            self._open_channel = None
        if self._open_channel is None:
            gate.arrive()  # gRPC has a thread of its own while there is such a channel
        if self._open_channel is None or self._loop is not loop:
            self._open_channel = self._address.open(grpc.aio)
            self._loop, self._pid = loop, pid
        return self._open_channel

    async def _run(self, operation: Operation) -> Any:
        """Runs an operation to its end."""
        return await Driver(operation, self._core.settings.timeout).run_async(self._perform)

    async def _perform(self, effect: Effect, timeout: Optional[float]) -> Any:
        if isinstance(effect, Pause):
            effect.check(timeout)
            if self._closed:
                raise effect.error
            return await asyncio.sleep(effect.seconds)
        if isinstance(effect, Exchange):
            return await self._exchange(effect.job, timeout)
        assert isinstance(effect, Unary)
        method = self._channel().unary_unary(effect.method)
        call = method(effect.request, timeout=timeout, metadata=self._address.metadata)
        try:
            return decode_reply(effect.reply, await call)
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error.code(), error.details(), error.trailing_metadata()) from None
        except asyncio.CancelledError:
            if _task_is_cancelled():
                raise
            raise error_from_rpc(await call.code(), await call.details(), ()) from None

    def _execute(self, timeout: Optional[float]) -> Any:
        """An Execute call."""
        method = self._channel().stream_stream(EXECUTE)
        return method(timeout=timeout, metadata=self._address.metadata)

    async def _exchange(self, job: Job, timeout: Optional[float]) -> Result:
        feed: "asyncio.Queue[Optional[Job]]" = asyncio.Queue()
        feed.put_nowait(None)
        failure = await _converse(self._execute(timeout), job, feed, job.read)
        if job.result is None:
            raise failure or reply_error("the call ended before the job")
        return job.result
