"""Connections whose frames are made to harm: each is cut, with its reason in the log, and nobody else notices.

What gRPC's parser or the calls behind it would do with them takes from seconds to minutes in which the server answers
nobody (streams that are reset at once, a header value without an end) or all the memory that it may have.
"""

import contextlib
import os
import socket
import struct
import threading

import pytest

import raw_http2
from calls import Client
from http2_peer import Peer, half_message, message, pump_until
from jobs import Backward
from messages import begin, execute
from raw_http2 import CONTINUATION, DATA, END_HEADERS, FRAME_BYTES_MAX, HEADERS, SETTINGS, WINDOW_STANDARD
from raw_http2 import WINDOW_UPDATE, field, frame, reset
from server_process import SANITIZED, ServerProcess

PRIORITY, PING, GOAWAY, UNKNOWN = 2, 6, 7, 0x55
SMALL = Backward.make()
MEBIBYTE = 1 << 20
CUT_SECONDS_MAX = 120
# Far more than any of them may send; with what lies in the sockets' buffers.
SENT_BYTES_MAX = 64 * MEBIBYTE
MEMORY_GROWTH_BYTES_MAX = 128 * MEBIBYTE
# Handed to the socket at a time: an attacker is no slower than the server, however slow the test is.
LOT_BYTES = MEBIBYTE
# A literal that isn't indexed, named "x", whose value announces 256 MiB.
ENDLESS_VALUE = b"\x00\x01x\x7f\xff\xff\xff\x7f"
# The field that the other side was told to remember last.
NEWEST_FIELD = b"\xbe"

TOO_LONG = "a call's headers are too long"
TOO_MANY = "too many calls were opened"
TOO_LARGE = "messages announce far more than they may hold"
NOTHING = "too many frames that move nothing"


def headers(stream, method="Execute", flags=END_HEADERS):
    return frame(HEADERS, flags, stream, raw_http2.request_headers(method))


def streams():
    return range(1, 1 << 31, 2)


def reset_at_once():
    for stream in streams():
        yield headers(stream) + reset(stream)


def made_to_be_reset():
    for stream in streams():
        yield headers(stream) + frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", 0x7fffffff))


def reset_after_data():
    for stream in streams():
        yield headers(stream) + frame(DATA, 0, stream, half_message(1000, 300)) + reset(stream)


def opened_beyond_the_limit():
    for stream in streams():
        yield headers(stream)


def calls_of_no_method():
    for stream in streams():
        yield headers(stream, "NoSuchMethod", END_HEADERS | 1)


def endless_value():
    yield frame(HEADERS, 0, 1, raw_http2.request_headers("Execute") + ENDLESS_VALUE)
    while True:
        yield frame(CONTINUATION, 0, 1, b"a" * FRAME_BYTES_MAX)


def endless_value_in_single_bytes():
    yield frame(HEADERS, 0, 1, raw_http2.request_headers("Execute") + ENDLESS_VALUE)
    while True:
        yield frame(CONTINUATION, 0, 1, b"a") * 100


def endless_fields():
    yield frame(HEADERS, 0, 1, raw_http2.request_headers("Execute"))
    while True:
        yield frame(CONTINUATION, 0, 1, field(b"x", b"y") * 3000)


def one_field_again_and_again():
    yield frame(HEADERS, 0, 1, raw_http2.request_headers("Execute") + field(b"x", b"z" * 3900, index=True))
    while True:
        yield frame(CONTINUATION, 0, 1, NEWEST_FIELD * FRAME_BYTES_MAX)


def continuations_of_nothing():
    yield frame(HEADERS, 0, 1, raw_http2.request_headers("Execute"))
    while True:
        yield frame(CONTINUATION, 0, 1) * 1000


def message_of_4_gib():
    yield headers(1) + frame(DATA, 0, 1, struct.pack(">BI", 0, 0xffffffff))
    while True:
        yield frame(DATA, 0, 1, bytes(1000))


def many_long_messages():
    for stream in streams():
        yield headers(stream) + frame(DATA, 0, stream, struct.pack(">BI", 0, 20 * MEBIBYTE))


def again_and_again(*parts):
    def attack():
        while True:
            yield frame(*parts) * 100
    return attack


ATTACKS = {
    "calls that are reset at once": (reset_at_once, TOO_MANY),
    "calls made to be reset": (made_to_be_reset, TOO_MANY),
    "calls that are reset after some data": (reset_after_data, TOO_MANY),
    "calls beyond the limit": (opened_beyond_the_limit, TOO_MANY),
    "calls of no method": (calls_of_no_method, TOO_MANY),
    "a value without an end": (endless_value, TOO_LONG),
    "a value without an end in single bytes": (endless_value_in_single_bytes, TOO_LONG),
    "fields without an end": (endless_fields, TOO_LONG),
    # gRPC itself may be the first to see this, and pings.
    "one field again and again": (one_field_again_and_again, None),
    "continuations of nothing": (continuations_of_nothing, TOO_LONG),
    "a message of 4 GiB": (message_of_4_gib, TOO_LARGE),
    "many messages of 20 MiB": (many_long_messages, TOO_LARGE),
    "settings": (again_and_again(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)), NOTHING),
    "pings": (again_and_again(PING, 0, 0, b"12345678"), None),
    "priorities": (again_and_again(PRIORITY, 0, 1, bytes(5)), NOTHING),
    "data of nothing": (again_and_again(DATA, 0, 1), NOTHING),
    "frames of no kind": (again_and_again(UNKNOWN, 0, 0, b"x" * 100), NOTHING),
    "goodbyes": (again_and_again(GOAWAY, 0, 0, bytes(8)), NOTHING),
}


