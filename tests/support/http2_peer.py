"""A client of HTTP/2 in the test's own hand: many calls on one thread, windows that it opens and fills as it likes."""

import dataclasses
import selectors
import socket
import struct
import time

import raw_http2
from raw_http2 import DATA, FRAME_BYTES_MAX, HEADERS, INITIAL_WINDOW_SIZE, SETTINGS, WINDOW_STANDARD
from raw_http2 import RST_STREAM, WINDOW_UPDATE, frame

PING, GOAWAY = 6, 7
ACK = END_STREAM = 1
FRAME_HEADER_BYTES = 9
# What takes longer hangs.
PATIENCE_SECONDS = 120
# Bytes that are handed to the socket before it is looked at again.
BURST_BYTES = 1 << 20


@dataclasses.dataclass
class Call:
    """One call: what is still to be sent, what came back."""

    stream: int
    unsent: memoryview
    half_close: bool
    window: int
    received_bytes: int = 0
    ended: bool = False  # trailers came, or a reset

    @property
    def sent(self):
        return len(self.unsent) == 0


class Peer:
    """One connection. It keeps to the server's windows, and gives back what the test tells it to."""

    def __init__(self, address, window=WINDOW_STANDARD):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS)
        self._socket.setblocking(False)
        self._input = bytearray()
        self._output = bytearray(raw_http2.connection(window))
        self._window = WINDOW_STANDARD
        self._initial_window = WINDOW_STANDARD
        self.calls = {}
        self.gone = False
        self._next_stream = 1

    def close(self):
        self._socket.close()

    def fileno(self):
        return self._socket.fileno()

    def open(self, method, data, half_close=False, timeout=None, fields=b""):
        """Begins a call whose request is these bytes, gRPC's own header of five bytes a message included.

        fields: what its header block has besides the usual, as raw_http2.field makes it.
        """
        call = Call(self._next_stream, memoryview(data), half_close, self._initial_window)
        self._next_stream += 2
        self.calls[call.stream] = call
        self._output += raw_http2.header_block(call.stream, raw_http2.request_headers(method, timeout) + fields)
        return call

    def send(self, call, data):
        """Sends more on a call whose bytes so far are sent."""
        assert call.sent
        call.unsent = memoryview(data)

    def reset(self, call):
        self._output += raw_http2.reset(call.stream)
        call.ended = True

    def give(self, call, count):
        """Lets the server send so many bytes more."""
        for stream in (0, call.stream):
            self._output += frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", count))

    def pump(self):
        """Reads what is there and writes what fits; whether anything moved."""
        moved = self._read()
        self._fill()
        return self._write() or moved

    def _read(self):
        try:
            data = self._socket.recv(BURST_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            moved, self.gone = not self.gone, True
            return moved
        self._input += data
        at = 0
        while len(self._input) - at >= FRAME_HEADER_BYTES:
            size = int.from_bytes(self._input[at:at + 3], "big")
            end = at + FRAME_HEADER_BYTES + size
            if len(self._input) < end:
                break
            kind, flags, stream = struct.unpack_from(">BBI", self._input, at + 3)
            self._take(kind, flags, stream, bytes(self._input[at + FRAME_HEADER_BYTES:end]))
            at = end
        del self._input[:at]
        return True

    def _take(self, kind, flags, stream, payload):
        call = self.calls.get(stream)
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == INITIAL_WINDOW_SIZE:
                    for other in self.calls.values():
                        other.window += value - self._initial_window
                    self._initial_window = value
            self._output += frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self._output += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE:
            (count,) = struct.unpack(">I", payload)
            if stream == 0:
                self._window += count
            elif call is not None:
                call.window += count
        elif kind == DATA and call is not None:
            call.received_bytes += len(payload)
        elif kind == RST_STREAM and call is not None:
            call.ended = True
        elif kind == GOAWAY:
            self.gone = True
        if kind in (DATA, HEADERS) and call is not None and flags & END_STREAM:
            call.ended = True

    def _fill(self):
        """Frames of what the windows let through, a burst at most."""
        for call in self.calls.values():
            while not call.ended and not call.sent and len(self._output) < BURST_BYTES:
                size = min(len(call.unsent), call.window, self._window, FRAME_BYTES_MAX)
                if size <= 0:
                    break
                last = call.half_close and size == len(call.unsent)
                self._output += frame(DATA, END_STREAM if last else 0, call.stream, bytes(call.unsent[:size]))
                call.unsent = call.unsent[size:]
                call.window -= size
                self._window -= size

    def _write(self):
        if not self._output or self.gone:
            return False
        try:
            sent = self._socket.send(self._output)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            moved, self.gone = not self.gone, True
            return moved
        del self._output[:sent]
        return sent > 0


def pump_until(peers, condition, what, while_waiting=lambda: None):
    """Keeps the connections going until the condition is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with selectors.DefaultSelector() as selector:
        for peer in peers:
            selector.register(peer, selectors.EVENT_READ)
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s in vain until {what}"
            moved = False
            for peer in peers:
                moved = peer.pump() or moved
            while_waiting()
            if not moved:
                selector.select(0.01)


def message(data):
    """A gRPC message: its header, and the bytes."""
    return struct.pack(">BI", 0, len(data)) + data


def half_message(size, sent):
    """The first bytes of a message that says it will be `size` long."""
    return struct.pack(">BI", 0, size) + bytes(sent)
