"""Frames and files: what is written is read, and any damage is noticed."""

from array import array

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from harness.ids import as_epochs
from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import (
    CoordinatorEpoch,
    Offset,
    Position,
    ProducerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from penstock.frames import frames
from penstock.frames.frames import build_frame, check_body, check_header
from penstock.storage.commit_log.snapshot import (
    PartitionState,
    Snapshot,
    decode_snapshot,
    encode_partition,
    encode_snapshot,
)
from penstock.storage.errors import CorruptFile, CorruptFrame
from penstock.storage.index.aborted import new_aborted
from penstock.storage.index.partition_log import Columns
from penstock.storage.index.sealed_index import (
    Sealed,
    encode_index,
    find_entry,
    read_block,
    read_directory,
    read_index_header,
)
from penstock.storage.index.side_file import decode_side, encode_side
from penstock.storage.index.transactions import Undecided
from tests.storage.faulty_disk import FaultyDisk

int64 = st.integers(-(1 << 63), (1 << 63) - 1)
offsets = st.integers(0, 1 << 62)


def columns(entries):
    return Columns(
        array("q", [entry[0] for entry in entries]),
        array("q", [entry[1] for entry in entries]),
        array("i", [entry[2] for entry in entries]),
        array("q", [entry[3] for entry in entries]),
    )


entry_lists = st.lists(
    st.tuples(offsets, offsets, st.integers(61, 1 << 30), int64), min_size=1, max_size=5
)
partitions = st.builds(
    TopicPartition, st.binary(min_size=16, max_size=16).map(TopicId), st.integers(0, 1 << 20)
)
aborted_lists = st.lists(st.tuples(offsets, offsets, offsets, offsets), max_size=3)


def aborted(entries):
    made = new_aborted()
    for entry in entries:
        made.add(*entry)
    return made


sealed = st.builds(
    lambda batches, ended, stable: Sealed(columns(batches), Offset(99), aborted(ended), stable),
    entry_lists,
    st.just([]) | aborted_lists,
    st.just(99) | st.integers(0, 99),
)
parts = st.dictionaries(partitions, sealed, min_size=1, max_size=20)
plain = st.builds(lambda batches: Sealed(columns(batches), Offset(99)), entry_lists)


def reader(data):
    return lambda position, length: memoryview(data)[position : position + length]


def lists(found):
    return [[list(column) for column in part] for part in (found.columns, found.aborted.columns)]


def test_the_frame_header_is_laid_out_as_documented():
    frame = build_frame(2, frames.KEY.pack(7, bytes(range(16))), b"payload!", leader_epoch=3,
                        position=0x1122334455, unflushed=0x66)  # fmt: skip
    assert frame[4:8].hex() == "50530102"
    assert frame[8:12] == (56).to_bytes(4, "big")
    assert frame[12:16] == (3).to_bytes(4, "big")
    assert frame[16:24].hex() == "0000001122334455"
    assert frame[24:28] == (0x66).to_bytes(4, "big")
    assert frame[28:32] == (7).to_bytes(4, "big")
    assert frame[32:48] == bytes(range(16))
    assert frame[48:] == b"payload!"
    assert frame[:4] == crc32c(frame[4:]).to_bytes(4, "big")


def test_the_checksum_of_a_batch_frame_covers_what_the_batch_crc_leaves_out():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    position = log.end_position
    append(log, log.open_partition(partition_number(0)), size=300)
    log.writer.write_staged()
    data = memoryview(disk.names[f"set-1/log/{0:020d}.log"].data)[position:]
    header = check_header(data, 0, position, len(data))
    check_body(data, 0, header)
    assert header.crc == crc32c(data[4 : 48 + 21])
    assert header.frame_bytes == 348
    for at in range(348):
        data[at] ^= 0x10
        with pytest.raises(CorruptFrame):
            check_body(data, 0, check_header(data, 0, position, len(data)))
        data[at] ^= 0x10


@given(st.binary(max_size=200), st.integers(0, 1 << 40))
def test_any_bytes_are_either_a_frame_or_a_typed_error(data, position):
    view = memoryview(data)
    with pytest.raises(CorruptFrame):
        check_body(view, 0, check_header(view, 0, position, len(data)))


@given(parts)
def test_a_sealed_index_gives_back_every_partition(found):
    data = encode_index(Position(4096), Position(9999), found, segment_end=Position(12288))
    header = read_index_header("p", Position(4096), reader(data))
    assert (header.base, header.data_end, header.partition_count) == (4096, 9999, len(found))
    entries = read_directory("p", header, reader(data))
    assert [entry.topic_partition for entry in entries] == sorted(found)
    for wanted, sealed in found.items():
        entry = find_entry("p", header, wanted, reader(data))
        assert entry in entries
        assert entry.batch_bytes == sum(sealed.columns.sizes)
        assert entry.max_timestamp == max(sealed.columns.timestamps)
        assert (entry.first_offset, entry.end_offset) == (sealed.columns.bases[0], 99)
        found_here = read_block("p", entry, reader(data))
        assert lists(found_here) == lists(sealed)
        assert found_here.stable_end == sealed.stable_end
    absent = TopicPartition(TopicId(b"?" * 16), 1 << 21)
    assert find_entry("p", header, absent, reader(data)) is None


def read_index(data):
    header = read_index_header("p", Position(4096), reader(data))
    return [
        lists(read_block("p", entry, reader(data)))
        for entry in read_directory("p", header, reader(data))
    ]


@given(st.dictionaries(partitions, plain, min_size=1, max_size=5))
def test_files_without_transactions_are_those_that_earlier_releases_read(found):
    assert (
        encode_index(Position(4096), Position(9999), found, segment_end=Position(12288))[:6]
        == b"PSIX\0\1"
    )
    assert encode_side(found.items())[:6] == b"PSSF\0\1"
    producers = {(2, ProducerId(9)): (ProducerEpoch(0), 5, ((0, 1, 2),), CoordinatorEpoch(-1))}
    snapshot = Snapshot(
        Position(123), True, Position(100), 7, 999, [Position(1)], as_epochs((1, 0)), [], producers
    )
    assert encode_snapshot(snapshot, [])[:6] == b"PSSN\0\1"


@pytest.mark.parametrize("ended", [[], [(7, 1, 2, 3)]])
def test_any_flipped_byte_of_a_sealed_index_is_noticed(ended):
    found = {
        partition_number(n): Sealed(
            columns([(n, n, 99, n)] * 3), Offset(9), aborted(ended), Offset(9)
        )
        for n in range(3)
    }
    data = bytearray(
        encode_index(Position(4096), Position(9999), found, segment_end=Position(12288))
    )
    for at in range(len(data)):
        data[at] ^= 0x40
        with pytest.raises(CorruptFile):
            read_index(data)
        data[at] ^= 0x40
    for length in range(len(data)):
        with pytest.raises(CorruptFile):
            read_index(data[:length])
    assert len(read_index(data)) == 3


@given(parts)
def test_a_side_file_gives_back_its_blocks(found):
    data = encode_side(found.items()) * 2
    read = list(decode_side("p", memoryview(data)))
    assert len(read) == 2 * len(found)
    for wanted, block in read:
        assert lists(block) == lists(found[wanted])
        assert block.end_offset == 99


@pytest.mark.parametrize("ended", [[], [(7, 1, 2, 3)]])
def test_any_flipped_byte_of_a_side_file_is_noticed(ended):
    block = Sealed(columns([(1, 2, 99, 4)]), Offset(5), aborted(ended))
    data = bytearray(encode_side([(partition_number(1), block)]))
    for at in range(len(data)):
        data[at] ^= 0x40
        with pytest.raises(CorruptFile):
            list(decode_side("p", memoryview(data)))
        data[at] ^= 0x40


producer_entries = st.lists(
    st.tuples(
        st.tuples(st.integers(0, 1 << 31), offsets),
        st.tuples(
            st.integers(0, 32767),
            offsets,
            st.lists(
                st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30), offsets), max_size=5
            ).map(tuple),
            st.just(-1) | st.integers(-1, 1 << 30),
        ),
    ),
    max_size=5,
).map(dict)
partition_states = st.builds(
    PartitionState,
    st.binary(min_size=16, max_size=16).map(TopicId),
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 31),
    *([offsets] * 5),
    int64,
)


