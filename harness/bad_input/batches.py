"""Record batches that are wrong in one way each."""

import random
from struct import pack_into

from harness.bad_input.grammar import valid_batch
from penstock.record.batch import seal
from penstock.record.build import BatchFields, assemble

# positions in a batch, magic 2
_BATCH_LENGTH_AT = 8
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_LAST_OFFSET_DELTA_AT = 23
_PRODUCER_ID_AT = 43
_RECORD_COUNT_AT = 57
_WRONG_INTS = (-(2**31), -2, -1, 0, 2, 2**15 - 1, 2**31 - 1)

BOMB_BYTES = 64 << 20
_bombs: dict[int, bytes] = {}


def wrong_batch(rng: random.Random) -> tuple[str, bytes]:
    """Return the name of the mistake and the batch."""
    batch = bytearray(valid_batch(rng, rng.choice((0, 0, 1, 2, 3, 4))))
    name = rng.choice(sorted(_MISTAKES))
    _MISTAKES[name](batch, rng)
    return name, bytes(batch)


def _sealed_int32(batch: bytearray, at: int, rng: random.Random) -> None:
    pack_into(">i", batch, at, rng.choice(_WRONG_INTS))
    seal(memoryview(batch), 0, len(batch))


def _wrong_length(batch: bytearray, rng: random.Random) -> None:
    pack_into(">i", batch, _BATCH_LENGTH_AT, rng.choice((*_WRONG_INTS, len(batch))))


def _wrong_magic(batch: bytearray, rng: random.Random) -> None:
    batch[_MAGIC_AT] = rng.choice((0, 1, 3, 255))


def _wrong_crc(batch: bytearray, rng: random.Random) -> None:
    batch[_CRC_AT + rng.randrange(4)] ^= 1 << rng.randrange(8)


def _wrong_attributes(batch: bytearray, rng: random.Random) -> None:
    pack_into(">h", batch, _ATTRIBUTES_AT, rng.choice((5, 7, 0x10, 0x20, 0x30, -1)))
    seal(memoryview(batch), 0, len(batch))


def _wrong_count(batch: bytearray, rng: random.Random) -> None:
    _sealed_int32(batch, _RECORD_COUNT_AT, rng)


def _wrong_delta(batch: bytearray, rng: random.Random) -> None:
    _sealed_int32(batch, _LAST_OFFSET_DELTA_AT, rng)


def _wrong_producer(batch: bytearray, rng: random.Random) -> None:
    pack_into(">qhi", batch, _PRODUCER_ID_AT, rng.choice((-2, 0, 2**63 - 1)), -7, -9)
    seal(memoryview(batch), 0, len(batch))


def _wrong_payload(batch: bytearray, rng: random.Random) -> None:
    for _ in range(3):
        batch[rng.randrange(61, len(batch))] = rng.randrange(256)
    seal(memoryview(batch), 0, len(batch))


def _cut(batch: bytearray, rng: random.Random) -> None:
    del batch[rng.randrange(len(batch)) :]


def _two_batches(batch: bytearray, rng: random.Random) -> None:
    batch += valid_batch(rng)


def _bomb(batch: bytearray, rng: random.Random) -> None:
    batch[:] = bomb(rng.choice((1, 2, 3, 4)))


_MISTAKES = {
    "batch length": _wrong_length,
    "batch magic": _wrong_magic,
    "batch crc": _wrong_crc,
    "batch attributes": _wrong_attributes,
    "batch count": _wrong_count,
    "batch last offset": _wrong_delta,
    "batch producer": _wrong_producer,
    "batch payload": _wrong_payload,
    "batch cut": _cut,
    "two batches": _two_batches,
    "bomb": _bomb,
}


def bomb(codec: int) -> bytes:
    """A small, sealed batch whose payload decompresses to `BOMB_BYTES` of zeros."""
    if codec not in _bombs:
        fields = BatchFields(codec, codec, 0, 999_999, 0, 0, -1, -1, -1, 1_000_000)
        _bombs[codec] = assemble(fields, bytes(BOMB_BYTES))
    return _bombs[codec]
