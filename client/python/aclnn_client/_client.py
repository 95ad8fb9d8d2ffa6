"""The synchronous client."""

from __future__ import annotations

import itertools
import time
from typing import Any, List, Mapping, Optional, Tuple

import grpc

from ._calls import converse, failure_of, outgoing
from ._channel import Address, ChannelOptions, Connection, Metadata
from ._errors import decode_reply, reply_error
from ._fork import gate
from ._info import OperatorInfo, ServerInfo
from ._job import CHUNK_BYTES_DEFAULT, Job, Result
from ._operations import EXECUTE, Core, Driver, Effect, Exchange, Operation, Pause, Settings, Unary
from ._plan import Outputs, Plan
from ._stream import Stream
from ._tensors import TensorSpec


class Client:
    """A connection to an aclnn-server.

    It connects when it is first used, may be used by several threads at once, and makes a connection of its
    own in a forked child process. Inputs are numpy arrays, torch tensors or `Tensor`s; results are torch
    tensors if an input is one, else numpy arrays (bfloat16: ml_dtypes' type if that package is there and no
    input is a `Tensor`, else `Tensor`).

    Failures raise AclnnError: of the server, of the way there, and of data that don't fit their plan
    (AclnnArgumentError, which is a ValueError too; nothing was sent). What makes no sense to any server is a
    mistake in the program and raises as Python does: TypeError for what is no tensor, attribute or data type,
    ValueError for an option or output size that can't be, a number beyond 64 bits, and for the use of a client
    or stream that is closed.

    There is no time limit unless `timeout` says one. A connection on which nothing arrives is given up after 5
    minutes and 20 seconds, after 20 seconds where the server doesn't acknowledge what was sent; `channel_options` may
    set others ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms").

    Args:
      address: "host:port" or "unix:/path".
      target: where jobs run: "auto", "cpu" or "npu".
      numerics: which bits results have: "device" (within CANN's tolerance), "deterministic" or "exact".
      timeout: seconds that each method may take altogether; None for no limit.
      max_chunk_bytes: how much of a tensor one message holds, both ways; 4 KiB to 4 MiB less 64 KiB.
      retries: how often a method is tried again after a refusal that comes with the advice to do so (such as
        a full queue) or when the server can't be reached. Operators are functions of their inputs, so doing
        one again is harmless.
      credentials: gRPC's channel credentials, for TLS; None for plain connections.
      metadata: pairs of strings that accompany each call, such as ("authorization", "Bearer ...").
      channel_options: further gRPC channel options.
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
        self._connection = Connection(self._address)

    # ---- The server

    def server_info(self) -> ServerInfo:
        """The server's version, limits and targets."""
        return self._run(self._core.server_info())

    def list_operators(self) -> Tuple[OperatorInfo, ...]:
        """The operators that the server has, with their parameters."""
        return self._run(self._core.list_operators())

    def health(self, service: str = "") -> bool:
        """Whether the service of that name is serving; "" is the server as a whole."""
        return self._run(self._core.health(service))

    # ---- The two phases

    def get_workspace_size(
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
        """Phase 1: checks the arguments and plans the work.

        Args:
          name: the operator, such as "aclnnAdaptiveMaxPool2dBackward".
          inputs: a TensorSpec (or an array that looks like the one to come) by parameter name; None leaves a
            parameter out.
          outputs: a TensorSpec by parameter name, None where the operator is to infer it; or just the names.
          attributes: numbers, booleans, texts and sequences of integers by parameter name.
          repeatable: whether the plan can be executed until it is destroyed or expires, or just once.
          ttl: seconds until the server forgets the plan (each use renews it); None for the server's default.
          target: where to run, if not the client's choice.
          numerics: which bits, if not the client's choice.
        """
        operation = self._core.get_workspace_size(
            name, inputs, outputs, attributes, repeatable, ttl, target, numerics
        )
        return self._run(operation)

    def execute(self, plan: Plan, inputs: Mapping[str, Any]) -> Result:
        """Phase 2: sends the inputs and returns the outputs by name, with a `summary` attribute.

        Inputs of which the operator reads only the shape needn't be given. A plan that the server has
        forgotten is made anew once.
        """
        return self._run(self._core.execute(plan, inputs))

    def destroy(self, plan: Plan) -> None:
        """Gives a plan's executor back to the server before it expires."""
        self._run(self._core.destroy(plan))

    def call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]] = None,
        *,
        target: Optional[str] = None,
        numerics: Optional[str] = None,
    ) -> Result:
        """Both phases in one round trip; nothing is kept on the server.

        Arguments as in `get_workspace_size`, with the data in `inputs`. A TensorSpec will do for an input of
        which the operator reads only the shape. The first call asks the server once which ones these are.
        """
        return self._run(self._core.call(name, inputs, outputs, attributes, target, numerics))

    def stream(self, timeout: Optional[float] = None) -> Stream:
        """Opens a Stream of several jobs on one call; `timeout` is for all of it, in seconds."""
        gate.arrive()
        try:
            return Stream(self._core, self._run, self._connection, timeout)
        except BaseException:
            gate.depart()
            raise

    # ---- Operators

    def adaptive_max_pool2d(self, x: Any, output_size: Any, *, indices_dtype: Any = "int64") -> Tuple[Any, Any]:
        """Adaptive max pooling: the outputs and the flat index (h*W + w) of each within its plane.

        Args:
          x: an array of shape (C, H, W) or (N, C, H, W).
          output_size: one number, or a pair in which None stands for the input's size.
          indices_dtype: "int64" or "int32".
        """
        return self._run(self._core.adaptive_max_pool2d(x, output_size, indices_dtype))

    def adaptive_max_pool2d_backward(
        self, grad_output: Any, x: Any, indices: Any, *, grad_input: Optional[TensorSpec] = None
    ) -> Any:
        """The gradient of adaptive max pooling for its input.

        Args:
          grad_output: the gradient for the output.
          x: the input of the forward pass, or its TensorSpec: only type and shape are used, nothing is sent.
          indices: the indices that the forward pass returned.
          grad_input: the layout of the result, if it isn't to be contiguous.
        """
        return self._run(self._core.adaptive_max_pool2d_backward(grad_output, x, indices, grad_input))

    # ---- The client itself

    def close(self) -> None:
        """Ends the connection; calls that are under way in other threads fail."""
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._address.target!r})"

    def __getstate__(self) -> Any:
        # A copy in another process makes its own connection.
        return self._address, self._core.settings

    def __setstate__(self, state: Any) -> None:
        self._address, settings = state
        self._core = Core(settings)
        self._connection = Connection(self._address)

    # ---- Driving operations

    def _run(self, operation: Operation) -> Any:
        """Runs an operation to its end."""
        return Driver(operation, self._core.settings.timeout).run(self._perform)

    def _perform(self, effect: Effect, timeout: Optional[float]) -> Any:
        if isinstance(effect, Pause):
            effect.check(timeout)
            if self._connection.closed:
                raise effect.error
            time.sleep(effect.seconds)
            return None
        with gate.call():
            if isinstance(effect, Exchange):
                return self._exchange(effect.job, timeout)
            assert isinstance(effect, Unary)
            method = self._connection.method("unary_unary", effect.method)
            try:
                reply = method(effect.request, timeout=timeout, metadata=self._address.metadata)
            except grpc.RpcError as error:
                raise failure_of(error) from None
            return decode_reply(effect.reply, reply)

    def _exchange(self, job: Job, timeout: Optional[float]) -> Result:
        failures: List[BaseException] = []
        failure = converse(self._start(job, timeout, failures), failures, job.read)
        if job.result is None:
            raise failure or reply_error("the call ended before the job")
        return job.result

    def _start(self, job: Job, timeout: Optional[float], failures: List[BaseException]) -> Any:
        """The Execute call of a job. What goes wrong while messages are made lands in `failures`."""
        messages = job.messages()
        first = next(messages)
        options = {"timeout": timeout, "metadata": self._address.metadata}
        if job.sent_whole:
            # On the wire it is the same, but gRPC needs no thread to send a single message.
            return self._connection.method("unary_stream", EXECUTE)(first, **options)
        method = self._connection.method("stream_stream", EXECUTE)
        return method(outgoing(itertools.chain((first,), messages), failures), **options)
