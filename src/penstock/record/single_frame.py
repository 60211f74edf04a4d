"""Checks that compressed records are exactly one gzip member, one frame or one stream.

    gzip    header of ten bytes, deflate, checksum, size
    snappy  raw block, or xerial 1,1: blocks, none of which is empty
    lz4     magic, flags, [size], checksum, block ... 0, [checksum]
    zstd    magic, descriptor, [window], [size], block ... last block, [checksum]

The formats of the codecs allow several streams in a row, and libraries read them all. Clients do
not: librdkafka allocates for the first gzip member and never gets past the second, aborts if the
first is empty, and reads only one lz4 frame, as kafka-python does. So some consumers read such a
batch, and others never get past it. No producer writes one.

This applies to batches from producers. Stored batches are read less strictly (`compression.py`):
an earlier version, or a topic without checks of records, may have accepted them.

There are two twins, `_single_frame.pyx` in C and the functions here, since a frame may have as many
blocks as it has bytes. They only check lengths; the decoder checks the content.

Source: RFC 1952, lz4 frame format 1.6.4, RFC 8878 3.1.1, xerial `SnappyOutputStream`; Kafka
`Lz4BlockInputStream`, which treats any empty block as the end; `ZSTD_WINDOWLOG_LIMIT_DEFAULT`, the
limit of stream decoders.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from cramjam import DecompressionError, lz4

from penstock.record.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    XERIAL_HEADER_BYTES,
    XERIAL_MAGIC,
    ZSTD,
    Bounds,
    Lend,
    decompress,
    lend_new,
    lz4_guess,
    snappy_blocks,
    zstd_content_bytes,
)
from penstock.record.errors import BatchTooLarge, CorruptBatch

GZIP_FLAGS_AT = 3
GZIP_WINDOW_BITS = 31  # zlib's way to ask for gzip alone, with the largest window
XERIAL_HEADER = XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"
"""Version 1, compatible with 1; kafka-python reads anything else as a raw block."""

SNAPPY_LENGTH_BYTES_MAX = 5
LENGTH_GOES_ON = 0x80

LZ4_MAGIC = 0x184D2204
LZ4_HEADER_BYTES = 7
LZ4_END_BYTES = 4
LZ4_VERSION_MASK = 0xC0
LZ4_VERSION = 0x40
LZ4_BLOCKS_STAND_ALONE = 0x20
LZ4_BLOCK_CHECKSUMS = 0x10
LZ4_CONTENT_SIZE = 0x08
LZ4_CONTENT_CHECKSUM = 0x04
LZ4_DICTIONARY_OR_RESERVED = 0x03
LZ4_PLAIN_BLOCK = 0x80000000
LZ4_PACKED_BYTES_MIN = 2  # a compressed block of one byte is empty
LZ4_BLOCK_BYTES = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}

LZ4_PLAIN_HEADERS = {
    bytes.fromhex(f"04224d18 60 {kind:02x} {checksum:02x}"): LZ4_BLOCK_BYTES[kind]
    for kind, checksum in ((0x40, 0x82), (0x50, 0xFB), (0x60, 0x51), (0x70, 0x73))
}
"""Headers of frames without checksums and sizes, as librdkafka and Java write them, and how large
their blocks are. The last byte is the header's checksum."""

ZSTD_MAGIC = 0xFD2FB528
ZSTD_RESERVED = 0x08
ZSTD_CHECKSUM = 0x04
ZSTD_WINDOW_LOG_MAX = 27
ZSTD_WINDOW_LOG_MIN = 10
ZSTD_UNSTATED_BYTES_MAX = 33_333_333
"""Limit for a frame that does not declare its size. librdkafka guesses, triples its buffer if that
is too small, and gives up beyond 100 MB: it is certain to reach a third of that."""
ZSTD_REPEATED, ZSTD_NO_KIND = 1, 3  # kinds of blocks: one byte many times; reserved

_STEP_BYTES = 64 << 10
"""Compressed bytes given to zlib at a time: it copies the part that it has not used."""
_PIECE_BYTES = 256 << 10
_FLAGS_AT = 4


