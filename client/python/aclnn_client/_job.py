"""One job of an Execute call: the messages that it sends and the reading of those that come back.

Nothing here knows how messages travel; the synchronous and the asynchronous client share it.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import grpc
import numpy as np

from . import _codec as codec
from . import _messages as messages
from ._arrays import Flavour, build, flavour_of, storage_of
from ._errors import AclnnArgumentError, AclnnError, decode_reply, reply_error
from ._plan import PlannedTensor, PlanState, Request
from ._tensors import TensorSpec
from ._wire import Buffer, encode, encode_varint

MIB = 1 << 20
CHUNK_BYTES_MIN = 4 << 10
CHUNK_BYTES_DEFAULT = MIB  # accepted by every server, before it said so
# gRPC's own limit of a message is 4 MiB on an untouched channel; the rest is for the envelope.
CHUNK_BYTES_MAX = 4 * MIB - (64 << 10)

_CHUNK_TAG = messages.ExecuteRequest.by_name["chunks"].tag
_DATA_TAG = messages.TensorChunk.by_name["data"].tag


@dataclasses.dataclass(frozen=True)
class Summary:
    """What the server says of a finished job; times in nanoseconds."""

    target: str
    numerics: str
    attempts: int
    queue_ns: int
    upload_ns: int
    compute_ns: int
    download_ns: int


class Result(Dict[str, Any]):
    """The outputs of a job by parameter name, with the server's `summary` of it."""

    summary: Summary


@dataclasses.dataclass(frozen=True)
class Upload:
    """The storage of one input and its place among the tensor arguments."""

    index: int
    storage: memoryview


def chunk_header(index: int, offset: int, length: int, codec_number: int = codec.NONE, raw: int = 0) -> bytes:
    """All bytes of a chunk within its ExecuteRequest or ExecuteResponse that go before its data."""
    fields: Dict[str, Any] = {"tensor_index": index, "offset": offset, "codec": codec_number, "raw_bytes": raw}
    inner = encode(messages.TensorChunk, fields) + _DATA_TAG + encode_varint(length)
    return _CHUNK_TAG + encode_varint(len(inner) + length) + inner


def prepare_uploads(
    tensors: Tuple[PlannedTensor, ...], inputs: Mapping[str, Any]
) -> Tuple[List[Upload], Flavour]:
    """The storages that a plan wants, out of the user's arrays, and what results are to be made of.

    Arrays for inputs of which only the shape is read are welcome and not looked at.
    """
    known = {tensor.name for tensor in tensors if tensor.direction == "input"}
    unknown = sorted(inputs.keys() - known)
    if unknown:
        inputs_known = ", ".join(sorted(known))
        raise AclnnArgumentError.invalid(
            unknown[0], f"the plan has no input {unknown[0]}; its inputs are: {inputs_known}"
        )
    uploads = []
    for index, tensor in enumerate(tensors):
        if tensor.direction != "input" or not tensor.transferred:
            continue
        value = inputs.get(tensor.name)
        if value is None or isinstance(value, TensorSpec):
            raise AclnnArgumentError.missing(tensor.name, f"the data of {tensor.name} are missing")
        uploads.append(Upload(index, storage_of(tensor.name, value, tensor.spec)))
    return uploads, flavour_of(inputs.values())


