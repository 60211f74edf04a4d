"""A part of a run is the records that a plain reader finds there, and what it costs is bounded."""

from collections.abc import Callable
from struct import pack_into
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import scan
from penstock.record.batch import BATCH_HEADER_BYTES, CHECKED_AT, read_header
from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP, LZ4, NONE, READER_BOUNDS, SNAPPY, ZSTD, Bounds
from penstock.record.errors import CorruptBatch
from penstock.record.excerpt import (
    BATCHES_MAX,
    HERE_WORK,
    UNPACKED_HERE_MAX,
    Excerpt,
    Part,
    Unreadable,
    excerpt_here,
    excerpt_of,
)
from penstock.record.read import DecodedRecord, iter_batches, iter_records, run_end
from tests.record.strategies import batches, codecs

MANY = 1 << 30
CUTS = [scan.cut_records] + ([scan.COMPILED_CUT] if scan.COMPILED_CUT else [])
Cut = Callable[[memoryview, int, int, int, int, int], tuple[int, int, int, int, int]]


def records_of(data: memoryview, first: int = 0) -> list[DecodedRecord]:
    return [
        record
        for header, batch in iter_batches(data)
        if not header.is_control
        for record in iter_records(batch)
        if record.offset >= first
    ]


def run_of(*parts: bytes) -> memoryview:
    return memoryview(b"".join(parts))


def plain(count: int, value: bytes = b"v", **fields: Any) -> bytes:
    return build_batch([Record(b"%d" % one, value) for one in range(count)], **fields)


def altered(batch: bytes, at: int, code: str, value: int) -> bytes:
    """A batch with another field, and the right checksum."""
    changed = bytearray(batch)
    pack_into(code, changed, at, value)
    pack_into(">I", changed, 17, crc32c(changed[CHECKED_AT:]))
    return bytes(changed)


def with_block(block: bytes, count: int, **fields: Any) -> bytes:
    """A batch of these bytes, in place of `count` records."""
    header = bytearray(plain(count, **fields)[:BATCH_HEADER_BYTES])
    pack_into(">i", header, 8, BATCH_HEADER_BYTES - 12 + len(block))
    return altered(bytes(header + block), 57, ">i", count)


@given(st.lists(batches, min_size=1, max_size=3), codecs, st.integers(0, 60), st.integers(1, 9))
def test_an_excerpt_has_the_records_that_a_reader_of_all_finds(
    chosen: list[list[Record]], codec: int, first: int, most: int
) -> None:
    base, parts = 0, []
    for one in chosen:
        parts.append(build_batch(one, codec=codec, base_offset=base))
        base += len(one) + 2  # compaction leaves such gaps
    data = run_of(*parts)
    made = excerpt_of(data, Part(first, MANY, most), READER_BOUNDS)
    assert records_of(made.data, first) == records_of(data, first)[:most]
    assert made.unreadable == []
    assert excerpt_here(data, Part(first, MANY, most)) == made


@given(st.integers(1, 40), st.integers(1, 400), st.integers(1, 50))
def test_excerpts_one_behind_the_other_have_every_record_once(
    count: int, bytes_max: int, records_max: int
) -> None:
    data = run_of(plain(count, codec=LZ4), plain(count, base_offset=count))
    found, first = [], 0
    while first < 2 * count:
        made = excerpt_of(data, Part(first, bytes_max, records_max), READER_BOUNDS)
        some = records_of(made.data, first)
        assert 0 < len(some) <= records_max
        found += some
        first = run_end(made.data, first)
    assert found == records_of(data)


def test_an_excerpt_has_no_more_bytes_than_wanted_and_one_record() -> None:
    data = run_of(plain(100, bytes(10_000), codec=ZSTD))
    made = excerpt_of(data, Part(50, 64 << 10, MANY), READER_BOUNDS)
    assert 64 << 10 <= len(made.data) < (64 << 10) + 10_200
    assert records_of(made.data)[0].offset == 50


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_what_unpacks_to_much_is_not_made_here(codec: int) -> None:
    large = plain(1, bytes(UNPACKED_HERE_MAX + 1), codec=codec, base_offset=5)
    part = Part(0, MANY, MANY)
    assert excerpt_here(run_of(large), part) is None
    made = excerpt_here(run_of(plain(5), large), part)
    assert made is not None
    assert [one.offset for one in records_of(made.data)] == [0, 1, 2, 3, 4]
    whole = excerpt_of(run_of(plain(5), large), part, READER_BOUNDS)
    assert [one.offset for one in records_of(whole.data)] == [0, 1, 2, 3, 4, 5]


def test_many_records_are_not_walked_through_here() -> None:
    block = b"".join(pack(one) for one in range(200_000))
    assert excerpt_here(run_of(with_block(block, 200_000)), Part(199_999, MANY, 1)) is None


def pack(delta: int) -> bytes:
    """The least record of an offset delta."""
    number, raw = bytearray(), delta << 1
    while raw >= 0x80:
        number.append(raw & 0x7F | 0x80)
        raw >>= 7
    number.append(raw)
    body = bytes([0, 0]) + number + bytes([1, 1, 0])
    return bytes([len(body) << 1]) + body


def test_many_batches_are_left_for_the_next_excerpt() -> None:
    data = run_of(*(plain(1, base_offset=one) for one in range(BATCHES_MAX + 50)))
    made = excerpt_here(data, Part(0, MANY, MANY))
    assert made is not None
    assert len(records_of(made.data)) == BATCHES_MAX


def lying(block: bytes) -> bytes:
    """A batch of three records of which the first is this, with bytes enough for three."""
    return with_block(block + bytes(30), 3, base_offset=2)