def decompress_single(
    codec: int, data: memoryview, bounds: Bounds, lend: Lend = lend_new
) -> memoryview:
    """Decompress what a producer sent, which must be a single stream, into memory from `lend`.

    Raises BatchTooLarge, CorruptBatch, UnsupportedCodec.
    """
    if codec == GZIP:
        return _gunzip(data, bounds.limit(len(data)), lend)
    if codec == SNAPPY:
        _check_snappy(data)
    elif codec == LZ4:
        _check_lz4(data)
        block = _unlz4(data, bounds.limit(len(data)), lend)
        if block is not None:
            return block
    elif codec == ZSTD:
        bounds = _check_zstd(data, bounds)
    return decompress(codec, data, bounds, lend)


def _gunzip(data: memoryview, limit: int, lend: Lend) -> memoryview:
    """Decompress one gzip member, whose last bytes declare its size, which zlib checks.

    A header with a file name or another optional field is refused: no producer writes one, and
    decoders differ in how long a field they accept. Our own readers accept 64 KiB.
    """
    if len(data) > GZIP_FLAGS_AT and data[GZIP_FLAGS_AT] != 0:
        raise CorruptBatch("compressed data: the gzip header has optional fields")
    member = zlib.decompressobj(GZIP_WINDOW_BITS)
    size = min(limit, int.from_bytes(data[-4:], "little"))
    out, filled, at = lend(size, size), 0, 0
    try:
        while at < len(data) and not member.eof:
            for piece in _inflated(member, data[at : at + _STEP_BYTES]):
                if filled + len(piece) > size:
                    raise _longer(size, limit)
                out[filled : filled + len(piece)] = piece
                filled += len(piece)
            at += _STEP_BYTES
    except zlib.error as error:
        raise CorruptBatch(f"compressed data: {error}") from None
    if not member.eof:
        raise CorruptBatch("compressed data: the gzip member does not end")
    if member.unused_data or at < len(data):
        raise CorruptBatch("compressed data: bytes follow the gzip member")
    return out


def _inflated(member: "zlib._Decompress", data: memoryview) -> Iterator[bytes]:
    """Yield decompressed pieces of `data`; zlib would join a large one under the GIL."""
    rest: bytes | memoryview = data
    piece = b""
    while not member.eof and (rest or len(piece) == _PIECE_BYTES):
        piece = member.decompress(rest, _PIECE_BYTES)
        yield piece
        rest = member.unconsumed_tail


def _longer(size: int, limit: int) -> BatchTooLarge | CorruptBatch:
    if size == limit:
        return BatchTooLarge(size, limit)
    return CorruptBatch("compressed data: the gzip member is longer than its end says")


def _check_snappy(data: memoryview) -> None:
    is_xerial = data[: len(XERIAL_MAGIC)] == XERIAL_MAGIC
    if is_xerial and data[:XERIAL_HEADER_BYTES] != XERIAL_HEADER:
        raise CorruptBatch("compressed data: snappy blocks of an unknown version")
    for block in snappy_blocks(data):
        _check_snappy_length(block)


def _check_snappy_length(block: memoryview) -> None:
    """Refuse a length of 0, and one padded with zeros, which librdkafka miscounts."""
    for at, byte in enumerate(block[:SNAPPY_LENGTH_BYTES_MAX]):
        if byte < LENGTH_GOES_ON:
            if byte == 0:
                reason = "is longer than it needs to be" if at else "is nothing"
                raise CorruptBatch(f"compressed data: the length of a snappy block {reason}")
            return
    raise CorruptBatch("compressed data: the length of a snappy block does not end")


def _check_lz4(data: memoryview) -> None:
    """Also refuse what Java's reader does not accept: no Java consumer would get past the batch.

    Source: Kafka `Lz4BlockInputStream`, "Dependent block stream is unsupported".
    """
    flags = data[_FLAGS_AT] if len(data) > _FLAGS_AT else LZ4_BLOCKS_STAND_ALONE
    if not flags & LZ4_BLOCKS_STAND_ALONE:
        raise CorruptBatch("its blocks depend on each other, which Kafka does not allow")
    if flags & LZ4_DICTIONARY_OR_RESERVED:
        raise CorruptBatch("it needs a dictionary, or reserved flags are set")
    if not is_one_lz4_frame(data):
        raise CorruptBatch("compressed data: not exactly one lz4 frame")


