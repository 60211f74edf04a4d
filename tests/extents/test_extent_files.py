"""Extent files: what is written is read, and whatever is changed is found."""

from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch, Offset
from penstock.extents.check import check_extent_file
from penstock.extents.errors import CorruptExtentFile, NewerExtentFile
from penstock.extents.layout import (
    BLOCK_BYTES,
    BLOCK_COLUMNS,
    ENTRY,
    ENTRY_BYTES,
    HEADER,
    TAIL,
    TAIL_BYTES,
    TAIL_MAGIC,
    Aborted,
    pack_columns,
)
from penstock.extents.reader import (
    FileHeader,
    batches_of,
    read_block,
    read_directory,
    read_file_header,
    read_summary,
)
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import read_header
from tests.extents.files import (
    CLUSTER,
    PATH,
    SET,
    Part,
    batch,
    key,
    noting,
    reading,
    written,
    written_with_directory,
)

ABORTED = Aborted([5, 6], [1, 2], [3, 4], [2, 5])
SMALL = [
    Part(key(1, 0), [batch(0), batch(1, records=2, epoch=1)], ABORTED, 5),
    Part(key(1, 3), [batch(40, epoch=2)], generation=2),
]


@st.composite
def parts(draw: st.DrawFn) -> list[Part]:
    """Partitions with a few batches each; offsets may be missing, epochs rise."""
    numbers = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), unique=True))
    return [Part(key(*number), draw(histories())) for number in sorted(numbers)]


