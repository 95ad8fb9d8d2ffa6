"""The options of channels."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path
from typing import Any, Dict

import pytest

from aclnn_client import Client
from aclnn_client._channel import Address
from fake_server import FakeServer

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


def test_sent_bytes_that_nobody_acknowledges_end_the_connection_in_time(server: FakeServer, client: Client) -> None:
    """The system ends it: gRPC tells TCP the time that it gives an answer to its own question."""
    client.server_info()
    port = int(server.address.rpartition(":")[2])
    found = []
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as copy:
                if copy.getpeername()[1] == port:
                    found.append(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        except (OSError, IndexError):  # no socket, one without a peer, or a unix one
            continue
    assert found == [20_000]
