"""Compression of the records block, and decompression with a bound on memory.

    codec  name    bytes on the wire
    1      gzip    gzip members (RFC 1952)
    2      snappy  raw snappy (librdkafka) or xerial blocks: magic, then int32 length + raw snappy
    3      lz4     frame format, blocks independent
    4      zstd    frames (RFC 8878)

The idea of the bound: output goes into a buffer of ours that never grows past the limit. If the
codec declares the size, that is used; otherwise the size is guessed, and the buffer grows fourfold
up to the limit, so that all attempts together cost little more than the last one. The limit is the
smaller of a number of bytes and a ratio to the input; the ratio counts only above
`ratio_free_bytes`, since a small batch of equal records is no decompression bomb. Memory is new for
each block, or what the caller lends: the system need not prepare it then.

Source: KIP-110 (zstd), xerial `SnappyOutputStream` (framing), Kafka `Lz4BlockInputStream` (refuses
linked blocks, so we write independent ones), CVE-2023-34455 (declared snappy length).

It deliberately does not read lz4 with the broken header checksum of magic 0 and 1.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct
from typing import NamedTuple

import cramjam
from cramjam import DecompressionError

from penstock.record.errors import BatchTooLarge, CorruptBatch, UnsupportedCodec

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""As in Kafka's `compression.type`; the index is the number on the wire."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER_BYTES = 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_FIRST_GUESS_FACTOR = 4
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = -1, 9, 3
"""Kafka's defaults. 9 is the fast one of lz4, as there; gzip's -1 is the library's own, 6."""
_LZ4_FAST, _LZ4_HIGH_MIN, _LZ4_HIGH_MAX = 1, 3, 12
_GZIP_USUAL = 6
_LZ4_HEADER_BYTES = 7
_SNAPPY_BLOCK_BYTES_MIN = 8 << 10
_LZ4_BLOCK_BYTES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_UINT32_LE = Struct("<I")
_INT32 = Struct(">i")
_INTO = Callable[[memoryview, memoryview], int]
Lend = Callable[[int, int], memoryview]
"""`lend(least, most)` returns memory for so many bytes, which may be used again after the block."""

MAPPED_BYTES_MIN = 1 << 20
"""From this size on, memory is mapped from the system instead of allocated; see `room`."""


class Bounds(NamedTuple):
    """Limits for one decompressed batch: in bytes, and as a ratio to its input."""

    output_bytes_max: int
    ratio_max: int = 200
    ratio_free_bytes: int = 1 << 20

    def limit(self, input_bytes: int) -> int:
        """Return the limit of the output for this input, in bytes."""
        by_ratio = max(self.ratio_free_bytes, input_bytes * self.ratio_max)
        return min(self.output_bytes_max, by_ratio)


BROKER_BOUNDS = Bounds(output_bytes_max=4 << 20)
"""Kafka's max.message.bytes default (1 MiB) times 4. Brokers take the topic's value times 4."""

READER_BOUNDS = Bounds(output_bytes_max=64 << 20, ratio_max=1 << 31)
"""Readers must read what a broker accepted as opaque bytes: a cap on memory only, no ratio."""


def compress(codec: int, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress a records block; `level` as Kafka counts them, None for its default.

    Raises UnsupportedCodec.
    """
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return bytes(cramjam.gzip.compress(data, _gzip_level(level)))
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == LZ4:
        lz4 = cramjam.lz4.Compressor(level=_lz4_level(level), block_linked=False)
        lz4.compress(bytes(data))
        return bytes(lz4.finish())
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, ZSTD_LEVEL if level is None else level))
    raise UnsupportedCodec(codec)


def _gzip_level(level: int | None) -> int:
    return _GZIP_USUAL if level is None or level == GZIP_LEVEL else level


def _lz4_level(level: int | None) -> int:
    """Kafka's 9 is the fast compressor, all others are the high one, which has levels 3 to 12."""
    if level is None or level == LZ4_LEVEL:
        return _LZ4_FAST
    return max(_LZ4_HIGH_MIN, min(level, _LZ4_HIGH_MAX))


def lend_new(least: int, most: int) -> memoryview:
    """Lend new memory of `least` bytes, which belongs to whoever gets it."""
    del most
    return room(least)


def decompress(codec: int, data: memoryview, bounds: Bounds, lend: Lend = lend_new) -> memoryview:
    """Decompress a records block into memory from `lend`; without a codec `data` is returned.

    Never takes more memory than about twice `bounds.limit(len(data))`, whatever the data are.
    Raises BatchTooLarge, CorruptBatch, UnsupportedCodec.
    """
    if codec == NONE:
        return data
    limit = bounds.limit(len(data))
    if codec == GZIP:
        return _grow(cramjam.gzip.decompress_into, data, _gunzip_guess(data, limit), limit, lend)
    if codec == SNAPPY:
        return _unsnappy(data, limit, lend)
    if codec == LZ4:
        return _grow(cramjam.lz4.decompress_into, data, lz4_guess(data, limit), limit, lend)
    if codec == ZSTD:
        return _unzstd(data, limit, lend)
    raise UnsupportedCodec(codec)


def _first_guess(data: memoryview, limit: int) -> int:
    return min(limit, max(4096, len(data) * _FIRST_GUESS_FACTOR))


def _grow(into: _INTO, data: memoryview, size: int, limit: int, lend: Lend) -> memoryview:
    """Decompress into a buffer of `size` bytes, and into larger ones up to `limit` if it is full.

    The codecs distinguish a full buffer from damage only by the text of the error ("failed to write
    whole buffer"). If that text changed, a lack of room would be reported as damage, nothing worse.
    """
    while True:
        out = lend(size, limit)
        size = len(out)
        try:
            return out[: into(data, out)]
        except (DecompressionError, OSError) as error:
            out.release()  # a kept error would keep this frame, and with it the buffer
            if "write" not in str(error):
                raise CorruptBatch(f"compressed data: {error}") from error
            if size >= limit:
                raise BatchTooLarge(size, limit) from error
        size = min(limit, max(4096, size * 4))


def room(size: int) -> memoryview:
    """Return memory to decompress into.

    Mapped memory is zeroed by the system as a codec writes to it, without the interpreter's lock. A
    bytearray is zeroed under that lock: 64 MiB block every other thread for 30 ms.
    """
    if size < MAPPED_BYTES_MIN:
        return memoryview(bytearray(size))
    return memoryview(mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS))


