"""The codec NONZERO_WORDS: the words of a chunk that aren't zero, and where they are.

Its format stands with `Codec` in operator_service.proto: the width of a word, a bit for each group of 32 words,
32 bits for each group that has a word that isn't zero, these words, and the bytes after the last word.
"""

from __future__ import annotations

from typing import Optional

import numpy as np

from ._wire import Buffer

_GROUP_WORDS = 32
_WORDS = {2: np.dtype("<u2"), 4: np.dtype("<u4")}
_MASK = np.dtype("<u4")


def encode(word_bytes: int, data: Buffer) -> bytes:
    """The encoded form of some bytes, however long it gets."""
    raw = np.frombuffer(data, np.uint8)
    count = len(raw) // word_bytes
    words = raw[: count * word_bytes].view(_WORDS[word_bytes])
    nonzero = words != 0
    groups = -(-count // _GROUP_WORDS)
    masks = np.zeros(groups, _MASK)
    bits = np.packbits(nonzero, bitorder="little")
    masks.view(np.uint8)[: len(bits)] = bits
    used = masks != 0
    return b"".join(
        (
            bytes((word_bytes,)),
            np.packbits(used, bitorder="little").tobytes(),
            masks[used].tobytes(),
            words[np.flatnonzero(nonzero)].tobytes(),
            raw[count * word_bytes :].tobytes(),
        )
    )


def decode(data: Buffer, out: np.ndarray) -> bool:
    """Decodes to exactly the bytes of `out`; False if the data aren't the encoded form of so many."""
    encoded = np.frombuffer(data, np.uint8)
    words = _WORDS.get(int(encoded[0])) if len(encoded) else None
    if words is None or not len(out):
        return False
    count = len(out) // words.itemsize
    groups = -(-count // _GROUP_WORDS)
    at = 1 + -(-groups // 8)
    used = _bits(encoded[1:at], groups)
    if used is None:
        return False
    used_groups = np.flatnonzero(used)
    masks = encoded[at : at + _MASK.itemsize * len(used_groups)]
    if len(masks) < _MASK.itemsize * len(used_groups):
        return False
    at += len(masks)
    # Positions within the used groups, then in the whole. Of booleans numpy finds them several times as quickly
    # as of numbers, and assigns to positions more quickly than to a mask.
    places = np.flatnonzero(np.unpackbits(masks, bitorder="little").view(bool))
    if len(used_groups) < groups:
        places = used_groups[places // _GROUP_WORDS] * _GROUP_WORDS + places % _GROUP_WORDS
    end = at + len(places) * words.itemsize
    tail = len(out) - count * words.itemsize
    if len(encoded) != end + tail or (len(places) and places[-1] >= count):
        return False
    out[...] = 0
    # Neither side need be aligned to words.
    whole = out[: count * words.itemsize].view(words)
    whole[places] = np.frombuffer(encoded[at:end].tobytes(), words)
    out[count * words.itemsize :] = encoded[end:]
    return True


def _bits(packed: np.ndarray, count: int) -> Optional[np.ndarray]:
    """`count` bits out of bytes, the lowest first; None if there are too few or one beyond them is set."""
    bits = np.unpackbits(packed, bitorder="little")
    return bits[:count] if len(bits) >= count and not bits[count:].any() else None
