"""What a server says of itself and of its operators."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Tuple

from . import _messages as messages
from ._tensors import data_type_name


@dataclasses.dataclass(frozen=True)
class DeviceInfo:
    """A device of a target: its name, whether it works, and what else there is to say."""

    name: str
    healthy: bool
    detail: str


@dataclasses.dataclass(frozen=True)
class TargetInfo:
    """A place where jobs can run ("cpu" or "npu"), its devices and the numerics that it gives."""

    target: str
    available: bool
    devices: Tuple[DeviceInfo, ...]
    numerics: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    """The server's version and abilities.

    Attributes:
      server_version: the version of the server program.
      contract_revision: the revision of the wire contract.
      features: names of what this revision can do.
      limits: by name: max_chunk_bytes, max_message_bytes, memory_budget_bytes, max_executors,
        default_ttl_ms, max_ttl_ms, max_queue, max_queue_time_ms, idle_timeout_ms,
        max_connections.
      codecs: how chunks may be encoded.
      targets: where jobs can run.
      cpu_path: the code path of the CPU kernels, such as "avx2".
    """

    server_version: str
    contract_revision: int
    features: Tuple[str, ...]
    limits: Dict[str, int]
    codecs: Tuple[str, ...]
    targets: Tuple[TargetInfo, ...]
    cpu_path: str


@dataclasses.dataclass(frozen=True)
class ParameterInfo:
    """A parameter of an operator.

    Attributes:
      name: CANN's name.
      kind: "tensor", "int_array", "integer", "real", "boolean" or "text".
      direction: "input" or "output".
      optional: whether it may be left out.
      shape_only: whether only the shape of this input is read, so that its data needn't be sent.
      dtypes: the data types that a tensor may have.
      ranks: the numbers of dimensions that a tensor may have.
    """

    name: str
    kind: str
    direction: str
    optional: bool
    shape_only: bool
    dtypes: Tuple[str, ...]
    ranks: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class OperatorInfo:
    """An operator: its name, parameters, effect ("pure": may be run again) and the targets that have it."""

    name: str
    parameters: Tuple[ParameterInfo, ...]
    effect: str
    targets: Tuple[str, ...]


def _names(table: Dict[str, int], numbers: Any) -> Tuple[str, ...]:
    return tuple(messages.enum_name(table, number) for number in numbers)


def server_info(reply: Mapping[str, Any]) -> ServerInfo:
    """From a GetServerInfoResponse."""
    targets = tuple(
        TargetInfo(
            messages.enum_name(messages.TARGET, target["target"]),
            target["available"],
            tuple(DeviceInfo(**device) for device in target["devices"]),
            _names(messages.NUMERICS, target["numerics"]),
        )
        for target in reply["targets"]
    )
    return ServerInfo(
        reply["server_version"],
        reply["contract_revision"],
        tuple(reply["features"]),
        dict(reply["limits"] or {}),
        _names(messages.CODEC, reply["codecs"]),
        targets,
        reply["cpu_path"],
    )


def _parameter_info(entry: Mapping[str, Any]) -> ParameterInfo:
    return ParameterInfo(
        entry["name"],
        messages.enum_name(messages.PARAMETER_KIND, entry["kind"]),
        messages.enum_name(messages.DIRECTION, entry["direction"]),
        entry["optional"],
        entry["shape_only"],
        tuple(data_type_name(number) for number in entry["data_types"]),
        tuple(entry["ranks"]),
    )


def operator_list(reply: Mapping[str, Any]) -> Tuple[OperatorInfo, ...]:
    """From a ListOperatorsResponse."""
    return tuple(
        OperatorInfo(
            entry["name"],
            tuple(_parameter_info(parameter) for parameter in entry["parameters"]),
            messages.enum_name(messages.EFFECT, entry["effect"]),
            _names(messages.TARGET, entry["targets"]),
        )
        for entry in reply["operators"]
    )