class _Output:
    """An output while its chunks come in."""

    def __init__(self, tensor: PlannedTensor) -> None:
        self.tensor = tensor
        try:
            self.storage = np.empty(tensor.storage_bytes, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: more than numpy can count
            raise AclnnError(
                f"no memory for the {tensor.storage_bytes} bytes of {tensor.name}",
                code=grpc.StatusCode.INTERNAL,
                parameter=tensor.name,
            ) from error
        self.received = 0

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Puts one chunk in its place."""
        room = len(self.storage) - self.received
        length = chunk["raw_bytes"] or len(chunk["data"])
        if chunk["offset"] != self.received or not 0 < length <= room:
            raise reply_error(
                f"a chunk of {length} bytes at {chunk['offset']} of {self.tensor.name}, of which "
                f"{self.received} of {len(self.storage)} bytes have come"
            )
        end = self.received + length
        codec.decode(chunk["codec"], chunk["data"], chunk["raw_bytes"], self.storage[self.received : end])
        self.received = end


class Job:
    """One job. `messages` may run on another thread than `read`.

    Args:
      request: what was asked for in phase 1.
      state: the plan to execute, or None to do both phases at once (then uploads must be complete as they are).
      uploads: the inputs' storages.
      flavour: what results are made of.
      max_chunk_bytes: the user's limit, for both ways.
    """

    def __init__(
        self,
        request: Request,
        state: Optional[PlanState],
        uploads: List[Upload],
        flavour: Flavour,
        max_chunk_bytes: int,
    ) -> None:
        self._request = request
        self._state = state
        self._uploads = uploads
        self._flavour = flavour
        self._max_chunk_bytes = max_chunk_bytes
        self._outputs: Optional[Dict[int, _Output]] = None
        self.result: Optional[Result] = None
        self.sent_whole = False  # the message that `messages` gave last was the last one

    def _begin(self) -> bytes:
        begin: Dict[str, Any] = {
            "accept_codecs": codec.accepted(),
            "max_chunk_bytes": self._max_chunk_bytes,
        }
        if self._state is None:
            begin["request"] = self._request.fields()
        else:
            begin["executor"] = self._state.executor
            begin["workspace_size"] = self._state.workspace_size
        return encode(messages.ExecuteRequest, {"begin": begin})

    def _chunk_bytes(self) -> int:
        """The size of the chunks to send."""
        if self._state is None:
            return min(self._max_chunk_bytes, CHUNK_BYTES_DEFAULT)
        return min(self._max_chunk_bytes, self._state.max_chunk_bytes or CHUNK_BYTES_DEFAULT)

    def messages(self) -> Iterator[bytes]:
        """The messages to send: begin and data, small things together in one."""
        chunk_bytes = self._chunk_bytes()
        choice = codec.Choice(self._state.accept_codecs if self._state is not None else ())
        parts: List[Buffer] = [self._begin()]
        size = 0
        while self._uploads:
            upload = self._uploads.pop(0)  # so that a packed copy is gone once it was sent
            choice.next_tensor()
            for offset in range(0, len(upload.storage), chunk_bytes):
                data: Buffer = upload.storage[offset : offset + chunk_bytes]
                encoded = choice.encode(data)
                if encoded is None:
                    header = chunk_header(upload.index, offset, len(data))
                else:
                    number, block = encoded
                    header = chunk_header(upload.index, offset, len(block), number, len(data))
                    data = block
                if size + len(data) > max(chunk_bytes, CHUNK_BYTES_DEFAULT):
                    begun = time.perf_counter()
                    yield b"".join(parts)
                    # gRPC asks for the next message when it has taken this one.
                    choice.sent(size, time.perf_counter() - begun)
                    parts, size = [], 0
                parts += (header, data)
                size += len(data)
        self.sent_whole = True
        yield b"".join(parts)

    def read(self, message: bytes) -> bool:
        """Takes one message of the reply. True when the job is done and `result` is there."""
        reply = decode_reply(messages.ExecuteResponse, message)
        if self.result is not None:
            raise reply_error("more comes after the end of the job")
        if reply["accepted"] is not None:
            self._accept(reply["accepted"]["plan"])
        for chunk in reply["chunks"]:
            output = (self._outputs or {}).get(chunk["tensor_index"])
            if output is None:
                raise reply_error(f"a chunk of tensor {chunk['tensor_index']} was not to be expected")
            output.add(chunk)
        if reply["done"] is not None:
            self.result = self._finish(reply["done"])
        return self.result is not None

    def _accept(self, plan: Optional[Mapping[str, Any]]) -> None:
        if self._outputs is not None:
            raise reply_error("the job was accepted twice")
        if self._state is None:
            if plan is None:
                raise reply_error("the job was accepted without its plan")
            self._state = PlanState(plan, self._request)
        tensors = enumerate(self._state.tensors)
        self._outputs = {index: _Output(tensor) for index, tensor in tensors if tensor.direction == "output"}

    def _finish(self, done: Mapping[str, Any]) -> Result:
        if self._outputs is None:
            raise reply_error("the job is done without having been accepted")
        result = Result()
        for output in self._outputs.values():
            tensor = output.tensor
            if output.received != len(output.storage):
                raise reply_error(
                    f"the job is done after {output.received} of {len(output.storage)} bytes of {tensor.name}"
                )
            try:
                result[tensor.name] = build(tensor.spec, output.storage, self._flavour)
            except (ValueError, TypeError) as error:
                raise reply_error(f"{tensor.name}: {error}") from error
        times = {name: done[name] for name in ("queue_ns", "upload_ns", "compute_ns", "download_ns")}
        result.summary = Summary(
            messages.enum_name(messages.TARGET, done["target"]),
            messages.enum_name(messages.NUMERICS, done["numerics"]),
            done["attempts"],
            **times,
        )
        return result
