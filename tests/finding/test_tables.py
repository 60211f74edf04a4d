"""Pieces of the index of messages become tables, and tables tell what was put into them."""

from contextlib import suppress
from random import Random

import pytest

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import DiskFile
from penstock.finding.errors import DamagedTable
from penstock.finding.piece import BUCKET_BITS, Gathered, Piece, Place, bucket_of, hash_of
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


@pytest.mark.parametrize("most", [0, 1, 19, 20, 21])
def test_so_many_places_are_found_as_are_asked_for(most: int) -> None:
    piece = filled(20)
    file, table = stored(piece)
    expected = list(range(20))[::-1][:most]
    assert [one.offset for one in piece.find(key(b"all"), most)] == expected
    assert [one.offset for one in find_in(file, table, key(b"all"), most)] == expected


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


def test_the_highest_offset_of_a_partition_counts_whatever_came_last() -> None:
    piece = Piece(0)
    for offset in (5, 9, 7):
        put(piece, partition(1), offset, b"name")
    assert piece.last_offsets == [9]


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1_024, 1_025])
def test_all_partitions_of_a_table_are_told_each_once(count: int) -> None:
    piece = Piece(0)
    for number in range(count):
        put(piece, partition(number), number * 2, b"name")
    file, table = stored(piece)
    assert list(read_partitions(file, table)) == [
        (partition(number), number * 2) for number in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "bits"),
    [
        (BUCKET_ENTRIES, 0),
        (BUCKET_ENTRIES + 1, 1),
        (2 * BUCKET_ENTRIES, 1),
        (2 * BUCKET_ENTRIES + 2, 2),
        (BUCKET_ENTRIES << BUCKET_BITS, BUCKET_BITS),
        (BUCKET_ENTRIES << BUCKET_BITS + 1, BUCKET_BITS),
    ],
)
def test_a_bucket_has_so_many_entries_on_average_at_most(count: int, bits: int) -> None:
    piece = Piece(0)
    piece.count = count
    assert encode(piece)[0].bucket_bits == bits


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


def test_a_file_with_bytes_behind_its_table_is_noticed() -> None:
    table, data = encode(filled(3))
    disk = FaultyDisk()
    disk.replace(table.name, b"".join(data) + b"\0")
    with pytest.raises(DamagedTable):
        read_table(disk.open(table.name), table.name)


def test_a_table_under_another_name_is_noticed() -> None:
    table, data = encode(filled(3))
    disk = FaultyDisk()
    other = name_of(table.first, table.end + 1)
    disk.replace(other, b"".join(data))
    with pytest.raises(DamagedTable):
        read_table(disk.open(other), other)
