"""A small protobuf encoder and decoder that is driven by tables.

The contract has few and flat messages, so two functions over a description of each message do what would
otherwise need the protobuf package and its version pins. A message is a plain dict from field name to value.

* Enums are their numbers, sub-messages are dicts, repeated fields are lists.
* `encode` leaves out fields that are absent, None or (outside of a oneof) equal to their default.
* `decode` fills every field that the message doesn't hold: with its default, or with None for sub-messages
  and members of a oneof. Unknown fields are skipped. `bytes` come as memoryviews into what was decoded.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

Buffer = Union[bytes, bytearray, memoryview]

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)

# How each scalar kind travels, and its default.
_WIRE_TYPES = {
    "int32": VARINT,
    "int64": VARINT,
    "uint32": VARINT,
    "uint64": VARINT,
    "bool": VARINT,
    "enum": VARINT,
    "double": FIXED64,
    "string": LENGTH,
    "bytes": LENGTH,
    "message": LENGTH,
}
_DEFAULTS: Dict[str, Any] = {
    "int32": 0,
    "int64": 0,
    "uint32": 0,
    "uint64": 0,
    "bool": False,
    "enum": 0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
    "message": None,
}
_GROUP_DEPTH_MAX = 32


class WireError(ValueError):
    """The bytes are not a message of the expected type."""


class Field:
    """One field of a message: its number, name, kind and what belongs to the kind."""

    __slots__ = ("number", "name", "kind", "repeated", "message", "enum", "oneof", "wire_type", "tag")

    def __init__(
        self,
        number: int,
        name: str,
        kind: str,
        *,
        repeated: bool = False,
        message: Optional["Message"] = None,
        enum: Optional[str] = None,
        oneof: Optional[str] = None,
    ) -> None:
        self.number = number
        self.name = name
        self.kind = kind
        self.repeated = repeated
        self.message = message
        self.enum = enum
        self.oneof = oneof
        self.wire_type = _WIRE_TYPES[kind]
        packed = repeated and self.wire_type != LENGTH
        self.tag = encode_varint(number << 3 | (LENGTH if packed else self.wire_type))

    def default(self) -> Any:
        """What `decode` gives for a field that the message doesn't hold."""
        if self.repeated:
            return []
        return None if self.oneof else _DEFAULTS[self.kind]

    def wire_types(self) -> Tuple[int, ...]:
        """How the field may travel: numbers in a list come one by one or packed."""
        return (self.wire_type, LENGTH) if self.repeated else (self.wire_type,)


class Message:
    """A message type: its full name and its fields."""

    __slots__ = ("name", "fields", "by_name", "by_tag", "defaults", "repeated")

    def __init__(self, name: str, fields: Iterable[Field] = ()) -> None:
        self.name = name
        self.fields: Tuple[Field, ...] = tuple(fields)
        self.by_name = {field.name: field for field in self.fields}
        self.by_tag = {
            field.number << 3 | wire_type: field for field in self.fields for wire_type in field.wire_types()
        }
        self.defaults = {field.name: field.default() for field in self.fields}
        self.repeated = tuple(field.name for field in self.fields if field.repeated)

    def by_number(self, number: int) -> Optional[Field]:
        """The field of that number, if there is one."""
        return next((field for field in self.fields if field.number == number), None)


def encode_varint(value: int) -> bytes:
    """The varint of a number; negative ones as 64-bit two's complement."""
    value &= 0xFFFFFFFFFFFFFFFF
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _encode_scalar(field: Field, value: Any) -> bytes:
    if field.wire_type == VARINT:
        return encode_varint(int(value))
    if field.kind == "double":
        return struct.pack("<d", value)
    data = value.encode("utf-8") if field.kind == "string" else value
    if field.kind == "message":
        assert field.message is not None
        data = encode(field.message, value)
    return b"".join((encode_varint(len(data)), data))


def _encode_field(field: Field, value: Any, parts: List[Buffer]) -> None:
    if field.repeated and field.wire_type != LENGTH:
        packed = b"".join(_encode_scalar(field, item) for item in value)
        parts += (field.tag, encode_varint(len(packed)), packed)
        return
    for item in value if field.repeated else (value,):
        parts += (field.tag, _encode_scalar(field, item))


def encode(message: Message, values: Mapping[str, Any]) -> bytes:
    """The bytes of a message. Fields are written in the order of the table."""
    unknown = values.keys() - message.by_name.keys()
    if unknown:
        raise KeyError(f"{message.name} has no field {sorted(unknown)[0]}")
    parts: List[Buffer] = []
    for field in message.fields:
        value = values.get(field.name)
        if value is None:
            continue
        if field.repeated or (not field.oneof and field.kind != "message"):
            if not value and value is not True:
                continue
        _encode_field(field, value, parts)
    return b"".join(parts)


