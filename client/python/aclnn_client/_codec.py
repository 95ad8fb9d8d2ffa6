"""How chunks are encoded, and when.

NONZERO_WORDS always, LZ4 blocks if the lz4 package is there. A sender measures what encoding costs and what the
connection takes, and sends each tensor the quicker way; the C side does the same (proto/wire/codec_choice.h).
"""

from __future__ import annotations

import time
from typing import Callable, Iterable, List, Optional, Tuple, Union

import numpy as np

from . import _messages as messages
from . import _nonzero as nonzero
from ._errors import reply_error

try:
    import lz4.block as _lz4
except ImportError:
    _lz4 = None

NONE = messages.CODEC["NONE"]
LZ4_BLOCK = messages.CODEC["LZ4_BLOCK"]
NONZERO_WORDS = messages.CODEC["NONZERO_WORDS"]

# Codec and bytes of a word; from the quickest.
_Way = Tuple[int, int]
_WAYS: Tuple[_Way, ...] = ((NONZERO_WORDS, 4), (NONZERO_WORDS, 2), (LZ4_BLOCK, 0))

# Smaller chunks go plain: there is little to gain.
_BYTES_MIN = 16 << 10
# What is tried of a chunk, from its middle.
_SAMPLE_BYTES = 64 << 10
# Chunks between two looks.
_CHUNKS = 16
# An encoded chunk has to take this part of a plain one's time at the most: the receiver has to decode it.
_GAIN = 0.9
# Bytes a second that a connection is thought to take before it was measured.
_LINK = 2e9
# Messages that say something of the connection: large ones, and those that take long.
_TELLING_BYTES = 256 << 10
_TELLING_SECONDS = 1e-3


def accepted() -> List[int]:
    """The codecs that replies may use."""
    return [NONZERO_WORDS] if _lz4 is None else [LZ4_BLOCK, NONZERO_WORDS]


def encode(codec: int, word_bytes: int, data: memoryview) -> bytes:
    """The encoded form of some bytes, however long it gets."""
    if codec == NONZERO_WORDS:
        return nonzero.encode(word_bytes, data)
    block: bytes = _lz4.compress(data, store_size=False)
    return block


class Choice:
    """What the sender of a job does with its chunks.

    Encoding and sending happen in turns, so that the time for a byte is 1/encoding + ratio/link against 1/link.

    Args:
      receiver: the codecs that the receiver takes.
      clock: seconds from any point.
    """

    def __init__(self, receiver: Iterable[int], clock: Callable[[], float] = time.perf_counter) -> None:
        usable = set(receiver) & set(accepted())
        self._ways = [way for way in _WAYS if way[0] in usable]
        self._clock = clock
        self._link = _LINK
        self._way: Optional[_Way] = None
        self._chunks_left = 0

    def next_tensor(self) -> None:
        """Another tensor's chunks come now."""
        self._chunks_left = 0

    def sent(self, size: int, seconds: float) -> None:
        """The connection took a message of so many bytes in that time."""
        if seconds > 0 and (size >= _TELLING_BYTES or seconds >= _TELLING_SECONDS):
            self._link += (size / seconds - self._link) / 2

    def _look(self, data: memoryview) -> None:
        begin = max(0, (len(data) - _SAMPLE_BYTES) // 2)
        sample = data[begin : begin + _SAMPLE_BYTES]
        best = _GAIN / self._link
        self._way = None
        self._chunks_left = _CHUNKS
        for way in self._ways:
            start = self._clock()
            size = len(encode(*way, sample))
            cost = (self._clock() - start + size / self._link) / len(sample)
            if cost < best:
                best, self._way = cost, way

    def encode(self, data: memoryview) -> Optional[Tuple[int, bytes]]:
        """The chunk's codec and encoded form, or None if it is to be sent plain."""
        if not self._ways or len(data) < _BYTES_MIN:
            return None
        if not self._chunks_left:
            self._look(data)
        self._chunks_left -= 1
        if self._way is None:
            return None
        encoded = encode(*self._way, data)
        if len(encoded) >= len(data):
            self._chunks_left = 0  # these data aren't like the sample
            return None
        return self._way[0], encoded


def decode(codec: int, data: memoryview, raw_bytes: int, out: np.ndarray) -> None:
    """Fills `out`, as long as the chunk says; raises AclnnError if the data don't decode to that."""
    if codec == NONE:
        if raw_bytes not in (0, len(data)):
            raise reply_error(f"a plain chunk of {len(data)} bytes says that it holds {raw_bytes}")
        out[...] = np.frombuffer(data, np.uint8)
    elif codec not in accepted():
        raise reply_error(f"codec {codec} was not offered")
    elif codec == NONZERO_WORDS:
        if not nonzero.decode(data, out):
            raise reply_error(f"{len(data)} bytes of non-zero words don't decode to {raw_bytes}")
    else:
        out[...] = np.frombuffer(_decompress(data, raw_bytes), np.uint8)


def _decompress(data: memoryview, raw_bytes: int) -> Union[bytes, bytearray]:
    """What an LZ4 block holds."""
    try:
        raw: bytes = _lz4.decompress(data, uncompressed_size=raw_bytes)
    except Exception as error:  # lz4 names no common base of what it raises
        raise reply_error(f"an LZ4 block doesn't decode: {error}") from error
    if len(raw) != raw_bytes:
        raise reply_error(f"an LZ4 block holds {len(raw)} bytes instead of {raw_bytes}")
    return raw