def test_batches_that_are_each_little_work_are_not_all_made_here() -> None:
    data = run_of(*(plain(1, bytes(300_000), base_offset=one) for one in range(5)))
    made = excerpt_here(data, Part(0, MANY, MANY))
    assert made is not None
    assert len(records_of(made.data)) == HERE_WORK // 300_000


LIES = {
    "a codec that there is not": altered(plain(3, base_offset=2), 21, ">h", 7),
    "gzip that is plain": altered(plain(3, base_offset=2), 21, ">h", GZIP),
    "zstd that is plain": altered(plain(3, base_offset=2), 21, ">h", ZSTD),
    "more records than offsets": altered(plain(3, base_offset=2), 57, ">i", (1 << 31) - 1),
    "a record longer than the batch": lying(b"\x7e" + bytes(5)),
    "a record of no length": lying(b"\x00"),
    "a record of negative length": lying(b"\x01"),
    "a number without an end": lying(b"\xff" * 20),
    "a key of negative length": lying(bytes([14, 0, 0, 0, 3, 1, 1, 0])),
    "a value past the end": lying(bytes([14, 0, 0, 0, 1, 126, 1, 0])),
    "2^31 headers": lying(bytes([24, 0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x1F, 0, 0])),
    "a header without a name": lying(bytes([16, 0, 0, 0, 1, 1, 2, 1, 1])),
    "an offset beyond the batch": lying(bytes([12, 0, 0, 126, 1, 1, 0])),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("is_here", [True, False])
def test_a_batch_that_lies_is_named_and_stepped_over(lie: str, *, is_here: bool) -> None:
    data = run_of(plain(2), LIES[lie], plain(1, base_offset=5))
    found, unreadable = read_to_the_end(data, is_here=is_here)
    assert [one.offset for one in found] == [0, 1, 5]
    assert [one[:2] for one in unreadable] == [(2, 4)]
    assert unreadable[0].reason


def read_to_the_end(
    data: memoryview, *, is_here: bool
) -> tuple[list[DecodedRecord], list[Unreadable]]:
    """What a reader finds who makes excerpts here as long as that is little work."""
    found: list[DecodedRecord] = []
    unreadable: list[Unreadable] = []
    first, end = 0, run_end(data, 0)
    while first < end:
        part = Part(first, MANY, MANY)
        made = (excerpt_here(data, part) if is_here else None) or excerpt_of(
            data, part, READER_BOUNDS
        )
        found += records_of(made.data, first)
        unreadable += made.unreadable
        assert run_end(made.data, first) > first, "it goes on"
        first = run_end(made.data, first)
    return found, unreadable


def made_of(data: memoryview, part: Part, *, is_here: bool) -> Excerpt:
    made = excerpt_here(data, part) if is_here else excerpt_of(data, part, READER_BOUNDS)
    assert made is not None
    return made


@pytest.mark.parametrize("is_here", [True, False])
def test_records_before_a_lie_are_read_and_what_follows_is_named(*, is_here: bool) -> None:
    good = plain(3, base_offset=2)[BATCH_HEADER_BYTES:]
    data = run_of(with_block(good[:-2], 3, base_offset=2), plain(1, base_offset=5))
    made = made_of(data, Part(0, MANY, MANY), is_here=is_here)
    assert [one.offset for one in records_of(made.data)] == [2, 3]
    assert (made.unreadable, run_end(made.data, 0)) == ([], 4)
    made = made_of(data, Part(4, MANY, MANY), is_here=is_here)
    assert [one.offset for one in records_of(made.data)] == [5]
    assert [one[:2] for one in made.unreadable] == [(4, 4)]


def test_a_batch_that_unpacks_beyond_the_bound_is_stepped_over() -> None:
    data = run_of(plain(1, bytes(1 << 20), codec=ZSTD), plain(1, base_offset=1))
    made = excerpt_of(data, Part(0, MANY, MANY), Bounds(1 << 16))
    assert [one.offset for one in records_of(made.data)] == [1]
    assert [one[:2] for one in made.unreadable] == [(0, 0)]


@pytest.mark.parametrize("is_here", [True, False])
def test_damage_is_an_error_and_not_stepped_over(*, is_here: bool) -> None:
    batch = bytearray(plain(2))
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        made_of(run_of(bytes(batch)), Part(0, MANY, MANY), is_here=is_here)


def test_a_marker_of_a_transaction_stays_as_it_is() -> None:
    marker = altered(plain(1), 21, ">h", 0x30)
    made = excerpt_here(run_of(marker, plain(1, base_offset=1)), Part(0, MANY, MANY))
    assert made is not None
    assert bytes(made.data[: len(marker)]) == marker
    assert read_header(made.data).is_control


@pytest.mark.skipif(scan.COMPILED_CUT is None, reason="the compiled twin was not built")
@given(batches, st.data())
def test_twins_cut_damaged_records_alike(chosen: list[Record], data: st.DataObject) -> None:
    block = bytearray(build_batch(chosen)[BATCH_HEADER_BYTES:])
    for _ in range(data.draw(st.integers(0, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    count, last = len(chosen), len(chosen) - 1
    numbers = [data.draw(st.integers(least, most)) for least, most in ((0, 14), (1, 90), (1, 9))]
    told = [cut(memoryview(block), count, last, *numbers) for cut in CUTS]
    assert told[0] == told[1]


def test_codec_none_is_what_an_excerpt_has() -> None:
    made = excerpt_of(run_of(plain(2, codec=ZSTD)), Part(0, MANY, MANY), READER_BOUNDS)
    assert read_header(made.data).codec == NONE
