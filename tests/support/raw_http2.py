"""As much of HTTP/2 as a client needs that no library would be: bytes of a connection and of one call."""

import struct

DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 8, 9
END_HEADERS = 4
INITIAL_WINDOW_SIZE = 4
WINDOW_STANDARD = 65535
FRAME_BYTES_MAX = 16384
CANCEL = 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def connection(window):
    """The preface: the peer may send `window` bytes, in all and on each stream."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window))
    if window > WINDOW_STANDARD:  # an update by nothing would be an error
        preface += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", window - WINDOW_STANDARD))
    return preface


def header_block(stream, block):
    """In as many frames as it takes."""
    parts = [block[at:at + FRAME_BYTES_MAX] for at in range(0, len(block), FRAME_BYTES_MAX)]
    return b"".join(
        frame(CONTINUATION if i else HEADERS, END_HEADERS if i == len(parts) - 1 else 0, stream, part)
        for i, part in enumerate(parts))


def reset(stream):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))


def text(value):
    """A string of a header block, as it is."""
    size = len(value)
    if size < 127:
        return bytes([size]) + value
    prefix, size = bytearray([127]), size - 127
    while size >= 128:
        prefix.append(size % 128 | 128)
        size //= 128
    return bytes(prefix) + bytes([size]) + value


def field(name, value, index=False):
    """A field of a header block; index: the other side is to remember it."""
    return (b"\x40" if index else b"\x00") + text(name) + text(value)


def request_headers(method, timeout=None):
    """The header block of a call of the service; timeout as gRPC writes it, such as "50m" for 50 ms."""
    fields = {":method": "POST", ":scheme": "http", ":path": f"/aclnn.v1.OperatorService/{method}", ":authority": "x",
              "content-type": "application/grpc", "te": "trailers"}
    if timeout is not None:
        fields["grpc-timeout"] = timeout
    return b"".join(field(name.encode(), value.encode()) for name, value in fields.items())


def execute(message):
    """An Execute call on stream 1 with one message, small enough for the peer's first window; not half-closed."""
    data = struct.pack(">BI", 0, len(message)) + message
    assert len(data) <= FRAME_BYTES_MAX
    return header_block(1, request_headers("Execute")) + frame(DATA, 0, 1, data)
