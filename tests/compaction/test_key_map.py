"""Both twins of the key map: against a dict, against each other, full, and on damage."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.compaction import key_map
from penstock.compaction.key_map import (
    SLOT_BYTES,
    gather,
    keys_in,
    new_key_map,
    slots_for,
    slots_in,
)
from penstock.compaction.sifted import INT64_MAX, INT64_MIN
from penstock.record.batch import BatchHeader, read_header
from penstock.record.build import Record, build_batch
from penstock.record.compression import READER_BOUNDS
from penstock.record.errors import CorruptBatch
from penstock.record.read import iter_batches, iter_raw, open_batch, part
from tests.compaction.cleaner import MAPS, SALT
from tests.record.batches import batch, record
from tests.record.strategies import batches, runs

GATHERS = [gather] + ([key_map.COMPILED_GATHER] if key_map.COMPILED_GATHER else [])
NAMES = ["Python", "compiled"][: len(GATHERS)]
TABLES = pytest.mark.skipif(len(MAPS) < 2, reason="the compiled twin was not built")


def opened(records: list[Record], base_offset: int = 0) -> tuple[BatchHeader, memoryview]:
    data = memoryview(build_batch(records, base_offset=base_offset))
    return read_header(data), data[61:]


def keyed(*keys: bytes | None) -> list[Record]:
    return [Record(key, b"value") for key in keys]


def test_what_is_used_is_the_compiled_twin_where_it_was_built() -> None:
    assert new_key_map is MAPS[-1]


def test_128_mib_take_five_million_keys() -> None:
    assert keys_in(slots_in(128 << 20)) >= 5_000_000


SIPHASHES = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    7: "a1f1ebbed8dbc153c0b84aa61ff08239",
    8: "3b62a9ba6258f5610f83e264f31497b4",
    9: "264499060ad9baabc47f8b02bb6d71ed",
    15: "5493e99933b0a8117e08ec0f97cfc3d9",
    16: "6ee2a4ca67b054bbfd3315bf85230577",
    63: "5150d1772f50834a503e069a973fbd7c",
    255: "1c9bb67528165f8e468248e3799b0eab",
    257: "1b25fee1ef6fbb23179c26056c2995fc",
}
"""By length of the key 0, 1, 2, … under the secret 0 … 15, as OpenSSL's `mac SIPHASH` has them."""


@pytest.mark.parametrize("make", MAPS)
@given(chosen=st.lists(batches, max_size=6))
def test_the_newest_record_of_each_key_stays_and_no_other(make, chosen: list[list[Record]]) -> None:
    mapped = make(200, SALT)
    base = 0
    newest: dict[bytes | None, int] = {}
    parts = []
    for records in chosen:
        header, block = opened(records, base)
        assert mapped.put_block(header, block)
        newest |= {one.key: base + at for at, one in enumerate(records) if one.key is not None}
        parts.append((header, block, records))
        base += len(records)
    assert mapped.count == len(newest)
    for header, block, records in parts:
        sifted = mapped.sift(header, block, keeps_tombstones=True)
        kept = [
            one for at, one in enumerate(records) if newest.get(one.key) == header.base_offset + at
        ]
        assert sifted.kept == len(kept)
        assert sifted.tombstones == sum(one.value is None for one in kept)
        times = [one.timestamp_ms - header.base_timestamp for one in kept]
        assert sifted.newest_delta == max(times, default=INT64_MIN)
        left = mapped.sift(header, block, keeps_tombstones=False)
        assert (left.kept, left.tombstones) == (sifted.kept - sifted.tombstones, 0)


@TABLES
@given(runs(), st.integers(2, 40), st.binary(min_size=16, max_size=16))
def test_twins_have_equal_counts_and_answers(run: bytes, slots: int, salt: bytes) -> None:
    both = [make(slots, salt) for make in MAPS]
    for header, data in iter_batches(memoryview(run)):
        block = open_batch(header, data, READER_BOUNDS)
        assert len({one.put_block(header, block) for one in both}) == 1
        assert both[0].count == both[1].count
        for keeps in (True, False):
            sifted = [one.sift(header, block, keeps_tombstones=keeps) for one in both]
            assert sifted[0] == sifted[1]
            for earlier in (0, -5, 10**12, -(2**63), 2**63 - 1):
                out = [bytes(one(block, sifted[0].spans, earlier)) for one in GATHERS]
                assert out[0] == out[-1]


@TABLES
@pytest.mark.parametrize(("length", "digest"), SIPHASHES.items())
def test_the_hash_in_c_is_siphash_for_keys_of_any_length(length: int, digest: str) -> None:
    mapped = MAPS[-1](1000, bytes(range(16)))
    header, block = opened(keyed(bytes(byte & 255 for byte in range(length))))
    assert mapped.put_block(header, block)
    at = bytes(mapped.table).find(_in_memory(digest))
    assert at >= 0
    assert at % SLOT_BYTES == 0


