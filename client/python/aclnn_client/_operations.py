"""What the clients do, without how messages travel.

An operation is a generator. It yields effects (one unary exchange, one job, a pause), is sent their outcome
or thrown their AclnnError, and returns the method's result. The synchronous and the asynchronous client
drive the same operations, so that retries, planning anew and the order of things exist once.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any, Callable, Dict, FrozenSet, Generator, Iterable, List, Mapping, Optional, Sequence, Tuple
from typing import Union

import grpc

from . import _info as info
from . import _messages as messages
from ._arrays import flavour_of, storage_of
from ._errors import AclnnError
from ._job import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Job, Result, Upload, prepare_uploads
from ._plan import Outputs, Plan, PlanState, Request, make_request
from ._tensors import TensorSpec
from ._wire import Message, encode

SERVICE = "/aclnn.v1.OperatorService/"
EXECUTE = SERVICE + "Execute"

# A plan that the server no longer knows is made again once.
_PLAN_ANEW = frozenset(("EXECUTOR_EXPIRED", "EXECUTOR_INVALID"))
_NEVER_AGAIN = frozenset(("DEVICE_LOST",))
_DELAY_FIRST_SECONDS = 0.1
_DELAY_MAX_SECONDS = 30.0


@dataclasses.dataclass(frozen=True)
class Unary:
    """An effect: sends one message to a method. Its outcome is the decoded reply."""

    method: str
    request: bytes
    reply: Message


@dataclasses.dataclass(frozen=True)
class Exchange:
    """An effect: an Execute call with one job. Its outcome is the job's Result."""

    job: Job


@dataclasses.dataclass(frozen=True)
class Pause:
    """An effect: waits; if there is no time left for that, `error` is what the operation failed with."""

    seconds: float
    error: AclnnError

    def check(self, left: Optional[float]) -> None:
        """Raises the error if the pause would outlast the time that is left."""
        if left is not None and left <= self.seconds:
            raise self.error


Effect = Union[Unary, Exchange, Pause]
Operation = Generator[Effect, Any, Any]


