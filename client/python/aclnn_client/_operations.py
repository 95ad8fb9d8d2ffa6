"""What the clients do, without how messages travel.

An operation is a generator. It yields effects (one unary exchange, one job, the jobs of a stream, a pause),
is sent their outcome or thrown their AclnnError, and returns the method's result. The synchronous and the
asynchronous client drive the same operations, so that retries, planning anew and the order of things exist once.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any, Awaitable, Callable, Dict, FrozenSet, Generator, Iterable, List, Mapping, Optional
from typing import Sequence, Tuple, Union

import grpc

from . import _info as info
from . import _messages as messages
from ._arrays import flavour_of, storage_of
from ._errors import AclnnError
from ._job import CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Job, Result, Upload, prepare_uploads
from ._plan import Outputs, Plan, PlanState, Request, make_request
from ._stream_state import StreamState
from ._tensors import TensorSpec
from ._wire import Message, encode
from ._work import Tries, Work

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
class Conversation:
    """An effect: an Execute call with the jobs of a stream that have no result and those yet to come.

    It is over, without an outcome, when the stream is closed.
    """


@dataclasses.dataclass(frozen=True)
class Pause:
    """An effect: waits; if there is no time left for that, `error` is what the operation failed with."""

    seconds: float
    error: AclnnError

    def check(self, left: Optional[float]) -> None:
        """Raises the error if the pause would outlast the time that is left."""
        if left is not None and left <= self.seconds:
            raise self.error


Effect = Union[Unary, Exchange, Conversation, Pause]
Operation = Generator[Effect, Any, Any]


class Driver:
    """Runs an operation within a time limit. What performs its effects is called with the effect and the time left."""

    def __init__(self, operation: Operation, timeout: Optional[float]) -> None:
        self._operation = operation
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._effect: Optional[Effect] = None
        self._result: Any = None
        self._step(lambda: next(operation))

    def _step(self, resume: Callable[[], Effect]) -> None:
        try:
            self._effect = resume()
        except StopIteration as end:
            self._effect, self._result = None, end.value

    def time_left(self) -> Optional[float]:
        """Seconds until the operation's time is up; None for no limit."""
        return None if self._deadline is None else max(self._deadline - time.monotonic(), 0.0)

    def _succeed(self, outcome: Any) -> None:
        self._step(lambda: self._operation.send(outcome))

    def _fail(self, error: AclnnError) -> None:
        """Raises what the operation makes of the error, if it doesn't go on."""
        self._step(lambda: self._operation.throw(error))

    def run(self, perform: Callable[[Effect, Optional[float]], Any]) -> Any:
        """The operation's result."""
        while self._effect is not None:
            try:
                outcome = perform(self._effect, self.time_left())
            except AclnnError as error:
                self._fail(error)
            else:
                self._succeed(outcome)
        return self._result

    async def run_async(self, perform: Callable[[Effect, Optional[float]], Awaitable[Any]]) -> Any:
        """As `run`, for asyncio."""
        while self._effect is not None:
            try:
                outcome = await perform(self._effect, self.time_left())
            except AclnnError as error:
                self._fail(error)
            else:
                self._succeed(outcome)
        return self._result


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

    def time_limit(self, left: Optional[float]) -> Optional[float]:
        """The time for one call of a stream that has so much left."""
        limits = [limit for limit in (self.timeout, left) if limit is not None]
        return min(limits, default=None)


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

    def _retrying(self, attempt: Callable[[int], Operation], tries: Optional[Tries] = None) -> Operation:
        """Runs attempt(0), attempt(1), ... until one succeeds or shouldn't be followed by another."""
        tries = tries or Tries()
        while True:
            try:
                return (yield from attempt(tries.failed))
            except AclnnError as error:
                delay = self._delay(error, tries.failed)
                reported = tries.reason_for(error)
                if delay is None and reported is error:
                    raise
                if delay is None:
                    raise reported from error
            yield Pause(delay, reported)
            tries.failed += 1

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

    def _renew(self, works: Iterable[Work], unknown: bool) -> Operation:
        """Plans anew what can't be sent again as it is: one-shots, and all if the server doesn't know a plan."""
        for number, work in enumerate(works):
            plan, state = work.plan, work.state
            if plan is None or state is None:
                continue
            if not unknown and (plan.repeatable or not work.sent):
                continue
            if not plan.repeatable and not (unknown and number == 0):
                # The executor may be used up or not, nobody can tell: the server may have it back.
                yield from self._give_back(state.executor)
            yield from self._plan_anew(plan, state)

    def _working(
        self, works: Callable[[], Iterable[Work]], effect: Callable[[], Effect], tries: Tries
    ) -> Operation:
        """Performs the effect, which does all `works`, until it succeeds or shouldn't be tried again.

        Plans anew once if the server forgot a plan, and one-shots before each retry.
        """

        def attempt(number: int) -> Operation:
            if number > 0:
                yield from self._renew(works(), False)
            tries.planned_anew = False
            while True:
                try:
                    return (yield effect())
                except AclnnError as error:
                    if error.reason not in _PLAN_ANEW or tries.planned_anew:
                        raise
                tries.planned_anew = True
                yield from self._renew(works(), True)

        return self._retrying(attempt, tries)

    def _work_alone(self, work: Work) -> Operation:
        """The Result of a single job."""
        return self._working(lambda: (work,), lambda: Exchange(work.job_to_send()), Tries())

    def plan_work(self, plan: Plan, inputs: Mapping[str, Any]) -> Work:
        """What phase 2 of a plan has to do."""
        given = dict(inputs)  # the user's may change before another try

        def make(state: Optional[PlanState]) -> Job:
            assert state is not None
            uploads, flavour = prepare_uploads(state.tensors, given)
            return Job(plan._request, state, uploads, flavour, self.settings.max_chunk_bytes)

        return Work(make, plan)

    def execute(self, plan: Plan, inputs: Mapping[str, Any]) -> Operation:
        """Phase 2: a Result."""
        return (yield from self._work_alone(self.plan_work(plan, inputs)))

    def stream(self, state: StreamState) -> Operation:
        """The jobs of a stream, until it is closed."""
        return self._working(lambda: state.works, Conversation, state.tries)

    # ---- Both phases in one round trip

    def _call_work(self, request: Request, inputs: Mapping[str, Any], shape_only: Iterable[str]) -> Work:
        """What a one-shot call has to do. What is given as a TensorSpec or is shape-only isn't sent."""
        given = dict(inputs)  # the user's may change before another try

        def make(state: Optional[PlanState]) -> Job:
            uploads: List[Upload] = []
            for index, tensor in enumerate(request.tensors):
                if tensor.output or tensor.name in shape_only or isinstance(given[tensor.name], TensorSpec):
                    continue
                assert tensor.spec is not None
                uploads.append(Upload(index, storage_of(tensor.name, given[tensor.name], tensor.spec)))
            return Job(request, None, uploads, flavour_of(given.values()), self.settings.max_chunk_bytes)

        return Work(make)

    def _shape_only_inputs(self, name: str, inputs: Mapping[str, Any]) -> Operation:
        """The operator's inputs whose data must not be sent. Asks the server once."""
        if all(value is None or isinstance(value, TensorSpec) for value in inputs.values()):
            return frozenset()
        if self._shape_only is None:
            yield from self.list_operators()
        # An operator that isn't listed gets no data: the server refuses its request anyway.
        return (self._shape_only or {}).get(name, frozenset(inputs))

    def one_shot_work(self, request: Request, inputs: Mapping[str, Any]) -> Operation:
        """The Work of a one-shot call of any operator."""
        shape_only = yield from self._shape_only_inputs(request.operator_name, inputs)
        return self._call_work(request, inputs, shape_only)

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
        work = yield from self.one_shot_work(request, inputs)
        return (yield from self._work_alone(work))

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
        result: Result = yield from self._work_alone(self._call_work(request, inputs, ()))
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
        result: Result = yield from self._work_alone(self._call_work(request, inputs, ()))
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
