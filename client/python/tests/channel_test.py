"""The options of channels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict

import pytest

from aclnn_client._channel import Address

C_CLIENT = Path(__file__).resolve().parents[2] / "c" / "channel.c"


class Recorder:
    """In the place of grpc or grpc.aio: keeps what a channel is opened with."""

    def __init__(self) -> None:
        self.options: Dict[str, Any] = {}

    def insecure_channel(self, target: str, options: Any) -> None:
        self.options = dict(options)


@pytest.mark.parametrize("name", ["KEEPALIVE_TIME_MS", "KEEPALIVE_TIMEOUT_MS"])
def test_signs_of_life_are_asked_for_as_the_c_client_does(name: str) -> None:
    """Both kinds of client open their channels by this."""
    channel = Recorder()
    Address("127.0.0.1:1", None, (), ()).open(channel)
    (wanted,) = re.findall(rf"^#define {name} (\d+)$", C_CLIENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert channel.options["grpc." + name.lower()] == int(wanted)


def test_options_of_the_user_come_last() -> None:
    channel = Recorder()
    Address("127.0.0.1:1", None, (), (("grpc.keepalive_time_ms", 7),)).open(channel)
    assert channel.options["grpc.keepalive_time_ms"] == 7