def read_varint(data: Buffer, position: int, end: int) -> Tuple[int, int]:
    """The unsigned number at `position` and the position after it."""
    if position < end and data[position] < 0x80:  # most are of one byte
        return data[position], position + 1
    result = 0
    for shift in range(0, 70, 7):
        if position >= end:
            break
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
    raise WireError("a varint ends early or is too long")


def _scalar(field: Field, raw: int) -> Any:
    """The value of a varint field."""
    kind = field.kind
    if kind == "bool":
        return raw != 0
    if kind == "int64":
        return raw - (1 << 64) if raw >> 63 else raw
    if kind in ("int32", "enum"):
        signed = raw - (1 << 64) if raw >> 63 else raw
        if not -(1 << 31) <= signed < 1 << 31:
            raise WireError(f"a number of more than 32 bits ({signed})")
        return signed
    if kind == "uint32" and raw >> 32:
        raise WireError(f"a number of more than 32 bits ({raw})")
    return raw


def skip_field(data: Buffer, position: int, end: int, wire_type: int, depth: int = 0) -> int:
    """The position after the value of a field that nobody here knows."""
    if wire_type == VARINT:
        return read_varint(data, position, end)[1]
    if wire_type == LENGTH:
        length, position = read_varint(data, position, end)
        position += length
    elif wire_type in (FIXED64, FIXED32):
        position += 8 if wire_type == FIXED64 else 4
    elif wire_type == START_GROUP and depth < _GROUP_DEPTH_MAX:
        while True:
            tag, position = read_varint(data, position, end)
            if tag & 7 == END_GROUP:
                break
            position = skip_field(data, position, end, tag & 7, depth + 1)
    else:
        raise WireError(f"a field of wire type {wire_type} makes no sense here")
    if position > end:
        raise WireError("a field ends after its message")
    return position


def _read_length(field: Field, data: Buffer, start: int, end: int) -> Any:
    """The value of a field that travels as a length and so many bytes."""
    if field.kind == "message":
        assert field.message is not None
        return _decode(field.message, data, start, end)
    if field.kind == "bytes":
        return memoryview(data)[start:end]
    try:
        return str(data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"{field.name} is not UTF-8") from error


def _read_number(field: Field, data: Buffer, position: int, end: int) -> Tuple[Any, int]:
    """The value of a number of any kind and the position after it."""
    if field.wire_type == VARINT:
        raw, position = read_varint(data, position, end)
        return _scalar(field, raw), position
    if position + 8 > end:
        raise WireError(f"{field.name} ends early")
    return struct.unpack_from("<d", data, position)[0], position + 8


def _store(field: Field, values: Dict[str, Any], value: Any, message: Message) -> None:
    if field.repeated:
        values[field.name].append(value)
        return
    if field.oneof:  # the last one of a oneof wins
        for other in message.fields:
            if other.oneof == field.oneof:
                values[other.name] = None
    values[field.name] = value


def _skip_unknown(message: Message, tag: int, data: Buffer, position: int, end: int) -> int:
    """The position after a field that the table doesn't have; refuses a known one of a wrong wire type."""
    field = message.by_number(tag >> 3)
    if field is not None or tag >> 3 == 0:
        name = "field number 0" if field is None else field.name
        raise WireError(f"{message.name}: {name} has wire type {tag & 7}")
    return skip_field(data, position, end, tag & 7)


def _decode(message: Message, data: Buffer, position: int, end: int) -> Dict[str, Any]:
    values = message.defaults.copy()
    for name in message.repeated:
        values[name] = []
    while position < end:
        tag, position = read_varint(data, position, end)
        field = message.by_tag.get(tag)
        if field is None:
            position = _skip_unknown(message, tag, data, position, end)
        elif tag & 7 != LENGTH:
            value, position = _read_number(field, data, position, end)
            _store(field, values, value, message)
        else:
            length, position = read_varint(data, position, end)
            stop = position + length
            if stop > end:
                raise WireError(f"{field.name} ends after its message")
            if field.wire_type == LENGTH:
                _store(field, values, _read_length(field, data, position, stop), message)
                position = stop
            while position < stop:  # packed numbers
                value, position = _read_number(field, data, position, stop)
                values[field.name].append(value)
    return values


def decode(message: Message, data: Buffer) -> Dict[str, Any]:
    """The fields of a message; raises WireError if the bytes are not one."""
    return _decode(message, data, 0, len(data))
