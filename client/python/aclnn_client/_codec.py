"""LZ4 blocks, if the lz4 package is there. Without it only plain data is offered and sent."""

from __future__ import annotations

from typing import List, Optional, Union

from . import _messages as messages
from ._errors import reply_error

try:
    import lz4.block as _lz4
except ImportError:
    _lz4 = None

NONE = messages.CODEC["NONE"]
LZ4_BLOCK = messages.CODEC["LZ4_BLOCK"]

# A chunk is sent compressed only if this much of it shows that it shrinks by the ratio below: only then does
# compressing cost less than the bytes that it saves, even where the network is the machine's own memory.
_PROBE_BYTES = 64 << 10
_PROBE_RATIO = 8


def accepted() -> List[int]:
    """The codecs that replies may use."""
    return [] if _lz4 is None else [LZ4_BLOCK]


def compress(data: memoryview, allowed: bool) -> Optional[bytes]:
    """The LZ4 block of a chunk, or None if it is to be sent plain."""
    if not allowed or _lz4 is None or len(data) < _PROBE_BYTES:
        return None
    probe = _lz4.compress(data[:_PROBE_BYTES], store_size=False)
    if len(probe) * _PROBE_RATIO > _PROBE_BYTES:
        return None
    block = _lz4.compress(data, store_size=False)
    return block if len(block) < len(data) else None


def decompress(codec: int, data: memoryview, raw_bytes: int) -> Union[bytes, memoryview]:
    """What a chunk of a reply holds; raises AclnnError if it doesn't decode to raw_bytes."""
    if codec == NONE:
        if raw_bytes not in (0, len(data)):
            raise reply_error(f"a plain chunk of {len(data)} bytes says that it holds {raw_bytes}")
        return data
    if codec not in accepted():
        raise reply_error(f"codec {codec} was not offered")
    try:
        raw = _lz4.decompress(data, uncompressed_size=raw_bytes)
    except Exception as error:  # lz4 names no common base of what it raises
        raise reply_error(f"an LZ4 block doesn't decode: {error}") from error
    if len(raw) != raw_bytes:
        raise reply_error(f"an LZ4 block holds {len(raw)} bytes instead of {raw_bytes}")
    return raw
