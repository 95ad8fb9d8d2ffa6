"""Encoded chunks: the format of the non-zero words, and when a sender encodes."""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
import pytest

from aclnn_client import _codec as codec
from aclnn_client import _nonzero as nonzero

MIB = 1 << 20


def sparse(size: int, word_bytes: int, period: int, seed: int = 1) -> bytes:
    """Bytes of which about one word in `period` isn't zero; what makes no word at the end is never zero."""
    random = np.random.default_rng(seed)
    data = np.zeros(size, np.uint8)
    for word in range(size // word_bytes):
        if random.integers(period) == 0:
            data[word * word_bytes + random.integers(word_bytes)] = random.integers(1, 256)
    data[size // word_bytes * word_bytes :] = 7
    return data.tobytes()


def encode_plainly(word_bytes: int, raw: bytes) -> bytes:
    """The format word by word, as the contract says it."""
    words = [raw[at : at + word_bytes] for at in range(0, len(raw) - word_bytes + 1, word_bytes)]
    groups = [words[at : at + 32] for at in range(0, len(words), 32)]
    masks = [sum((any(word)) << bit for bit, word in enumerate(group)) for group in groups]
    used = sum((mask != 0) << bit for bit, mask in enumerate(masks))
    return b"".join(
        [bytes([word_bytes]), used.to_bytes((len(groups) + 7) // 8, "little")]
        + [mask.to_bytes(4, "little") for mask in masks if mask]
        + [word for word in words if any(word)]
        + [raw[len(words) * word_bytes :]]
    )


def decoded(data: bytes, size: int) -> Any:
    """What the data decode to, or None."""
    out = np.full(size, 0xA5, np.uint8)
    return out.tobytes() if nonzero.decode(memoryview(data), out) else None


@pytest.mark.parametrize("word_bytes", [2, 4])
@pytest.mark.parametrize("period", [1, 3, 50, 10000])
def test_every_size_comes_back(word_bytes: int, period: int) -> None:
    for size in [*range(1, 300, 7), 1023, 1024, 1025]:
        raw = sparse(size, word_bytes, period)
        data = nonzero.encode(word_bytes, raw)
        assert data == encode_plainly(word_bytes, raw)
        assert decoded(data, size) == raw


@pytest.mark.parametrize("word_bytes", [2, 4])
def test_broken_data_are_refused_or_decode_to_something(word_bytes: int) -> None:
    raw = sparse(500, word_bytes, 9)
    data = nonzero.encode(word_bytes, raw)
    for cut in range(len(data)):
        assert decoded(data[:cut], 500) is None
    assert decoded(data + b"\0", 500) is None
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            decoded(bytes(wrong), 500)


@pytest.mark.parametrize(
    "data",
    ["", "0300", "0800", "0404", "04040100000001020304", "04020001000001020304", "040280000000010203"],
    ids=["nothing", "three", "eight", "third group", "its word", "ninth word", "cut word"],
)
def test_what_is_no_encoding_is_refused(data: str) -> None:
    # 40 words of 4 bytes: two groups, the second has 8 words.
    assert decoded(bytes.fromhex(data), 160) is None


class Clock:
    """Each look at it takes so many seconds."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def choices(choice: codec.Choice, data: bytes, count: int) -> Iterator[bool]:
    """Whether each of so many chunks is encoded."""
    return (choice.encode(memoryview(data)) is not None for _ in range(count))


def test_sparse_data_are_encoded_and_noise_is_not() -> None:
    noise = (np.arange(MIB // 4, dtype=np.uint32) * np.uint32(2654435761) | np.uint32(0x10001)).tobytes()
    choice = codec.Choice([1, 16], Clock(0))
    assert all(choices(choice, sparse(MIB // 4, 4, 100), 40))
    choice.next_tensor()
    choice.sent(MIB, 100.0)
    assert not any(choices(codec.Choice([16], Clock(0)), noise, 40))


def test_nothing_is_encoded_for_a_receiver_without_codecs() -> None:
    clock = Clock(1)
    receivers: List[List[int]] = [[], [0], [99]]
    for receiver in receivers:
        assert not any(choices(codec.Choice(receiver, clock), bytes(MIB), 3))
    assert clock.now == 0


def test_what_encodes_slowly_pays_on_a_slow_link_only() -> None:
    data = sparse(MIB // 4, 4, 4)
    slow = Clock((64 << 10) / 200e6)  # a sample at 200 MB/s
    choice = codec.Choice([16], slow)
    assert not any(choices(choice, data, 16))
    for _ in range(30):
        choice.sent(MIB, MIB / 20e6)
    assert all(choices(choice, data, 16))
    for _ in range(30):
        choice.sent(MIB, MIB / 3e9)
    assert not any(choices(choice, data, 16))


def test_small_quick_messages_say_nothing_of_the_link() -> None:
    choice = codec.Choice([16], Clock((64 << 10) / 200e6))
    for _ in range(30):
        choice.sent(100, 50e-6)
        choice.sent(MIB, 0.0)
    assert not any(choices(choice, sparse(MIB // 4, 4, 4), 3))
