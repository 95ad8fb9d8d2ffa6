"""The codec NONZERO_WORDS as the contract says it, word by word: slow, and written apart from both sides of the wire."""


def _words(data, word_bytes):
    return [data[at:at + word_bytes] for at in range(0, len(data) - word_bytes + 1, word_bytes)]


def encode(data, word_bytes):
    """The encoded form of some bytes."""
    words, zero = _words(bytes(data), word_bytes), bytes(word_bytes)
    groups = [words[at:at + 32] for at in range(0, len(words), 32)]
    masks = [int("".join("01"[word != zero] for word in reversed(group)), 2) for group in groups]
    used = sum((mask != 0) << bit for bit, mask in enumerate(masks))
    return b"".join(
        [bytes([word_bytes]), used.to_bytes((len(groups) + 7) // 8, "little")]
        + [mask.to_bytes(4, "little") for mask in masks if mask]
        + [word for word in words if word != zero]
        + [bytes(data[len(words) * word_bytes:])])


def decode(data, raw_bytes):
    """What some bytes decode to; ValueError if they aren't an encoded form of so many."""
    data, word_bytes = bytes(data), data[0]
    count = raw_bytes // word_bytes
    groups = (count + 31) // 32
    at = 1 + (groups + 7) // 8
    used = int.from_bytes(data[1:at], "little")
    out = bytearray(raw_bytes)
    masks = {}
    for group in range(groups):
        if used >> group & 1:
            masks[group] = int.from_bytes(data[at:at + 4], "little")
            at += 4
    for group, mask in masks.items():
        for bit in range(32):
            if mask >> bit & 1:
                place = (group * 32 + bit) * word_bytes
                out[place:place + word_bytes] = data[at:at + word_bytes]
                at += word_bytes
    tail = raw_bytes - count * word_bytes
    if len(out) != raw_bytes or len(data) != at + tail or used >> groups:
        raise ValueError(f"{len(data)} bytes don't decode to {raw_bytes}")
    out[raw_bytes - tail:] = data[at:]
    return bytes(out)
