"""Bodies that clients have compressed, which are stored as they were before.

    sys flag bit 0    compressed
    bits 8 to 10      0, 3 zlib; 1 LZ4 frames; 2 Zstandard

Source: RocketMQ `MessageSysFlag`, `CompressionType`. The Java client compresses from 4 KiB on.
"""

from typing import Final
from zlib import decompressobj
from zlib import error as ZlibError

from penstock.record.compression import LZ4, ZSTD, Bounds, decompress
from penstock.record.errors import BatchTooLarge
from penstock.remoting.errors import IllegalMessage

COMPRESSED: Final = 1
TYPE_BITS: Final = 0x700
_TYPE_SHIFT: Final = 8
_ZLIB: Final = frozenset((0, 3))
_CODECS: Final = {1: LZ4, 2: ZSTD}


def plain_body(body: bytes, sys_flag: int, bounds: Bounds) -> bytes:
    """Return a body as it was before it was compressed. Raises IllegalMessage, RecordError."""
    if not sys_flag & COMPRESSED:
        return body
    kind = (sys_flag & TYPE_BITS) >> _TYPE_SHIFT
    if kind in _ZLIB:
        return _inflate(body, bounds.limit(len(body)))
    codec = _CODECS.get(kind)
    if codec is None:
        raise IllegalMessage(f"compression of type {kind} is unknown")
    return bytes(decompress(codec, memoryview(body), bounds))


def plain_body_up_to(body: bytes, sys_flag: int, bytes_max: int) -> bytes | None:
    """Return a compressed body as it was; None if it may have more than `bytes_max`.

    Raises IllegalMessage, RecordError.
    """
    try:
        if (sys_flag & TYPE_BITS) >> _TYPE_SHIFT in _ZLIB:
            plain, is_whole = _inflated(body, bytes_max)
            return plain if is_whole else None
        return plain_body(body, sys_flag, Bounds(bytes_max, ratio_free_bytes=bytes_max))
    except BatchTooLarge:
        return None


def _inflate(body: bytes, limit: int) -> bytes:
    plain, is_whole = _inflated(body, limit)
    if not is_whole:
        raise IllegalMessage(f"a compressed body that is cut off, or exceeds {limit} bytes")
    return plain


def _inflated(body: bytes, limit: int) -> tuple[bytes, bool]:
    """Return what a body holds, up to a limit, and whether that is all of it."""
    inflating = decompressobj()
    try:
        plain = inflating.decompress(body, max(limit, 1))  # 0 would be no limit
    except ZlibError as error:
        raise IllegalMessage("a compressed body that is damaged") from error
    return plain, inflating.eof and len(plain) <= limit
