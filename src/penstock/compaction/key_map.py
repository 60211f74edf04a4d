"""The key map: for each key among dirty records the newest offset; and what it says of a batch.

    slot, 24 bytes   hash of the key 16, newest offset + 1 in 8 (0: the slot is free)

Open addressing: a key stands in the slot that its hash names, or in the next free one behind it,
around the end. Nine tenths of the slots are used at most, so that a search ends. 128 MiB take five
million keys of any length. The memory is zeroed by the system as it is used, and a map is for one
pass.

The hash has 128 bits and a secret that is new in each pass. Two keys with one hash would lose the
older one's last value: with 5 million keys that is once in 10^25 passes, and nobody who writes keys
can choose such two.

There are two twins, `_key_map.pyx` in C and `PythonKeyMap` here, which keep the same records. They
read records by the same rules as `record.read.iter_raw`. A table does not outlive its pass, so each
has the hash that is cheapest for it: SipHash-2-4 there (ADR 0210), the library's BLAKE2b here.

Source: Kafka `SkimpyOffsetMap` (24 bytes a key, MD5, load factor 0.9) and `Cleaner
.shouldRetainRecord`. It deliberately does not know transactions, and does not decompress.
"""

import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Protocol

from penstock.compaction.sifted import INT64_MAX, INT64_MIN, Sifted, Span
from penstock.record.batch import BatchHeader
from penstock.record.compression import room
from penstock.record.read import iter_raw
from penstock.record.varint import read_varint, write_varint

SLOT_BYTES = 24
HASH_BYTES = 16
SALT_BYTES = 16
_OFFSET_BYTES = 8
_FREE = bytes(_OFFSET_BYTES)
_FILLED_NUMERATOR, _FILLED_DENOMINATOR = 9, 10
_SLOTS_MIN = 2


class KeyMap(Protocol):
    """Interface of both twins; `PythonKeyMap` describes it."""

    count: int
    limit: int
    table: memoryview

    def put_block(self, header: BatchHeader, block: memoryview) -> bool: ...
    def sift(self, header: BatchHeader, block: memoryview, *, keeps_tombstones: bool) -> Sifted: ...


def slots_in(memory_bytes: int) -> int:
    """Return how many slots a map in so much memory has."""
    return max(memory_bytes // SLOT_BYTES, _SLOTS_MIN)


def keys_in(slots: int) -> int:
    """Return how many keys so many slots take."""
    return slots * _FILLED_NUMERATOR // _FILLED_DENOMINATOR


def slots_for(keys: int, memory_bytes: int) -> int:
    """Return how many slots a map for so many keys needs, within so much memory.

    Half of them stay free, so that a search is short, and a small map stays in the processor's
    cache: with 128 MiB for 260,000 keys a record takes more than twice as long.
    """
    return min(max(2 * keys, _SLOTS_MIN), slots_in(memory_bytes))


class PythonKeyMap:
    """The Python twin of `CompiledKeyMap`."""

    def __init__(self, slots: int, salt: bytes) -> None:
        """`salt` is 16 random bytes: the hash's secret."""
        assert slots >= _SLOTS_MIN
        assert len(salt) == SALT_BYTES
        self.count = 0
        self.limit = keys_in(slots)
        """Keys that it takes at most."""
        self.table = room(slots * SLOT_BYTES)
        self._slots = slots
        self._salt = salt

    def put_block(self, header: BatchHeader, block: memoryview) -> bool:
        """Note the keys of a batch, which comes behind all before it; False if it is full.

        It then has keys of a part of the batch. They do no harm: those records are there, and newer
        than all others of their keys. Raises CorruptBatch.
        """
        for raw in iter_raw(header, block):
            if raw.key is None:
                continue
            digest, at, is_free = self._find(block[slice(*raw.key)])
            if is_free:
                if self.count == self.limit:
                    return False
                self.count += 1
            offset = header.base_offset + raw.offset_delta
            self.table[at : at + SLOT_BYTES] = digest + _pack(offset + 1)
        return True

    def _find(self, key: memoryview) -> tuple[bytes, int, bool]:
        """Return the hash of a key, where its slot begins, and whether that is free."""
        digest = blake2b(key, digest_size=HASH_BYTES, salt=self._salt).digest()
        at = int.from_bytes(digest[:8], "little") % self._slots * SLOT_BYTES
        table = self.table
        while table[at + HASH_BYTES : at + SLOT_BYTES] != _FREE:
            if table[at : at + HASH_BYTES] == digest:
                return digest, at, False
            at = (at + SLOT_BYTES) % len(table)
        return digest, at, True

    def sift(self, header: BatchHeader, block: memoryview, *, keeps_tombstones: bool) -> Sifted:
        """Say which records stay: the newest of their key, and tombstones only on demand.

        Records without a key go. Raises CorruptBatch.
        """
        kept = tombstones = at = 0
        newest_delta = INT64_MIN
        spans: list[Span] = []
        for raw in iter_raw(header, block):
            start, at = at, raw.end
            if raw.key is None or (raw.value is None and not keeps_tombstones):
                continue
            if header.base_offset + raw.offset_delta < self._newest(block[slice(*raw.key)]):
                continue
            kept += 1
            tombstones += raw.value is None
            newest_delta = max(newest_delta, raw.timestamp_delta)
            if spans and spans[-1][1] == start:
                start = spans.pop()[0]
            spans.append((start, at))
        return Sifted(kept, tombstones, newest_delta, spans)

    def _newest(self, key: memoryview) -> int:
        """Return the newest offset of a key; -1 if it is not here."""
        _, at, _ = self._find(key)
        return int.from_bytes(self.table[at + HASH_BYTES : at + SLOT_BYTES], sys.byteorder) - 1


def _pack(number: int) -> bytes:
    return number.to_bytes(_OFFSET_BYTES, sys.byteorder)


def gather(block: memoryview, spans: Sequence[Span], earlier_ms: int) -> bytes | bytearray:
    """Return the records in `spans` as a block whose base timestamp is `earlier_ms` earlier.

    The Python twin of `_key_map.gather`. The block was sifted: its records are sound. A time that
    no delta can say is the nearest that one can.
    """
    if not earlier_ms:
        return b"".join(block[start:end] for start, end in spans)
    out = bytearray()
    for start, end in spans:
        at = start
        while at < end:
            at = _move(block, at, earlier_ms, out)
    return out


def _move(block: memoryview, at: int, earlier_ms: int, out: bytearray) -> int:
    """Append the record at `at` with a delta that is larger by `earlier_ms`; return its end."""
    length, body = read_varint(block, at, len(block))
    delta, rest = read_varint(block, body + 1, body + length)
    moved = bytearray(block[body : body + 1])
    write_varint(moved, max(INT64_MIN, min(INT64_MAX, delta + earlier_ms)))
    end = body + length
    write_varint(out, len(moved) + end - rest)
    out += moved
    out += block[rest:end]
    return end


_MakeKeyMap = Callable[[int, bytes], KeyMap]
_Gather = Callable[[memoryview, Sequence[Span], int], bytes | bytearray]
COMPILED_KEY_MAP: _MakeKeyMap | None
COMPILED_GATHER: _Gather | None
try:
    from penstock.compaction import _key_map
except ImportError:  # no C compiler at installation
    COMPILED_KEY_MAP = COMPILED_GATHER = None
else:
    COMPILED_KEY_MAP, COMPILED_GATHER = _key_map.CompiledKeyMap, _key_map.gather

new_key_map: _MakeKeyMap = COMPILED_KEY_MAP or PythonKeyMap
gather_records: _Gather = COMPILED_GATHER or gather