@st.composite
def histories(draw: st.DrawFn) -> list[bytes]:
    offset, epoch, batches = draw(st.integers(0, 1 << 40)), 0, []
    for _ in range(draw(st.integers(1, 5))):
        times = draw(st.lists(st.integers(-1, 1 << 40), min_size=1, max_size=3))
        size = draw(st.sampled_from((0, 9, BLOCK_BYTES // 3, BLOCK_BYTES + 5)))
        epoch += draw(st.integers(0, 2))
        batches.append(batch(offset, epoch=epoch, times=times, size=size))
        offset += len(times) + draw(st.integers(0, 2))
    return batches


@given(parts())
def test_every_batch_of_every_partition_is_read_back_byte_for_byte(wanted: list[Part]) -> None:
    data, told = written_with_directory(wanted)
    read = reading(data)
    entries = check_extent_file(PATH, len(data), read).entries
    assert entries == told
    assert [entry.topic_partition for entry in entries] == [part.key for part in wanted]
    for entry, part in zip(entries, wanted, strict=True):
        summary = read_summary(PATH, entry, read)
        found = [
            bytes(one)
            for block, at in enumerate(summary.blocks.places)
            for _, one in batches_of(PATH, at, read_block(PATH, summary.blocks, block, read))
        ]
        assert found == part.batches
        headers = [read_header(memoryview(one)) for one in part.batches]
        assert entry.first_offset == headers[0].base_offset
        assert entry.end_offset == headers[-1].last_offset + 1
        assert entry.max_timestamp == max(header.max_timestamp for header in headers)
        assert entry.first_timestamp == headers[0].base_timestamp
        assert entry.batch_bytes == sum(map(len, part.batches))
        assert dict(summary.notes.epochs) == {
            epoch: min(one.base_offset for one in headers if one.leader_epoch == epoch)
            for epoch in {one.leader_epoch for one in headers}
        }
        sizes = [len(one) for one in part.batches]
        for stored in summary.blocks.stored_bytes:
            assert stored <= BLOCK_BYTES or stored in sizes


@given(histories(), st.integers(0, 40), st.integers(-2, 1 << 40))
def test_a_block_is_found_by_offset_and_by_time(
    batches: list[bytes], further: int, timestamp: int
) -> None:
    data = written([Part(key(1, 0), batches)])
    read = reading(data)
    (entry,) = read_directory(PATH, len(data), read).entries
    blocks = read_summary(PATH, entry, read).blocks
    held = [
        [header for header, _ in batches_of(PATH, 0, read_block(PATH, blocks, block, read))]
        for block in range(entry.block_count)
    ]
    offset = min(entry.first_offset + further, entry.end_offset - 1)
    at = blocks.block_of(offset)
    following = [header for headers in held[at:] for header in headers]
    wanted = next(one for headers in held for one in headers if one.last_offset >= offset)
    assert next(one for one in following if one.last_offset >= offset) == wanted
    assert held[at][0].base_offset <= offset
    newest = [max(header.max_timestamp for header in headers) for headers in held]
    late = [number for number, age in enumerate(newest) if age >= timestamp]
    assert blocks.first_at(timestamp) == (late[0] if late else len(held))


def test_notes_say_what_was_aborted_and_how_far_all_is_decided() -> None:
    data = written(SMALL)
    read = reading(data)
    first, second = read_directory(PATH, len(data), read).entries
    notes = read_summary(PATH, first, read).notes
    assert [list(column) for column in notes.aborted] == [list(column) for column in ABORTED]
    assert (notes.epochs, notes.decided_end) == ([(0, 0), (1, 1)], 5)
    other = read_summary(PATH, second, read).notes
    assert (other.epochs, other.decided_end) == ([(2, 40)], 41)
    assert [list(column) for column in other.aborted] == [[], [], [], []]
    assert second.generation == 2


def test_a_file_of_no_partition_is_whole() -> None:
    data = written([])
    assert check_extent_file(PATH, len(data), reading(data)).entries == []
    assert read_file_header(PATH, reading(data)) == FileHeader(CLUSTER, SET)


def test_whoever_knows_the_entry_reads_its_summary_and_one_block() -> None:
    data = written(SMALL)
    entry = read_directory(PATH, len(data), reading(data)).entries[0]
    asked: list[tuple[int, int]] = []
    read = noting(data, asked)
    read_block(PATH, read_summary(PATH, entry, read).blocks, 0, read)
    assert asked == [(entry.summary_at, entry.summary_bytes), (entry.extent_at, entry.extent_bytes)]


def test_one_flipped_bit_in_any_byte_is_found() -> None:
    data = written(SMALL)
    for at in range(len(data)):
        for bit in (1, 128):
            changed = bytearray(data)
            changed[at] ^= bit
            with pytest.raises(CorruptExtentFile, match=PATH):
                check_extent_file(PATH, len(changed), reading(bytes(changed)))


def test_a_file_that_is_cut_off_anywhere_or_goes_on_is_refused() -> None:
    data = written(SMALL)
    for size in range(len(data)):
        with pytest.raises(CorruptExtentFile, match=PATH):
            check_extent_file(PATH, size, reading(data[:size]))
    with pytest.raises(CorruptExtentFile, match="no tail"):
        check_extent_file(PATH, len(data) + 1, reading(data + b"\0"))
    with pytest.raises(CorruptExtentFile, match="bytes are there"):
        check_extent_file(PATH, len(data), reading(data[: -TAIL_BYTES - 1]))


@pytest.mark.parametrize(("version", "flags"), [(2, 0), (1, 1)])
def test_a_file_of_a_later_release_is_told_from_a_damaged_one(version: int, flags: int) -> None:
    data = bytearray(written(SMALL))
    header = HEADER.pack(b"PSTO", version, flags, CLUSTER, SET)
    data[: len(header) + 4] = header + crc32c(header).to_bytes(4, "big")
    with pytest.raises(NewerExtentFile, match=f"version {version}, flags 0x{flags:x}"):
        check_extent_file(PATH, len(data), reading(bytes(data)))


LIES = {
    "first_offset": 1,
    "end_offset": 4,
    "first_timestamp": 1,
    "max_timestamp": 9,
    "extent_at": 65,
    "extent_bytes": 1 << 40,
    "summary_at": 64,
    "block_count": 2,
    "notes_bytes": 1 << 31,
    "batch_count": 3,
    "batch_bytes": 5,
    "summary_crc": 0,
}


@pytest.mark.parametrize("field", LIES)
def test_an_entry_that_lies_with_right_checksums_is_refused(field: str) -> None:
    data = bytearray(written(SMALL))
    size = len(data)
    directory = read_directory(PATH, size, reading(bytes(data)))
    entries = list(directory.entries)
    assert getattr(entries[0], field) != LIES[field]
    fields: dict[str, Any] = {field: LIES[field]}
    entries[0] = entries[0]._replace(**fields)
    packed = b"".join(ENTRY.pack(*entry) for entry in entries)
    tail = TAIL.pack(directory.at, len(packed), len(entries), size, crc32c(packed))
    data[directory.at :] = packed + tail + TAIL_MAGIC.pack(crc32c(tail), b"PSTO")
    with pytest.raises(CorruptExtentFile, match=PATH):
        check_extent_file(PATH, size, reading(bytes(data)))


@pytest.mark.parametrize(
    ("epochs", "is_right"),
    [
        ([(1, 3), (2, 9)], True),
        ([(1, 3), (2, 10)], False),  # at the end: it is not of this range
        ([(1, 4), (2, 9)], False),  # not from the beginning on
        ([(1, 3), (2, 5)], False),  # not the epoch of the last batch
        ([], False),
    ],
)
def test_epochs_of_a_rewritten_range_are_of_all_of_it_and_of_nothing_else(
    epochs: list[tuple[int, int]], is_right: bool
) -> None:
    out = bytearray()
    writer = ExtentFileWriter(lambda buffers: out.extend(b"".join(buffers)), CLUSTER, SET)
    writer.begin(key(1, 0), 1, first_offset=3)
    for one in (batch(4, epoch=1), batch(8, records=2, epoch=1)):
        writer.add(memoryview(one))
    writer.end(epochs=[(LeaderEpoch(epoch), Offset(start)) for epoch, start in epochs])
    writer.finish()
    with nullcontext() if is_right else pytest.raises(CorruptExtentFile, match="epochs"):
        check_extent_file(PATH, len(out), reading(bytes(out)))


def test_a_directory_out_of_order_is_refused() -> None:
    data = bytearray(written(SMALL))
    directory = read_directory(PATH, len(data), reading(bytes(data)))
    packed = b"".join(ENTRY.pack(*entry) for entry in reversed(directory.entries))
    assert len(packed) == 2 * ENTRY_BYTES
    tail = TAIL.pack(directory.at, len(packed), 2, len(data), crc32c(packed))
    data[directory.at :] = packed + tail + TAIL_MAGIC.pack(crc32c(tail), b"PSTO")
    with pytest.raises(CorruptExtentFile, match="out of order"):
        read_directory(PATH, len(data), reading(bytes(data)))


def test_extents_follow_each_other_without_a_gap() -> None:
    data, entries = written_with_directory(SMALL)
    for before, after in pairwise(entries):
        assert before.extent_at + before.extent_bytes == after.extent_at
        assert before.summary_at + before.summary_bytes == after.summary_at
    directory = read_directory(PATH, len(data), reading(data))
    assert directory.at + ENTRY_BYTES * len(entries) + TAIL_BYTES == len(data)


def test_no_byte_of_a_block_may_be_another_one() -> None:
    data = written(SMALL)
    entry = read_directory(PATH, len(data), reading(data)).entries[0]
    blocks = read_summary(PATH, entry, reading(data)).blocks
    for at in range(entry.extent_at, entry.extent_at + entry.extent_bytes):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(CorruptExtentFile, match="checksum of block 0"):
            read_block(PATH, blocks, 0, reading(bytes(changed)))


@pytest.mark.parametrize("begins_at", [1, 2, 4])
def test_batches_of_a_block_never_overlap_not_even_by_one_offset(begins_at: int) -> None:
    block = memoryview(batch(0, records=3) + batch(begins_at))
    with nullcontext() if begins_at > 2 else pytest.raises(CorruptExtentFile, match="no batch"):
        assert [header.base_offset for header, _ in batches_of(PATH, 0, block)] == [0, begins_at]


@pytest.mark.parametrize(("column", "change"), [(1, 1), (1, -60), (2, 5), (3, 1), (4, 9)])
def test_a_block_index_that_lies_with_a_right_checksum_is_refused(column: int, change: int) -> None:
    data = bytearray(written([Part(key(1, 0), [batch(0, size=BLOCK_BYTES), batch(1)])]))
    (entry,) = read_directory(PATH, len(data), reading(bytes(data))).entries
    columns = [list(one) for one in read_summary(PATH, entry, reading(bytes(data))).blocks]
    columns[column][-1] += change
    index = pack_columns(BLOCK_COLUMNS, columns)
    data[entry.summary_at : entry.summary_at + len(index)] = index
    summary = data[entry.summary_at : entry.summary_at + entry.summary_bytes]
    lying = entry._replace(summary_crc=crc32c(bytes(summary)))
    with pytest.raises(CorruptExtentFile, match="blocks are not those"):
        read_summary(PATH, lying, reading(bytes(data)))
