"""Thousands of calls that send what nobody asked for: the server's memory stays under a cap, others are served.

The short form is 400 calls over 10 connections, the long one 2,000 over 50.
"""

import contextlib
import dataclasses

import pytest

from calls import Client
from http2_peer import Peer, half_message, message, pump_until
from jobs import Backward
from messages import begin, execute
from server_process import SANITIZED, ServerProcess

MEBIBYTE = 1 << 20
SMALL = Backward.make()
# 17.8 MiB of tensors and below 10 MiB of workspace: the budget holds one of these, not two.
HALF = Backward.make(planes=(1, 240), input_size=(128, 128), output_size=(32, 32))
BUDGET = "32MiB"
CALLS_PER_CONNECTION = 40
# The server's, of all its connections.
RESTING_CALLS_MAX = 128
# Looks of 10 ms that find nothing moved: what is left is held back.
LOOKS_AT_REST = 50


@dataclasses.dataclass
class Kind:
    """What each call sends, the server's --max-queue, and the cap of its memory."""

    data: bytes
    queue: int
    cap_bytes: int


KINDS = {
    # gRPC's quota is 512 MiB and 4 MiB for each job that may wait. What it doesn't count, such as the unused rest of
    # its buffers and the calls themselves, comes to less than the rest of a GiB.
    "half messages before the begin": Kind(half_message(MEBIBYTE, MEBIBYTE - 1), 16, 1024 * MEBIBYTE),
    # All of them wait, and of each one message of up to 64 KiB is read or lies in the window.
    "jobs that wait, with their data":
        Kind(b"".join(message(item) for item in HALF.messages())[:MEBIBYTE], 4000, 448 * MEBIBYTE),
}


class Flood:
    """Connections full of calls that each send the same, and what they have done to the server."""

    def __init__(self, server, peers, data):
        self._server = server
        self._peers = peers
        self.calls = [peer.open("Execute", data) for peer in peers for _ in range(CALLS_PER_CONNECTION)]
        self.resident_bytes_max = 0
        self._unsent = -1
        self._looks = 0

    def look(self):
        self.resident_bytes_max = max(self.resident_bytes_max, self._server.resident_bytes())
        unsent = sum(len(call.unsent) for call in self.calls if not call.ended)
        self._looks = self._looks + 1 if unsent == self._unsent else 0
        self._unsent = unsent

    def run(self):
        """Until all is sent or refused, or held back."""
        pump_until(self._peers, lambda: self._looks >= LOOKS_AT_REST, "the flood came to rest", while_waiting=self.look)


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is another")
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_flood_stays_under_the_cap(fault_seconds, kind):
    connections = 50 if fault_seconds > 0 else 10
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            ServerProcess("--memory-limit", BUDGET, "--max-queue", str(kind.queue), "--max-queue-time", "1h"))
        client = stack.enter_context(contextlib.closing(Client(server.address)))
        first = client.stream(timeout=300).send(execute(begin(request=HALF.request())))
        first.read_accepted()
        peers = [stack.enter_context(contextlib.closing(Peer(server.address))) for _ in range(connections)]
        flood = Flood(server, peers, kind.data)
        flood.run()
        for _ in range(20):
            SMALL.run(client)
        flood.look()
        ended = sum(call.ended for call in flood.calls)
        print(f"{len(flood.calls)} calls, {ended} refused: at most {flood.resident_bytes_max >> 20} MiB")
        assert flood.resident_bytes_max < kind.cap_bytes
        # Where the flood comes to the quota, gRPC takes streams as they come, and may have taken this one.
        first.cancel()
        for peer in peers:
            peer.close()
        HALF.run(client)


def test_half_messages_do_not_stay():
    """A call that has sent half of a message looks like one that rests between jobs: only so many may stay so."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ServerProcess("--memory-limit", BUDGET, "--idle-timeout", "500ms"))
        client = stack.enter_context(contextlib.closing(Client(server.address)))
        resting = client.stream().send(SMALL.message())
        SMALL.check(resting.read_result())
        peers = [stack.enter_context(contextlib.closing(Peer(server.address))) for _ in range(4)]
        calls = [peer.open("Execute", half_message(100000, 99999)) for peer in peers for _ in range(50)]
        pump_until(peers, lambda: sum(not call.ended for call in calls) <= RESTING_CALLS_MAX, "the surplus was ended")
        SMALL.run(client)
