"""Every segment that is kept is explained by a named pin, and sums are exact."""

import errno

import pytest

from harness.log_world import DIRECTORY, SMALL, World, open_log, partition_number
from penstock.base.ids import Offset
from penstock.inspection.pins_of_files import read_pins
from penstock.storage.commit_log.pins import Pin, PinReport
from penstock.storage.commit_log.segments import Segment
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import Retention
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.test_retention import fill, segment_files

SEGMENT = SMALL.segment_bytes
MOVABLE = Retention(-1, -1, is_movable=True)
KEEP = Retention(-1, -1)


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def log(world: World, disk: FaultyDisk) -> SetLog:
    return open_log(world, disk)


def looked(world: World, log: SetLog, **settings: Retention) -> PinReport:
    """The report of one retention pass; settings by partition as `p0=`; the others go at once."""

    def settings_of(partition) -> Retention:
        return settings.get(f"p{partition.partition}", Retention(0, -1))

    before = log.pins.number
    log.apply_retention(0, settings_of)
    world.run()
    assert log.pins.number == before + 1
    check_explained(log)
    return log.pins


def check_explained(log: SetLog) -> None:
    """The contract: the segments of the report are those of the log, each with its reason."""
    report = log.pins
    kept: dict[int, Segment] = {segment.base: segment for segment in log.parts.store.segments}
    said = {each.base: each for each in report.segments}
    assert set(kept) == {base for base, each in said.items() if each.pin is not Pin.GOING}
    for each in report.segments:
        assert (each.pin is Pin.PARTITIONS) == (each.partition_count > 0)
        assert each.base not in kept or each.size_bytes == kept[each.base].end - each.base
    assert report.pinned_bytes <= sum(each.size_bytes for each in report.partitions.values())
    alone = sum(each.alone_bytes for each in report.partitions.values())
    assert alone == sum(each.size_bytes for each in report.segments if each.partition_count == 1)


def mixed(world: World, log: SetLog) -> None:
    """Partition 0 everywhere; 1 in the first segment only; 2 a little in each."""
    zero, one, two = (log.open_partition(partition_number(n)) for n in range(3))
    fill(world, log, one, 3)
    for _ in range(8):
        fill(world, log, zero, 60)
        fill(world, log, two, 1)


def test_before_the_first_pass_there_is_no_report(log: SetLog) -> None:
    assert log.pins.number == 0
    assert log.pins.segments == ()


def test_nobody_keeps_what_is_out_of_retention(world: World, log: SetLog, disk: FaultyDisk) -> None:
    mixed(world, log)
    report = looked(world, log)
    assert [each.pin for each in report.segments[:-1]] == [Pin.GOING] * (len(report.segments) - 1)
    assert report.segments[-1].pin is Pin.ACTIVE
    assert report.partitions == {}
    assert report.pinned_bytes == 0


def test_a_partition_with_a_few_records_keeps_whole_segments(world: World, log: SetLog) -> None:
    mixed(world, log)
    report = looked(world, log, p1=KEEP)
    ((partition, kept),) = report.heaviest(5)
    assert partition == partition_number(1)
    assert kept == (1, SEGMENT, SEGMENT)
    assert report.segments[0].partitions == (partition,)
    assert report.pinned_bytes == SEGMENT


def test_what_several_keep_is_nobodys_alone(world: World, log: SetLog) -> None:
    mixed(world, log)
    report = looked(world, log, p1=KEEP, p2=KEEP)
    by_number = {key.partition: each for key, each in report.partitions.items()}
    count = by_number[2].segments
    assert count > 5
    assert by_number[1] == (1, SEGMENT, 0 if report.segments[0].partition_count == 2 else SEGMENT)
    assert report.pinned_bytes == sum(
        each.size_bytes for each in report.segments if each.pin is Pin.PARTITIONS
    )


def test_movable_is_what_only_movable_partitions_keep(world: World, log: SetLog) -> None:
    mixed(world, log)
    report = looked(world, log, p1=KEEP, p2=MOVABLE)
    movable = [each for each in report.segments if each.partitions == (partition_number(2),)]
    assert len(movable) > 5
    assert report.movable.size_bytes == sum(each.size_bytes for each in movable)
    assert report.movable.oldest_base == movable[0].base
    assert report.movable.partitions == (partition_number(2),)


def test_after_the_movable_have_moved_the_segments_go(
    world: World, log: SetLog, disk: FaultyDisk
) -> None:
    mixed(world, log)
    report = looked(world, log, p1=MOVABLE, p2=MOVABLE)
    assert set(report.movable.partitions) == {partition_number(1), partition_number(2)}
    before = len(segment_files(disk))
    for partition in report.movable.partitions:
        moved = log.open_partition(partition)
        end = moved.log_end_offset
        fill(world, log, moved, 1)
        log.delete_records(moved, end)
    world.run()
    report = looked(world, log, p1=MOVABLE, p2=MOVABLE)
    assert report.movable.size_bytes == 0
    assert report.pinned_bytes == 0
    assert len(segment_files(disk)) < before - 5


def test_a_segment_whose_index_can_not_be_read_is_kept_and_said_so(
    world: World, log: SetLog, disk: FaultyDisk
) -> None:
    mixed(world, log)
    disk.fail("read", ".idx", errno.EIO)
    log.apply_retention(0, lambda _: KEEP)
    world.run()
    assert [each.pin for each in log.pins.segments].count(Pin.UNREAD) == 1


def test_the_files_alone_tell_the_same(world: World, log: SetLog, disk: FaultyDisk) -> None:
    mixed(world, log)
    two = log.open_partition(partition_number(2))
    log.delete_records(two, Offset(4))
    world.run()
    report = looked(world, log, p1=KEEP, p2=KEEP)
    log.close()
    found = read_pins(disk, DIRECTORY).pins
    assert found.partitions == report.partitions
    assert [each for each in found.segments if each.pin is not Pin.ACTIVE] == [
        each for each in report.segments if each.pin is Pin.PARTITIONS
    ]
    for name in [name for name in disk.names if name.endswith(".idx")]:
        disk.remove(name)
    assert read_pins(disk, DIRECTORY).pins.partitions == report.partitions


def test_the_files_tell_of_what_stands_behind_the_last_snapshot(
    world: World, log: SetLog, disk: FaultyDisk
) -> None:
    mixed(world, log)
    log.checkpoint()
    world.run()
    one, three = (log.open_partition(partition_number(n)) for n in (1, 3))
    fill(world, log, three, 1)
    log.delete_records(one, Offset(3))
    world.run()
    found = read_pins(disk, DIRECTORY).pins
    assert partition_number(1) not in found.partitions
    assert partition_number(0) in found.partitions


def test_dropped_partitions_keep_nothing(world: World, log: SetLog) -> None:
    mixed(world, log)
    log.drop_partition(partition_number(1))
    log.drop_partition(partition_number(2))
    report = looked(world, log, p1=KEEP, p2=KEEP)
    assert report.partitions == {}
