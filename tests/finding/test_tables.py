"""Pieces of the index of messages become tables, and tables tell what was put into them."""

from contextlib import suppress
from random import Random

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import DiskFile
from penstock.finding.coverage import Range, epoch_before, holds, kept_tables, lacking
from penstock.finding.errors import DamagedTable
from penstock.finding.piece import Gathered, Piece, Place, bucket_of, hash_of
from penstock.finding.table import (
    BUCKET_ENTRIES,
    HEADER_BYTES,
    Table,
    encode,
    find_in,
    name_of,
    read_partitions,
    read_table,
)
from tests.storage.faulty_disk import FaultyDisk


def partition(number: int, topic: int = 1) -> TopicPartition:
    return TopicPartition(TopicId(topic.to_bytes(16, "big")), number)


def put(piece: Piece, where: TopicPartition, offset: int, *names: bytes, at: int = 1_000) -> None:
    gathered = Gathered(piece)
    gathered.add(where, offset, list(names))
    gathered.saw(at)
    piece.add(gathered, piece.end + 100, 3)


def filled(count: int) -> Piece:
    piece = Piece(4_096, 3)
    for number in range(count):
        put(piece, partition(number % 7), number, b"name-%d" % number, b"all", at=number)
    return piece


def stored(piece: Piece) -> tuple[DiskFile, Table]:
    table, data = encode(piece)
    disk = FaultyDisk()
    disk.replace(table.name, b"".join(data))
    return disk.open(table.name), table


def key(name: bytes, topic: int = 1) -> bytes:
    return hash_of(partition(0, topic).topic_id, name)


@pytest.mark.parametrize("count", [1, 10, BUCKET_ENTRIES, 3_000])
def test_a_table_finds_what_its_piece_finds(count: int) -> None:
    piece = filled(count)
    file, table = stored(piece)
    assert read_table(file, table.name) == table
    for number in range(0, count, max(count // 50, 1)):
        name = key(b"name-%d" % number)
        assert (
            piece.find(name, 100)
            == find_in(file, table, name, 100)
            == [Place(partition(number % 7), number)]
        )
    assert find_in(file, table, key(b"name-x"), 100) == piece.find(key(b"name-x"), 100) == []
    assert find_in(file, table, key(b"all", topic=2), 100) == []


def test_the_newest_places_are_first() -> None:
    piece = filled(20)
    file, table = stored(piece)
    offsets = [one.offset for one in piece.find(key(b"all"), 100)]
    assert offsets == list(range(20))[::-1]
    assert [one.offset for one in find_in(file, table, key(b"all"), 100)] == offsets


def test_bytes_of_two_entries_are_not_taken_for_one() -> None:
    """A hash may stand across two entries, or in the offset of one."""
    piece = Piece(0)
    name = key(b"looked for")
    bucket = piece.buckets[bucket_of(name)]
    bucket += bytes(4) + name + bytes(8)
    assert piece.find(name, 100) == []
    put(piece, partition(5), 77, b"looked for")
    assert piece.find(name, 100) == [Place(partition(5), 77)]


def test_a_table_tells_its_range_its_times_and_its_partitions() -> None:
    piece = filled(50)
    file, table = stored(piece)
    assert (table.first, table.end, table.epoch) == (4_096, 4_096 + 50 * 100, 3)
    assert (table.first_ms, table.last_ms, table.entries) == (0, 49, 100)
    last = {where.partition: last for where, last in read_partitions(file, table)}
    assert last == {number: max(range(number, 50, 7)) for number in range(7)}


def test_an_empty_piece_is_a_table_too() -> None:
    piece = Piece(10)
    piece.add(Gathered(piece), 500, 2)
    file, table = stored(piece)
    assert read_table(file, table.name) == table
    assert find_in(file, table, key(b"all"), 100) == []
    assert table.first_ms > table.last_ms, "no time meets it"


def test_every_damaged_byte_is_noticed_or_changes_nothing() -> None:
    piece = filled(600)
    table, data = encode(piece)
    whole = b"".join(data)
    names = [b"name-%d" % number for number in range(0, 600, 60)]
    right = {name: piece.find(key(name), 100) for name in names}
    random = Random(7)
    places = {*range(HEADER_BYTES + 16), *(random.randrange(len(whole)) for _ in range(300))}
    for at in sorted(places):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << random.randrange(8)
        disk = FaultyDisk()
        disk.replace(table.name, bytes(damaged))
        file = disk.open(table.name)
        for name in names:
            with suppress(DamagedTable):
                assert find_in(file, table, key(name), 100) == right[name], at
        if at < HEADER_BYTES:
            with pytest.raises(DamagedTable):
                read_table(file, table.name)


@pytest.mark.parametrize("length", [0, 10, HEADER_BYTES, -1])
def test_a_table_that_is_cut_off_is_noticed(length: int) -> None:
    table, data = encode(filled(600))
    disk = FaultyDisk()
    disk.replace(table.name, b"".join(data)[:length])
    with pytest.raises(DamagedTable):
        read_table(disk.open(table.name), table.name)


def test_a_table_under_another_name_is_noticed() -> None:
    table, data = encode(filled(3))
    disk = FaultyDisk()
    other = name_of(table.first, table.end + 1)
    disk.replace(other, b"".join(data))
    with pytest.raises(DamagedTable):
        read_table(disk.open(other), other)


@pytest.mark.parametrize(
    ("covered", "expected"),
    [
        ([], Range(0, 100)),
        ([(0, 100)], None),
        ([(0, 50), (50, 100)], None),
        ([(50, 100), (0, 40)], Range(40, 50)),
        ([(20, 40)], Range(0, 20)),
        ([(0, 40)], Range(40, 100)),
        ([(0, 40), (20, 60)], Range(60, 100)),
        ([(0, 10), (20, 30), (40, 100)], Range(10, 20)),
        ([(0, 300)], None),
    ],
)
def test_the_first_range_that_is_lacking_is_told(
    covered: list[tuple[int, int]], expected: Range | None
) -> None:
    assert lacking(covered, 0, 100) == expected


def test_an_epoch_is_that_of_the_frame_in_front_of_a_position() -> None:
    epochs = [(3, 0), (5, 100), (6, 100), (9, 200)]
    assert [epoch_before(epochs, at) for at in (0, 1, 100, 101, 200, 201)] == [
        None, 3, 3, 6, 6, 9,
    ]  # fmt: skip


def test_what_another_mastership_wrote_does_not_hold() -> None:
    epochs = [(3, 0), (6, 100)]
    assert holds(100, 3, epochs, 150)
    assert holds(101, 6, epochs, 150)
    assert not holds(120, 3, epochs, 150), "epoch 3 ended at 100 here"
    assert not holds(151, 6, epochs, 150), "the log ends before"
    assert holds(50, 2, [(6, 100)], 150), "too old to be compared"


def test_tables_that_lie_over_others_are_left_out() -> None:
    def table(first: int, end: int, epoch: int = 3) -> Table:
        return Table(name_of(first, end), first, end, epoch, 0, 0, 0, 0, 0, 0)

    kept = kept_tables(
        [table(50, 80), table(0, 50), table(40, 60), table(80, 200, 4)], [(3, 0)], 100
    )
    assert [(one.first, one.end) for one in kept] == [(0, 50), (50, 80)]
