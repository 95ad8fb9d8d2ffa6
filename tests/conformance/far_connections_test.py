"""Connections that count as far: gRPC estimates their window, and everything else is as on near ones."""

import contextlib
import socket
import struct

import pytest

import raw_http2
from calls import Client
from jobs import Backward
from messages import begin, execute
from raw_http2 import DATA, END_HEADERS, HEADERS, WINDOW_STANDARD, frame
from server_process import ServerProcess

SMALL = Backward.make()
# Its tensors take several messages.
LARGE = Backward.make(planes=(1, 240), input_size=(128, 128), output_size=(64, 64))
PING, END_STREAM, ACK = 6, 1, 1
SECONDS_MAX = 120
# By the round trip from which a connection is far.
NEVER, ALWAYS = "1h", "0ms"


def frames_of_one_call(address):
    """The kinds and flags of what the server sends for a small job, up to the trailers."""
    host, port = address.rsplit(":", 1)
    body = execute(begin(request=SMALL.request()), SMALL.chunks())
    with socket.create_connection((host, int(port)), timeout=SECONDS_MAX) as peer:
        peer.sendall(raw_http2.connection(WINDOW_STANDARD) +
                     frame(HEADERS, END_HEADERS, 1, raw_http2.request_headers("Execute")) +
                     frame(DATA, END_STREAM, 1, struct.pack(">BI", 0, len(body)) + body))
        with peer.makefile("rb") as stream:
            while True:
                head = stream.read(9)
                assert len(head) == 9, "the connection was closed"
                stream.read(int.from_bytes(head[:3], "big"))
                kind, flags = head[3], head[4]
                yield kind, flags
                if kind == HEADERS and flags & END_STREAM:
                    return


@pytest.mark.parametrize("round_trip", [NEVER, ALWAYS])
def test_window_of_far_connections_is_estimated(round_trip):
    """gRPC measures the way with a ping when data come."""
    with ServerProcess("--far-round-trip", round_trip) as server:
        pinged = any(kind == PING and not flags & ACK for kind, flags in frames_of_one_call(server.address))
    assert pinged == (round_trip == ALWAYS)


def test_jobs_of_far_connections_are_exact():
    with ServerProcess("--far-round-trip", ALWAYS) as server, contextlib.closing(Client(server.address)) as client:
        for _ in range(3):
            SMALL.run(client)
            LARGE.run(client)


def test_server_with_far_connections_drains():
    with ServerProcess("--far-round-trip", ALWAYS, "--drain-grace", "100ms") as server:
        with contextlib.closing(Client(server.address)) as client:
            stream = client.stream().send(SMALL.message())
            SMALL.check(stream.read_result())
            server.terminate()
            assert stream.fail().reason == "DRAINING"
            assert server.wait() == 0