class Driver:
    """Steps an operation. A client performs `effect` and reports with `succeed` or `fail` until it is None."""

    def __init__(self, operation: Operation, timeout: Optional[float]) -> None:
        self._operation = operation
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.effect: Optional[Effect] = None
        self.result: Any = None
        self._step(lambda: next(operation))

    def _step(self, resume: Callable[[], Effect]) -> None:
        try:
            self.effect = resume()
        except StopIteration as end:
            self.effect, self.result = None, end.value

    def time_left(self) -> Optional[float]:
        """Seconds until the operation's time is up; None for no limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def succeed(self, outcome: Any) -> None:
        """The effect had this outcome."""
        self._step(lambda: self._operation.send(outcome))

    def fail(self, error: AclnnError) -> None:
        """The effect failed. Raises what the operation makes of it, if it doesn't go on."""
        self._step(lambda: self._operation.throw(error))


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a client was made with, checked."""

    target: int
    numerics: int
    timeout: Optional[float]
    max_chunk_bytes: int
    retries: int

    @staticmethod
    def make(
        target: str, numerics: str, timeout: Optional[float], max_chunk_bytes: int, retries: int
    ) -> "Settings":
        """Raises ValueError for what makes no sense."""
        if not CHUNK_BYTES_MIN <= max_chunk_bytes <= CHUNK_BYTES_MAX:
            raise ValueError(
                f"max_chunk_bytes is {max_chunk_bytes}, it can be {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}"
            )
        if retries < 0:
            raise ValueError(f"retries is {retries}, it can't be negative")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout is {timeout}, it can be a number of seconds above 0 or None")
        return Settings(
            messages.enum_number(messages.TARGET, target, "target"),
            messages.enum_number(messages.NUMERICS, numerics, "numerics"),
            timeout,
            int(max_chunk_bytes),
            int(retries),
        )


class Core:
    """The operations of one client, and what it remembers."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._shape_only: Optional[Dict[str, FrozenSet[str]]] = None

    # ---- Trying again

    def _delay(self, error: AclnnError, attempt: int) -> Optional[float]:
        """How long to wait before trying again after the failure of attempt number `attempt` (from 0)."""
        if attempt >= self.settings.retries or error.reason in _NEVER_AGAIN:
            return None
        backoff = _DELAY_FIRST_SECONDS * 2**attempt * random.uniform(0.5, 1.0)
        if error.retry_after is not None:
            # Spread out: all who were refused together got the same advice.
            wait = error.retry_after * random.uniform(1.0, 1.25)
            return wait if wait <= _DELAY_MAX_SECONDS else None
        # A connection that ends in the middle of a call shows as either.
        if error.code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED) and not error.reason:
            return min(backoff, _DELAY_MAX_SECONDS)
        return None

    def _retrying(self, attempt: Callable[[int], Operation]) -> Operation:
        """Runs attempt(0), attempt(1), ... until one succeeds or shouldn't be followed by another."""
        number = 0
        while True:
            try:
                return (yield from attempt(number))
            except AclnnError as error:
                delay = self._delay(error, number)
                if delay is None:
                    raise
                failed = error
            yield Pause(delay, failed)
            number += 1

    def _unary(self, method: str, request: bytes, reply: Message) -> Operation:
        def attempt(number: int) -> Operation:
            return (yield Unary(method, request, reply))

        return self._retrying(attempt)

    # ---- The server itself

    def server_info(self) -> Operation:
        """GetServerInfo."""
        reply = yield from self._unary(SERVICE + "GetServerInfo", b"", messages.GetServerInfoResponse)
        return info.server_info(reply)

    def list_operators(self) -> Operation:
        """ListOperators."""
        reply = yield from self._unary(SERVICE + "ListOperators", b"", messages.ListOperatorsResponse)
        operators = info.operator_list(reply)
        self._shape_only = {
            entry.name: frozenset(p.name for p in entry.parameters if p.shape_only) for entry in operators
        }
        return operators

    def health(self, service: str) -> Operation:
        """grpc.health.v1's Check."""
        request = encode(messages.HealthCheckRequest, {"service": service})
        reply = yield from self._unary("/grpc.health.v1.Health/Check", request, messages.HealthCheckResponse)
        return bool(reply["status"] == messages.SERVING_STATUS["SERVING"])

    # ---- The two phases

    def request(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]],
        target: Optional[str],
        numerics: Optional[str],
    ) -> Request:
        """A request with this client's choices where none are given."""
        where = self.settings.target
        bits = self.settings.numerics
        if target is not None:
            where = messages.enum_number(messages.TARGET, target, "target")
        if numerics is not None:
            bits = messages.enum_number(messages.NUMERICS, numerics, "numerics")
        return make_request(name, inputs, outputs, attributes, where, bits)

    def _plan_state(self, request: Request) -> Operation:
        reply = yield Unary(SERVICE + "GetWorkspaceSize", request.encode(), messages.GetWorkspaceSizeResponse)
        return PlanState(reply, request)

    def get_workspace_size(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]],
        repeatable: bool,
        ttl: Optional[float],
        target: Optional[str],
        numerics: Optional[str],
    ) -> Operation:
        """Phase 1: a Plan."""
        request = dataclasses.replace(
            self.request(name, inputs, outputs, attributes, target, numerics),
            repeatable=bool(repeatable),
            ttl_ms=0 if ttl is None else max(1, round(ttl * 1000)),
        )
        state = yield from self._retrying(lambda number: self._plan_state(request))
        return Plan(request, state)

    def _destroy(self, executor: bytes) -> Operation:
        request = encode(messages.DestroyExecutorRequest, {"executor": executor})
        return (
            yield Unary(SERVICE + "DestroyExecutor", request, messages.DestroyExecutorResponse)
        )

    def destroy(self, plan: Plan) -> Operation:
        """DestroyExecutor; the plan can't be used any more, whatever comes of it."""
        executor = plan.mark_destroyed()
        yield from self._retrying(lambda number: self._destroy(executor))

    def _plan_anew(self, plan: Plan, old: PlanState) -> Operation:
        """Puts a new executor into the plan, unless another thread did so already."""
        if plan.snapshot() is not old:
            return
        state = yield from self._plan_state(plan._request)
        if not plan.replace(old, state):
            yield from self._give_back(state.executor)

    def _give_back(self, executor: bytes) -> Operation:
        """Destroys an executor that nobody will use; if that fails, it expires by itself."""
        try:
            yield from self._destroy(executor)
        except AclnnError:
            return

    def _exchange(self, plan: Plan, state: PlanState, inputs: Mapping[str, Any]) -> Operation:
        return (yield Exchange(self.plan_job(plan, state, inputs)))

    def plan_job(self, plan: Plan, state: PlanState, inputs: Mapping[str, Any]) -> Job:
        """The job of phase 2 for a plan."""
        uploads, flavour = prepare_uploads(state.tensors, inputs)
        return Job(plan._request, state, uploads, flavour, self.settings.max_chunk_bytes)

    def execute(self, plan: Plan, inputs: Mapping[str, Any]) -> Operation:
        """Phase 2: a Result. Plans anew once if the server forgot the plan, and a one-shot before each retry."""

        def attempt(number: int) -> Operation:
            state = plan.snapshot()
            if number > 0 and not plan.repeatable:
                # The executor may be used up or not, nobody can tell: the server may have it back.
                yield from self._give_back(state.executor)
                yield from self._plan_anew(plan, state)
                state = plan.snapshot()
            try:
                return (yield from self._exchange(plan, state, inputs))
            except AclnnError as error:
                if error.reason not in _PLAN_ANEW:
                    raise
            yield from self._plan_anew(plan, state)
            return (yield from self._exchange(plan, plan.snapshot(), inputs))

        return self._retrying(attempt)

    # ---- Both phases in one round trip

    def _call_job(self, request: Request, inputs: Mapping[str, Any], shape_only: Iterable[str]) -> Job:
        """The job of a one-shot call. What is given as a TensorSpec or is shape-only isn't sent."""
        uploads: List[Upload] = []
        for index, tensor in enumerate(request.tensors):
            if tensor.output or tensor.name in shape_only or isinstance(inputs[tensor.name], TensorSpec):
                continue
            assert tensor.spec is not None
            uploads.append(Upload(index, storage_of(tensor.name, inputs[tensor.name], tensor.spec)))
        return Job(request, None, uploads, flavour_of(inputs.values()), self.settings.max_chunk_bytes)

    def _shape_only_inputs(self, name: str, inputs: Mapping[str, Any]) -> Operation:
        """The operator's inputs whose data must not be sent. Asks the server once."""
        if all(value is None or isinstance(value, TensorSpec) for value in inputs.values()):
            return frozenset()
        if self._shape_only is None:
            yield from self.list_operators()
        # An operator that isn't listed gets no data: the server refuses its request anyway.
        return (self._shape_only or {}).get(name, frozenset(inputs))

    def one_shot_job(self, request: Request, inputs: Mapping[str, Any]) -> Operation:
        """The job of a one-shot call of any operator, for a stream."""
        shape_only = yield from self._shape_only_inputs(request.operator_name, inputs)
        return self._call_job(request, inputs, shape_only)

    def call(
        self,
        name: str,
        inputs: Mapping[str, Any],
        outputs: Outputs,
        attributes: Optional[Mapping[str, Any]],
        target: Optional[str],
        numerics: Optional[str],
    ) -> Operation:
        """A Result, for any operator."""
        request = self.request(name, inputs, outputs, attributes, target, numerics)
        shape_only = yield from self._shape_only_inputs(name, inputs)
        return (yield from self._call_known(request, inputs, shape_only))

    def _call_known(self, request: Request, inputs: Mapping[str, Any], shape_only: Iterable[str]) -> Operation:
        """A Result, for an operator whose shape-only inputs are known."""

        def attempt(number: int) -> Operation:
            return (yield Exchange(self._call_job(request, inputs, shape_only)))

        return self._retrying(attempt)

    # ---- The operators with methods of their own

    def adaptive_max_pool2d(self, x: Any, output_size: Any, indices_dtype: Any) -> Operation:
        """The pooled values and where they came from."""
        spec = TensorSpec.of(x)
        size = resolve_output_size(output_size, spec.shape)
        indices = TensorSpec(indices_dtype, spec.shape[:-2] + tuple(size))
        inputs = {"self": x}
        outputs = {"outputOut": None, "indicesOut": None if indices.dtype == "int64" else indices}
        attributes = {"outputSize": size}
        request = self.request("aclnnAdaptiveMaxPool2d", inputs, outputs, attributes, None, None)
        result: Result = yield from self._call_known(request, inputs, ())
        return result["outputOut"], result["indicesOut"]

    def adaptive_max_pool2d_backward(
        self, grad_output: Any, x: Any, indices: Any, grad_input: Optional[TensorSpec]
    ) -> Operation:
        """The gradient for x."""
        spec = TensorSpec.of(x)
        inputs = {
            "gradOutput": grad_output,
            "self": TensorSpec(spec.dtype, spec.shape),
            "indices": indices,
        }
        request = self.request(
            "aclnnAdaptiveMaxPool2dBackward", inputs, {"gradInput": grad_input}, None, None, None
        )
        result: Result = yield from self._call_known(request, inputs, ())
        return result["gradInput"]


def resolve_output_size(output_size: Any, shape: Sequence[int]) -> Tuple[int, ...]:
    """An output size as torch takes it (an int, or a pair in which None means the input's size) as numbers."""
    sizes = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
    if len(sizes) == 2 and len(shape) >= 2:
        return tuple(
            int(given if size is None else size) for size, given in zip(sizes, tuple(shape)[-2:])
        )
    if None in sizes:
        raise ValueError(f"output_size is {output_size!r} for an input of shape {list(shape)}")
    return tuple(int(size) for size in sizes)
