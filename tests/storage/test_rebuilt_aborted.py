"""Searches for aborted transactions on the disk. Rebuilt indexes do not know what was open."""

from typing import Any

import pytest

from harness.log_world import SMALL, World, make_batch, open_log, partition_number
from penstock.base.ids import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.index.transactions import TransactionEnd
from tests.storage.faulty_disk import FaultyDisk

PLAIN = 200


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_rebuilt_index_between_a_transaction_and_its_marker_does_not_end_the_search(
    is_cached: bool,
) -> None:
    """The segments between have nothing of the transaction, which was open all the time."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))

    def append(producer: tuple[int, int, int], attributes: int, size: int) -> None:
        batch = make_batch(size=size, producer=producer, attributes=attributes)
        log.append(partition, batch, read_header(batch))
        world.run()

    append((7, 0, 0), TRANSACTIONAL, 1000)
    for _ in range(PLAIN):
        append((-1, -1, -1), 0, 1000)
    log.transactions.append_marker(
        partition,
        TransactionEnd(ProducerId(7), ProducerEpoch(0), CoordinatorEpoch(1), is_commit=False),
    )
    for _ in range(PLAIN):
        append((-1, -1, -1), 0, 1000)
    world.run()
    log.close()
    for name in [name for name in disk.names if name.endswith(".idx")]:
        disk.remove(name)
    world = World()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))
    for start in (0, 100, PLAIN) if is_cached else ():
        needs_disk: Any = log.read(partition, Offset(start), 100, log.end_position)
        needs_disk.load(lambda *_: None)
        world.run()
    found: list[Any] = []
    log.transactions.find_aborted(partition, Offset(0), Offset(30), lambda *one: found.append(one))
    world.run()
    assert found == [([(7, 0)], None)]


def test_a_search_on_the_disk_knows_what_was_aborted_in_a_segment_that_is_just_closing() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))

    def append(producer: tuple[int, int, int], attributes: int) -> None:
        batch = make_batch(size=1000, producer=producer, attributes=attributes)
        log.append(partition, batch, read_header(batch))

    append((7, 0, 0), TRANSACTIONAL)
    for _ in range(100):
        append((-1, -1, -1), 0)
        world.run()
    for segment in log.parts.store.segments[:-1]:
        log.parts.reader.cache.drop_segment(segment.base)
    log.transactions.append_marker(
        partition,
        TransactionEnd(ProducerId(7), ProducerEpoch(0), CoordinatorEpoch(1), is_commit=False),
    )
    while not log.parts.store.closing:
        append((-1, -1, -1), 0)
    found: list[Any] = []
    log.transactions.find_aborted(partition, Offset(0), Offset(30), lambda *one: found.append(one))
    world.run()
    assert found == [([(7, 0)], None)]


def test_a_search_asks_for_no_segments_but_those_on_its_way_to_one_that_was_decided() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, SMALL)
    partition = log.open_partition(partition_number(0))
    for _ in range(600):
        batch = make_batch(size=1000)
        log.append(partition, batch, read_header(batch))
        world.run()
    segments = log.parts.store.segments[:-1]
    assert len(segments) > 8
    for segment in segments:
        log.parts.reader.cache.drop_segment(segment.base)
    asked: set[str] = set()
    disk.on_operation = lambda _, path: asked.add(path)
    found: list[Any] = []
    log.transactions.find_aborted(
        partition, Offset(300), Offset(301), lambda *one: found.append(one)
    )
    world.run()
    disk.on_operation = None
    assert found == [([], None)]
    assert len(asked) <= len(segments).bit_length()
