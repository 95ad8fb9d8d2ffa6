"""Protobuf's wire format, by hand: a test has to be able to write what no generated code would."""

import struct

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)


def varint(value):
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(field, wire_type):
    return varint(field << 3 | wire_type)


def integer(field, value):
    """An int64, uint64, enum or bool field; written even when it is 0."""
    return tag(field, VARINT) + varint(int(value))


def blob(field, data):
    """A bytes, string or message field."""
    if isinstance(data, str):
        data = data.encode()
    return tag(field, LENGTH) + varint(len(data)) + data


def double(field, value):
    return tag(field, FIXED64) + struct.pack("<d", value)


def packed(field, values):
    return blob(field, b"".join(varint(value) for value in values))


def unpacked(field, values):
    return b"".join(integer(field, value) for value in values)


def read_varint(data, position):
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position


def fields(data):
    """(number, value) of every field; values are ints or memoryviews."""
    view = memoryview(data)
    position = 0
    while position < len(view):
        key, position = read_varint(view, position)
        wire_type = key & 7
        if wire_type == VARINT:
            value, position = read_varint(view, position)
        elif wire_type == LENGTH:
            size, position = read_varint(view, position)
            value = view[position:position + size]
            assert len(value) == size, "message is cut"
            position += size
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
            value = int.from_bytes(view[position:position + size], "little")
            position += size
        else:
            raise AssertionError(f"wire type {wire_type}")
        yield key >> 3, value


def signed(value):
    return value - (1 << 64) if value >> 63 else value


class Message:
    """A received message, read by field number."""

    def __init__(self, data):
        self._fields = list(fields(data))

    def all(self, number):
        return [value for field, value in self._fields if field == number]

    def has(self, number):
        return any(field == number for field, _ in self._fields)

    def integer(self, number):
        return signed(self.all(number)[-1]) if self.has(number) else 0

    def data(self, number):
        return bytes(self.all(number)[-1]) if self.has(number) else b""

    def text(self, number):
        return self.data(number).decode()

    def message(self, number):
        return Message(self.data(number))

    def messages(self, number):
        return [Message(value) for value in self.all(number)]

    def integers(self, number):
        """A repeated integer, packed or not."""
        values = []
        for value in self.all(number):
            if isinstance(value, int):
                values.append(signed(value))
            else:
                position = 0
                while position < len(value):
                    number_read, position = read_varint(value, position)
                    values.append(signed(number_read))
        return values
