"""Batches of a few kilobytes that become a gibibyte, one for each codec.

gzip 1 MB, zstd 33 KB, lz4 4.4 MB, snappy 16 bytes that claim it and 1 MB that become 23: no snappy
frame of a gibibyte is small enough to be sent.
"""

import zlib
from functools import cache

import cramjam

from penstock.protocol.varint import uvarint
from penstock.record.batch import BATCH_HEADER_BYTES, LOG_OVERHEAD, seal
from penstock.record.build import BatchFields, assemble
from penstock.record.compression import GZIP, LZ4, SNAPPY, ZSTD

BOMB_BYTES = 1 << 30
_PIECE = bytes(1 << 20)
_ZSTD_BLOCK_BYTES = 128 << 10
_HONEST_SNAPPY_BYTES = 22 << 20


def bombs() -> dict[str, tuple[int, bytes]]:
    """Return the codec and the sealed batch of each, by name."""
    return {
        "gzip": (GZIP, _batch(GZIP, _gzip())),
        "lz4": (LZ4, _batch(LZ4, _lz4())),
        "zstd": (ZSTD, _batch(ZSTD, _zstd())),
        "snappy claim": (SNAPPY, _batch(SNAPPY, uvarint(BOMB_BYTES) + b"\x00a" * 8)),
        "snappy": (SNAPPY, _batch(SNAPPY, bytes(_snappy()))),
    }


def _batch(codec: int, payload: bytes) -> bytes:
    """Put a compressed block that claims a million records into a batch."""
    fields = BatchFields(0, 0, 0, 999_999, 0, 0, -1, -1, -1, 1_000_000)
    batch = bytearray(assemble(fields, b"")[:BATCH_HEADER_BYTES] + payload)
    batch[8:LOG_OVERHEAD] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
    batch[21:23] = codec.to_bytes(2, "big")
    seal(memoryview(batch), 0, len(batch))
    return bytes(batch)


@cache
def _gzip() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = [packer.compress(_PIECE) for _ in range(BOMB_BYTES // len(_PIECE))]
    return b"".join((*packed, packer.flush()))


@cache
def _lz4() -> bytes:
    packer = cramjam.lz4.Compressor(level=1, block_linked=False)
    packed = []
    for _ in range(BOMB_BYTES // len(_PIECE)):
        packer.compress(_PIECE)
        packed.append(bytes(packer.flush()))
    return b"".join((*packed, bytes(packer.finish())))


@cache
def _zstd() -> bytes:
    """A frame without a content size, of blocks that repeat one byte. Source: RFC 8878, 3.1.1.2."""
    count = BOMB_BYTES // _ZSTD_BLOCK_BYTES
    head = b"\x28\xb5\x2f\xfd" + bytes((0x00, 0x58))
    blocks = [
        ((_ZSTD_BLOCK_BYTES << 3) | (1 << 1) | (at == count - 1)).to_bytes(3, "little") + b"\0"
        for at in range(count)
    ]
    return head + b"".join(blocks)


@cache
def _snappy() -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(_HONEST_SNAPPY_BYTES)))