def _in_memory(digest: str) -> bytes:
    """The halves of a hash as this machine has numbers."""
    halves = struct.unpack("<QQ", bytes.fromhex(digest))
    return struct.pack("=QQ", *halves)


@pytest.mark.parametrize("make", MAPS)
def test_another_salt_puts_keys_elsewhere(make) -> None:
    header, block = opened(keyed(b"a", b"b", b"c"))
    tables = set()
    for salt in (SALT, bytes(16), bytes(8) + SALT[:8]):
        mapped = make(1000, salt)
        mapped.put_block(header, block)
        tables.add(bytes(mapped.table))
    assert len(tables) == 3


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("slots", [2, 3, 10, 11])
def test_a_full_map_says_so_and_still_knows_its_keys(make, slots: int) -> None:
    mapped = make(slots, SALT)
    keys = [b"key %d" % number for number in range(mapped.limit)]
    header, block = opened(keyed(*keys))
    assert mapped.put_block(header, block)
    assert mapped.count == mapped.limit < slots
    later, again = opened(keyed(*keys[:1]), base_offset=50)
    assert mapped.put_block(later, again)
    other, more = opened(keyed(b"another"), base_offset=60)
    assert not mapped.put_block(other, more)
    assert mapped.count == mapped.limit
    sifted = mapped.sift(header, block, keeps_tombstones=True)
    assert sifted.kept == mapped.limit - 1
    assert mapped.sift(other, more, keeps_tombstones=True).kept == 1


@pytest.mark.parametrize("make", MAPS)
def test_records_without_a_key_enter_no_map_and_go(make) -> None:
    mapped = make(10, SALT)
    header, block = opened(keyed(None, b"", None))
    assert mapped.put_block(header, block)
    assert mapped.count == 1
    sifted = mapped.sift(header, block, keeps_tombstones=True)
    assert sifted.kept == 1
    assert len(sifted.spans) == 1


@pytest.mark.parametrize("make", MAPS)
def test_neighbours_are_one_span(make) -> None:
    mapped = make(20, SALT)
    header, block = opened(keyed(b"a", b"a", b"b", b"c"))
    mapped.put_block(header, block)
    spans = mapped.sift(header, block, keeps_tombstones=True).spans
    assert spans == [(spans[0][0], len(block))]
    assert 0 < spans[0][0] < len(block)


LIES = {
    "a length beyond the block": (record(0, b"k", b"v")[:-2], 1),
    "an offset twice": (record(0, b"k", b"v") * 2, 2),
    "an offset above the last": (record(7, b"k", b"v"), 1),
    "bytes behind the last record": (record(0, b"k", b"v") + b"!", 1),
}


@pytest.mark.parametrize("make", MAPS)
@pytest.mark.parametrize("lie", LIES)
def test_damage_is_refused_by_both_twins(make, lie: str) -> None:
    block, count = LIES[lie]
    data = memoryview(batch(block, count))
    mapped = make(10, SALT)
    with pytest.raises(CorruptBatch):
        mapped.put_block(read_header(data), data[61:])
    with pytest.raises(CorruptBatch):
        mapped.sift(read_header(data), data[61:], keeps_tombstones=True)


@pytest.mark.parametrize("one", GATHERS, ids=NAMES)
@pytest.mark.parametrize(("delta", "earlier"), [(INT64_MAX, 1), (INT64_MIN, -1), (INT64_MAX, 5)])
def test_a_time_that_no_delta_can_say_is_the_nearest(one, delta: int, earlier: int) -> None:
    block = memoryview(record(0, b"k", b"v", delta))
    assert bytes(one(block, [(0, len(block))], earlier)) == bytes(block)


@pytest.mark.parametrize("one", GATHERS, ids=NAMES)
@given(chosen=batches, earlier=st.sampled_from([-(2**41), -100, -1, 1, 63, 64, 2**41]))
def test_records_under_another_base_read_as_before(one, chosen: list[Record], earlier: int) -> None:
    header, block = opened(chosen)
    moved = memoryview(one(block, [(0, len(block))], earlier))
    assert [raw.timestamp_delta - earlier for raw in iter_raw(header, moved)] == [
        raw.timestamp_delta for raw in iter_raw(header, block)
    ]
    for raw, old in zip(iter_raw(header, moved), iter_raw(header, block), strict=True):
        assert moved[raw.headers_at : raw.end] == block[old.headers_at : old.end]
        assert (part(moved, raw.key), part(moved, raw.value)) == (
            part(block, old.key),
            part(block, old.value),
        )


def test_a_map_has_twice_as_many_slots_as_keys_and_never_more_than_its_memory_has() -> None:
    assert slots_for(1_000, 1 << 20) == 2_000
    assert slots_for(10**7, 128 << 20) == slots_in(128 << 20)
    assert slots_for(0, 1 << 20) == slots_for(-5, 1 << 20) == slots_in(0)
    assert all(keys_in(slots_for(keys, 1 << 20)) >= keys for keys in range(1, 1_000))