def _unlz4(data: memoryview, limit: int, lend: Lend) -> memoryview | None:
    """Decompress a frame block by block; None if it has checksums, small blocks or damage.

    The decoder of frames then does it, or says what is wrong. Its set-up takes three times as long
    as 16 KiB, which is what most producers send.
    """
    block_bytes = LZ4_PLAIN_HEADERS.get(bytes(data[:LZ4_HEADER_BYTES]))
    if block_bytes is None:
        return None
    out = lend(lz4_guess(data, limit), limit)
    at, filled = LZ4_HEADER_BYTES, 0
    for _ in range(2 + len(out) // block_bytes):
        length = _uint32(data, at)
        if not length:
            return out[:filled]
        at += LZ4_END_BYTES
        end = at + (length & ~LZ4_PLAIN_BLOCK)
        try:
            filled += _unpack_block(data[at:end], length, out[filled : filled + block_bytes])
        except (DecompressionError, ValueError):
            return None
        at = end
    return None


def _unpack_block(block: memoryview, length: int, out: memoryview) -> int:
    if not length & LZ4_PLAIN_BLOCK:
        return lz4.decompress_block_into(block, out)
    out[: len(block)] = block
    return len(block)


def _check_zstd(data: memoryview, bounds: Bounds) -> Bounds:
    """Return the bounds for the frame, which are lower if it does not declare its size."""
    if not is_one_zstd_frame(data):
        raise CorruptBatch("compressed data: not exactly one zstd frame")
    if zstd_content_bytes(data) is not None:
        return bounds
    most = min(bounds.output_bytes_max, ZSTD_UNSTATED_BYTES_MAX)
    return bounds._replace(output_bytes_max=most)


def find_lz4_frame(data: memoryview) -> bool:
    """Whether `data` is one lz4 frame of independent blocks, none of them empty."""
    size = len(data)
    if size < LZ4_HEADER_BYTES or _uint32(data, 0) != LZ4_MAGIC:
        return False
    flags, block_bytes_max = data[_FLAGS_AT], LZ4_BLOCK_BYTES.get(data[_FLAGS_AT + 1], 0)
    wanted = flags & (LZ4_VERSION_MASK | LZ4_BLOCKS_STAND_ALONE | LZ4_DICTIONARY_OR_RESERVED)
    if wanted != LZ4_VERSION | LZ4_BLOCKS_STAND_ALONE or block_bytes_max == 0:
        return False
    checksum_bytes = 4 if flags & LZ4_BLOCK_CHECKSUMS else 0
    at = LZ4_HEADER_BYTES + (8 if flags & LZ4_CONTENT_SIZE else 0)
    while at + LZ4_END_BYTES <= size:
        block = _uint32(data, at)
        at += LZ4_END_BYTES
        if block == 0:
            return at + (4 if flags & LZ4_CONTENT_CHECKSUM else 0) == size
        length = block & ~LZ4_PLAIN_BLOCK
        least = 1 if block & LZ4_PLAIN_BLOCK else LZ4_PACKED_BYTES_MIN
        if not least <= length <= block_bytes_max:
            return False
        at += length + checksum_bytes
    return False


def find_zstd_frame(data: memoryview) -> bool:
    """Whether `data` is one zstd frame, with a window that every decoder supports."""
    size = len(data)
    if size < _FLAGS_AT + 2 or _uint32(data, 0) != ZSTD_MAGIC:
        return False
    descriptor = data[_FLAGS_AT]
    is_whole = descriptor >> 5 & 1
    if descriptor & ZSTD_RESERVED:
        return False
    if not is_whole and data[_FLAGS_AT + 1] >> 3 > ZSTD_WINDOW_LOG_MAX - ZSTD_WINDOW_LOG_MIN:
        return False
    at = _FLAGS_AT + 1 + (1 - is_whole) + (0, 1, 2, 4)[descriptor & 3]
    at += (is_whole, 2, 4, 8)[descriptor >> 6]
    is_last = False
    while not is_last:
        if at + 3 > size:
            return False
        block = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        is_last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == ZSTD_NO_KIND:
            return False
        at += 3 + (1 if kind == ZSTD_REPEATED else length)
    return at + (4 if descriptor & ZSTD_CHECKSUM else 0) == size


def _uint32(data: memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


_Twin: TypeAlias = Callable[[memoryview], bool]
COMPILED: tuple[_Twin, _Twin] | None
try:
    from penstock.record import _single_frame
except ImportError:  # no C compiler at installation
    COMPILED = None
else:
    COMPILED = _single_frame.find_lz4_frame, _single_frame.find_zstd_frame

is_one_lz4_frame, is_one_zstd_frame = COMPILED or (find_lz4_frame, find_zstd_frame)