def _gunzip_guess(data: memoryview, limit: int) -> int:
    """Return the size in the last four bytes of a gzip member (modulo 2^32); only a guess."""
    return min(limit, int.from_bytes(data[-4:], "little"))


def lz4_guess(data: memoryview, limit: int) -> int:
    """Guess by the number of blocks: all but the last are as large as the header allows.

    If that is far more than usual (a short frame of large blocks), guess as for other codecs. The
    decoder reports damage. Source: lz4 frame format 1.6.4, frame descriptor.
    """
    usual = _first_guess(data, limit)
    count, block_bytes = _count_lz4_blocks(data, limit)
    bound = min(limit, count * block_bytes)
    return bound if 0 < bound <= max(1 << 20, 4 * usual) else usual


def least_unpacked(codec: int, data: memoryview, limit: int) -> int:
    """Return what a block decompresses to at least, as far as it is told without decoding.

    At most `limit`, which is also the answer for more blocks than clients make of so much: each of
    them costs the interpreter some time.
    """
    if codec == GZIP:
        return _gunzip_guess(data, limit)
    if codec == SNAPPY:
        return limit if _has_many_snappy_blocks(data, limit) else 0
    if codec == LZ4:
        count, block_bytes = _count_lz4_blocks(data, limit)
        return min(limit, max(count - 1, 0) * block_bytes)
    return 0


def _count_lz4_blocks(data: memoryview, limit: int) -> tuple[int, int]:
    """Count the blocks of a frame, at most one more than `limit` bytes take; return their size."""
    if len(data) < _LZ4_HEADER_BYTES:
        return 0, 0
    flags, block_bytes = data[4], _LZ4_BLOCK_BYTES.get(data[5] >> 4 & 7, 0)
    at = _LZ4_HEADER_BYTES + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    checksum_bytes = 4 if flags & 0x10 else 0
    count = 0
    while at + _UINT32_LE.size <= len(data) and (count - 1) * block_bytes < limit:
        (size,) = _UINT32_LE.unpack_from(data, at)
        if size == 0 or not block_bytes:
            break
        count += 1
        at += _UINT32_LE.size + (size & 0x7FFFFFFF) + checksum_bytes
    return count, block_bytes


def _has_many_snappy_blocks(data: memoryview, limit: int) -> bool:
    """Whether xerial's blocks are smaller than 8 KiB on average; Java makes them of 32 KiB."""
    most = 1 + limit // _SNAPPY_BLOCK_BYTES_MIN
    try:
        return sum(1 for _ in islice(snappy_blocks(data), most + 1)) > most
    except CorruptBatch:
        return False


def _unsnappy(data: memoryview, limit: int, lend: Lend) -> memoryview:
    """Decompress snappy; the declared lengths are checked before anything is allocated."""
    size = _unsnapped_bytes(data, limit)
    out, at = lend(size, size), 0
    try:
        for block in snappy_blocks(data):
            at += cramjam.snappy.decompress_raw_into(block, out[at:])
    except (DecompressionError, OSError) as error:
        out.release()  # a kept error would keep this frame, and with it the buffer
        raise CorruptBatch(f"compressed data: {error}") from error
    if at != len(out):
        raise CorruptBatch(f"compressed data: {at} bytes where {len(out)} were declared")
    return out


def snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """Yield the raw blocks that `data` is made of. Raises CorruptBatch."""
    if data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield data
        return
    at = XERIAL_HEADER_BYTES
    while at < len(data):
        if len(data) - at < _INT32.size:
            raise CorruptBatch("compressed data: snappy block is cut off")
        (length,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if length < 1 or length > len(data) - at:
            raise CorruptBatch(f"compressed data: snappy block of {length} bytes")
        yield data[at : at + length]
        at += length


def _unsnapped_bytes(data: memoryview, limit: int) -> int:
    total = 0
    try:
        for block in snappy_blocks(data):
            total += cramjam.snappy.decompress_raw_len(block)
    except (DecompressionError, OSError) as error:
        raise CorruptBatch(f"compressed data: {error}") from error
    if total > limit:
        raise BatchTooLarge(total, limit)
    return total


def _unzstd(data: memoryview, limit: int, lend: Lend) -> memoryview:
    declared = zstd_content_bytes(data)
    if declared is not None and declared > limit:
        raise BatchTooLarge(declared, limit)
    size = _first_guess(data, limit) if declared is None else declared
    return _grow(cramjam.zstd.decompress_into, data, size, limit, lend)


def zstd_content_bytes(data: memoryview) -> int | None:
    """Return the size that the first frame declares, or None. Source: RFC 8878, 3.1.1.1."""
    if data[:4] != ZSTD_MAGIC or len(data) < 5:
        raise CorruptBatch("compressed data: not a zstd frame")
    descriptor = data[4]
    size_flag, single_segment = descriptor >> 6, descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[size_flag]
    at = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if width == 0:
        return None
    if len(data) < at + width:
        raise CorruptBatch("compressed data: zstd frame is cut off")
    size = int.from_bytes(data[at : at + width], "little")
    return size + 256 if width == 2 else size