def connect(address):
    if address.startswith("unix:"):
        peer = socket.socket(socket.AF_UNIX)
        peer.settimeout(CUT_SECONDS_MAX)
        peer.connect(address.removeprefix("unix:"))
    else:
        host, port = address.rsplit(":", 1)
        peer = socket.create_connection((host, int(port)), timeout=CUT_SECONDS_MAX)
    peer.sendall(raw_http2.connection(WINDOW_STANDARD))
    return peer


def read_all(peer):
    with contextlib.suppress(OSError):
        while peer.recv(1 << 16):
            pass


def lots(parts):
    lot = bytearray()
    for part in parts:
        lot += part
        if len(lot) >= LOT_BYTES:
            yield bytes(lot)
            lot.clear()


def attack_until_cut(address, frames):
    """Sends until the server has closed the connection. What comes is read: gRPC waits for one that doesn't."""
    with connect(address) as peer:
        reader = threading.Thread(target=read_all, args=(peer,))
        reader.start()
        sent = 0
        try:
            for lot in lots(frames):
                peer.sendall(lot)
                sent += len(lot)
                assert sent < SENT_BYTES_MAX, "the server takes it all"
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            reader.join()


@pytest.fixture(scope="module", name="server")
def fixture_server(tmp_path_factory):
    """With two processors, as many as the test keeps busy: one attacker is no trouble for a server with many more."""
    path = tmp_path_factory.mktemp("sockets") / "socket"
    processors = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    with ServerProcess(listen=("127.0.0.1:0", f"unix:{path}"), prefix=("taskset", "-c", processors)) as server:
        yield server


@pytest.fixture(name="client")
def fixture_client(server):
    with contextlib.closing(Client(server.address)) as client:
        yield client


@pytest.mark.parametrize("way", [0, 1], ids=["tcp", "unix"])
@pytest.mark.parametrize("attack, reason", ATTACKS.values(), ids=ATTACKS)
def test_attacker_is_cut_and_others_are_served(server, client, attack, reason, way):
    SMALL.run(client)
    resting = client.stream().send(SMALL.message())
    SMALL.check(resting.read_result())
    before = server.resident_bytes()
    cut_before = server.log().count(str(reason))
    attack_until_cut(server.addresses[way], attack())
    # A call that began before and one that begins now: both on a connection of their own.
    resting.send(SMALL.message())
    SMALL.check(resting.read_result())
    resting.cancel()
    SMALL.run(client)
    if reason is not None:
        # The log's line comes with the end of the connection, which nothing else waits for.
        server.wait_for_log(lambda log: log.count(reason) > cut_before)
    if not SANITIZED:
        assert server.resident_bytes() - before < MEMORY_GROWTH_BYTES_MAX


@pytest.fixture(name="peer")
def fixture_peer(server):
    with contextlib.closing(Peer(server.address)) as peer:
        yield peer


def call_whole(peer, method, body, fields=b""):
    call = peer.open(method, message(body), half_close=True, fields=fields)
    pump_until([peer], lambda: call.ended or peer.gone, f"{method} has ended")
    assert not peer.gone


def test_headers_that_are_merely_too_long_end_their_call_alone(peer):
    """gRPC refuses them with an error: what a client does by mistake costs it one call, not its connection."""
    call_whole(peer, "GetServerInfo", b"", fields=field(b"x", b"y" * 4000) * 8)
    call_whole(peer, "Execute", execute(begin(request=SMALL.request())))


def test_calls_that_are_given_up_are_no_attack_while_the_server_keeps_up(peer):
    """However many they become: what a client with short deadlines does."""
    for _ in range(100):
        for _ in range(100):
            peer.reset(peer.open("Execute", b""))
        call_whole(peer, "GetServerInfo", b"")


def test_thousands_of_calls_at_a_time_are_no_attack(server, client):
    """A client that keeps to the limit of streams, and gives half of its calls up."""
    plan = client.plan(SMALL.request(repeatable=True))
    request = execute(begin(executor=plan.executor, workspace_size=plan.workspace_size), SMALL.chunks())
    cut_before = server.log().count("a connection was cut")
    for _ in range(5):
        calls = [client.stream().send(request) for _ in range(600)]
        for call in calls[::2]:
            call.cancel()
        for call in calls[1::2]:
            SMALL.check(call.finish()[0])
    assert server.log().count("a connection was cut") == cut_before
