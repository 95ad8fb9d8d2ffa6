"""The encoder, the decoder, and whether their tables say what the .proto files say."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

from aclnn_client import _messages as messages
from aclnn_client._wire import Field, Message, WireError, decode, encode, encode_varint

ROOT = Path(__file__).resolve().parents[3]
DESCRIPTORS = ROOT / "bazel-bin" / "proto" / "aclnn" / "v1"
SYSTEM_PROTOS = Path("/usr/share/grpc-proto")

# What is needed of google/protobuf/descriptor.proto to read a descriptor set.
EnumValue = Message("EnumValue", [Field(1, "name", "string"), Field(2, "number", "int32")])
EnumDescriptor = Message(
    "Enum", [Field(1, "name", "string"), Field(2, "value", "message", repeated=True, message=EnumValue)]
)
FieldDescriptor = Message(
    "FieldDescriptor",
    [
        Field(1, "name", "string"),
        Field(3, "number", "int32"),
        Field(4, "label", "int32"),
        Field(5, "type", "int32"),
        Field(6, "type_name", "string"),
        Field(9, "oneof_index", "int32", oneof="presence"),
    ],
)
OneofDescriptor = Message("Oneof", [Field(1, "name", "string")])
MessageDescriptor = Message(
    "MessageDescriptor",
    [
        Field(1, "name", "string"),
        Field(2, "field", "message", repeated=True, message=FieldDescriptor),
        Field(4, "enum_type", "message", repeated=True, message=EnumDescriptor),
        Field(8, "oneof_decl", "message", repeated=True, message=OneofDescriptor),
    ],
)
FileDescriptor = Message(
    "FileDescriptor",
    [
        Field(2, "package", "string"),
        Field(4, "message_type", "message", repeated=True, message=MessageDescriptor),
        Field(5, "enum_type", "message", repeated=True, message=EnumDescriptor),
    ],
)
DescriptorSet = Message("DescriptorSet", [Field(1, "file", "message", repeated=True, message=FileDescriptor)])

TYPES = {
    1: "double",
    3: "int64",
    4: "uint64",
    5: "int32",
    8: "bool",
    9: "string",
    11: "message",
    12: "bytes",
    13: "uint32",
    14: "enum",
}
REPEATED = 3


def descriptor_set(proto: Path, import_root: Path, directory: Path) -> bytes:
    """The descriptor set of a .proto file, made by protoc."""
    out = directory / (proto.stem + ".bin")
    command = ["protoc", f"--proto_path={import_root}", "--include_imports", f"--descriptor_set_out={out}"]
    subprocess.run([*command, str(proto)], check=True)
    return out.read_bytes()


@pytest.fixture(scope="module")
def descriptor_sets(tmp_path_factory: Any) -> Dict[str, bytes]:
    """By file: what Bazel made if it did, else what protoc makes now."""
    directory = tmp_path_factory.mktemp("descriptors")
    sets: Dict[str, bytes] = {}
    for name in ("operator_service", "error_details"):
        made = DESCRIPTORS / f"{name}.descriptors.bin"
        proto = ROOT / "proto" / "aclnn" / "v1" / f"{name}.proto"
        if made.exists() and made.stat().st_mtime >= proto.stat().st_mtime:
            sets[name] = made.read_bytes()
        elif shutil.which("protoc"):
            sets[name] = descriptor_set(proto, ROOT / "proto", directory)
        else:
            pytest.skip("neither Bazel's descriptor sets nor protoc are here")
    health = SYSTEM_PROTOS / "grpc" / "health" / "v1" / "health.proto"
    if health.exists() and shutil.which("protoc"):
        sets["health"] = descriptor_set(health, SYSTEM_PROTOS, directory)
    return sets


def files_of(descriptor_sets: Dict[str, bytes]) -> Iterator[Dict[str, Any]]:
    for data in descriptor_sets.values():
        yield from decode(DescriptorSet, data)["file"]


def fields_as_declared(declared: Dict[str, Any]) -> Dict[int, Any]:
    """Number -> what the table must say."""
    found = {}
    for field in declared["field"]:
        index = field["oneof_index"]
        found[field["number"]] = (
            field["name"],
            TYPES[field["type"]],
            field["label"] == REPEATED,
            field["type_name"].lstrip("."),
            None if index is None else declared["oneof_decl"][index]["name"],
        )
    return found


def fields_in_table(message: Message) -> Dict[int, Any]:
    return {
        field.number: (
            field.name,
            field.kind,
            field.repeated,
            field.message.name if field.message else field.enum or "",
            field.oneof,
        )
        for field in message.fields
    }


def test_each_message_of_the_contract_has_its_table(descriptor_sets: Dict[str, bytes]) -> None:
    seen = set()
    for file in files_of(descriptor_sets):
        for declared in file["message_type"]:
            name = f"{file['package']}.{declared['name']}"
            if name in messages.MESSAGES or file["package"] == "aclnn.v1":
                assert fields_in_table(messages.MESSAGES[name]) == fields_as_declared(declared), name
                seen.add(name)
    expected = set(messages.MESSAGES)
    if "health" not in descriptor_sets:
        expected = {name for name in expected if not name.startswith("grpc.health")}
    assert seen == expected


def test_each_enum_of_the_contract_has_its_table(descriptor_sets: Dict[str, bytes]) -> None:
    seen = set()
    for file in files_of(descriptor_sets):
        enums = [(f"{file['package']}.{enum['name']}", enum) for enum in file["enum_type"]]
        for declared in file["message_type"]:
            prefix = f"{file['package']}.{declared['name']}"
            enums += [(f"{prefix}.{enum['name']}", enum) for enum in declared["enum_type"]]
        for name, enum in enums:
            prefix, table = messages.ENUMS[name]
            assert {value["name"]: value["number"] for value in enum["value"]} == {
                prefix + key: number for key, number in table.items()
            }, name
            seen.add(name)
    assert {name for name in messages.ENUMS if name.startswith("aclnn.v1")} <= seen


def random_value(field: Field, rng: random.Random, depth: int) -> Any:
    if field.kind == "message":
        assert field.message is not None
        return random_message(field.message, rng, depth + 1)
    bits = {"int32": 32, "int64": 64, "uint32": 32, "uint64": 64}.get(field.kind)
    if bits:
        number = rng.getrandbits(rng.choice((1, 7, 8, bits)))
        if field.kind.startswith("int") and number >= 1 << (bits - 1):
            number -= 1 << bits
        return number
    choices: Dict[str, Any] = {
        "bool": rng.random() < 0.5,
        "enum": rng.choice((0, 1, 2, 3)) if field.enum != "aclnn.v1.Codec" else rng.choice((0, 1)),
        "double": rng.choice((0.0, -0.5, 1e300, float("inf"))),
        "string": rng.choice(("", "gradOutput", "Größe")),
        "bytes": rng.randbytes(rng.choice((0, 1, 300))),
    }
    return choices[field.kind]


def random_message(message: Message, rng: random.Random, depth: int = 0) -> Dict[str, Any]:
    """Values for a message, as `decode` gives them."""
    values = {field.name: field.default() for field in message.fields}
    oneofs = sorted({field.oneof for field in message.fields if field.oneof})
    chosen = {name: rng.choice([field for field in message.fields if field.oneof == name]) for name in oneofs}
    for field in message.fields:
        if field.oneof and chosen[field.oneof] is not field:
            continue
        if field.repeated:
            values[field.name] = [random_value(field, rng, depth) for _ in range(rng.randrange(4))]
        elif field.kind != "message" or depth < 4:
            values[field.name] = random_value(field, rng, depth)
    return values


@pytest.mark.parametrize("name", sorted(messages.MESSAGES))
def test_what_was_encoded_is_decoded_again(name: str) -> None:
    rng = random.Random(name)
    for _ in range(50):
        values = random_message(messages.MESSAGES[name], rng)
        assert decode(messages.MESSAGES[name], encode(messages.MESSAGES[name], values)) == values


def test_bytes_are_the_same_as_those_of_the_protobuf_package(descriptor_sets: Dict[str, bytes]) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    for data in descriptor_sets.values():
        for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
            pool.Add(file)
    rng = random.Random(1)
    for name, message in messages.MESSAGES.items():
        if name.startswith("grpc.health") and "health" not in descriptor_sets:
            continue
        theirs = message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))
        for _ in range(20):
            ours = encode(message, random_message(message, rng))
            parsed = theirs.FromString(ours)
            assert parsed.SerializeToString(deterministic=True) == ours, name
            assert not parsed.UnknownFields() if hasattr(parsed, "UnknownFields") else True


def test_unknown_fields_of_every_wire_type_are_skipped() -> None:
    group = encode_varint(50 << 3 | 3) + encode_varint(1 << 3) + b"\x05" + encode_varint(50 << 3 | 4)
    unknown = (
        encode_varint(60 << 3) + b"\x96\x01"
        + encode_varint(61 << 3 | 1) + bytes(8)
        + encode_varint(62 << 3 | 2) + b"\x03abc"
        + encode_varint(63 << 3 | 5) + bytes(4)
        + group
    )
    known = encode(messages.HealthCheckRequest, {"service": "x"})
    assert decode(messages.HealthCheckRequest, unknown + known + unknown) == {"service": "x"}


def test_repeated_numbers_are_read_packed_and_unpacked() -> None:
    tag = encode_varint(1 << 3)
    packed = encode(messages.IntArray, {"values": [1, -2, 300]})
    unpacked = tag + encode_varint(7) + tag + encode_varint(-1)
    assert decode(messages.IntArray, packed + unpacked)["values"] == [1, -2, 300, 7, -1]


def test_the_last_member_of_a_oneof_wins() -> None:
    first = encode(messages.Argument, {"name": "a", "integer": 0})
    second = encode(messages.Argument, {"real": 0.0})
    found = decode(messages.Argument, first + second)
    assert found["integer"] is None and found["real"] == 0.0


def test_a_member_of_a_oneof_travels_even_with_its_default() -> None:
    for kind, value in (("integer", 0), ("boolean", False), ("text", ""), ("real", 0.0)):
        found = decode(messages.Argument, encode(messages.Argument, {kind: value}))
        assert found[kind] == value and found[kind] is not None
    assert decode(messages.Argument, encode(messages.Argument, {"tensor": {}}))["tensor"] is not None


def test_bytes_are_not_copied() -> None:
    data = encode(messages.DestroyExecutorRequest, {"executor": bytes(1000)})
    found = decode(messages.DestroyExecutorRequest, data)["executor"]
    assert isinstance(found, memoryview) and found.obj is data


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # a length is missing
        b"\x0a\x05ab",  # ends early
        b"\x08\x01",  # a varint where text belongs
        b"\x0a\x01\xff",  # not UTF-8
        b"\x00\x00",  # field number 0
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a varint without an end
        b"\x96\x06",  # wire type 6
        encode_varint(9 << 3 | 1) + bytes(7),  # an unknown fixed64 ends early
        b"\x0b" * 100,  # groups without an end
    ],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(messages.HealthCheckRequest, data)


def test_doubles_end_where_the_message_ends() -> None:
    with pytest.raises(WireError):
        decode(messages.Argument, encode_varint(5 << 3 | 1) + struct.pack("<d", 1.0)[:7])


def test_a_field_that_does_not_exist_cannot_be_encoded() -> None:
    with pytest.raises(KeyError, match="HealthCheckRequest has no field servce"):
        encode(messages.HealthCheckRequest, {"servce": ""})


@pytest.mark.parametrize("kind", ["uint32", "int32", "enum"])
@pytest.mark.parametrize("number", [1 << 32, (1 << 32) + 3, 1 << 62, 1 << 63, (1 << 64) - (1 << 31) - 1])
def test_number_of_more_than_32_bits_is_refused(kind: str, number: int) -> None:
    """And not cut to one that means something else."""
    message = Message("One", [Field(1, "number", kind)])
    with pytest.raises(WireError, match="more than 32 bits"):
        decode(message, b"\x08" + encode_varint(number))


@pytest.mark.parametrize(
    ("kind", "number", "value"),
    [
        ("uint32", (1 << 32) - 1, (1 << 32) - 1),
        ("int32", (1 << 31) - 1, (1 << 31) - 1),
        ("int32", (1 << 64) - (1 << 31), -(1 << 31)),
        ("enum", (1 << 64) - 1, -1),
    ],
)
def test_numbers_at_the_ends_of_32_bits_are_read(kind: str, number: int, value: int) -> None:
    message = Message("One", [Field(1, "number", kind)])
    assert decode(message, b"\x08" + encode_varint(number))["number"] == value