@given(
    st.booleans(),
    st.lists(offsets, max_size=4),
    st.lists(st.tuples(st.integers(0, 1 << 30), offsets), max_size=4),
    st.lists(partition_states, max_size=4),
    producer_entries,
    st.lists(
        st.builds(Undecided, st.integers(0, 1 << 31), offsets, offsets, offsets, int64), max_size=3
    ),
)
def test_a_snapshot_gives_back_what_it_was_made_of(
    clean, segments, epochs, states, producers, undecided
):
    snapshot = Snapshot(
        Position(123),
        clean,
        Position(100),
        7,
        999,
        segments,
        epochs,
        states,
        producers,
        transactions=undecided,
    )
    data = encode_snapshot(snapshot, [encode_partition(state) for state in states])
    assert decode_snapshot("p", memoryview(data)) == snapshot


def test_any_flipped_or_missing_byte_of_a_snapshot_is_noticed():
    state = PartitionState(
        TopicId(bytes(16)), 1, 2, Offset(3), Offset(4), Position(5), 6, Position(7), 8
    )
    producers = {
        (2, ProducerId(9)): (ProducerEpoch(0), 5, ((0, 1, 2), (3, 4, 5)), CoordinatorEpoch(3))
    }
    undecided = [Undecided(2, ProducerId(9), Offset(1), Position(2), Position(3))]
    snapshot = Snapshot(
        Position(123),
        True,
        Position(100),
        7,
        999,
        [Position(1)],
        as_epochs((1, 0)),
        [state],
        producers,
        transactions=undecided,
    )
    data = bytearray(encode_snapshot(snapshot, [encode_partition(state)]))
    for at in range(len(data)):
        data[at] ^= 0x40
        with pytest.raises(CorruptFile):
            decode_snapshot("p", memoryview(data))
        data[at] ^= 0x40
        with pytest.raises(CorruptFile):
            decode_snapshot("p", memoryview(data[:at]))
