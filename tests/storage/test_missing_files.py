"""Files that are gone at a start: what can not be made again is refused, and nothing is changed."""

import pytest

from harness.log_world import (
    DIRECTORY,
    SMALL,
    World,
    append,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import LeaderEpoch, Position
from penstock.storage.commit_log.durable_mark import mark_path
from penstock.storage.commit_log.files import has_log
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptLog
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member, take_run

BATCHES = 300


def filled(*, is_clean=True):
    """A disk with a log of several segments, of which the first one is gone by retention."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for number in range(BATCHES):
        append(log, partition, size=1000, fill=number)
        world.run()
    log.apply_retention(0, lambda _: Retention(220_000, -1))
    world.run()
    assert log.parts.store.segments[0].base > 0
    assert len(log.parts.store.segments) > 3
    if is_clean:
        log.close()
    else:
        disk.kill()
    return disk


def remove(disk, part):
    names = [name for name in disk.names if part in name]
    for name in names:
        disk.files.remove(name)
    return names


def segments(disk):
    return sorted(name for name in disk.names if name.endswith(".log"))


def test_a_first_segment_that_is_gone_is_refused_where_the_next_one_is_prepared():
    # The only snapshot is at the log's start: it counts on no segment.
    world, disk = World(), FaultyDisk()
    log = open_member(world, disk)
    log.begin_epoch(LeaderEpoch(1))
    append(log, log.open_partition(partition_number(0)))
    world.run()
    assert len(segments(disk)) == 2
    disk.kill()
    disk.files.remove(segments(disk)[0])
    before = contents(disk)
    with pytest.raises(CorruptLog, match="at position 0: the segment file is missing"):
        open_member(World(), disk)
    assert contents(disk) == before


def contents(disk):
    return {name: bytes(node.data) for name, node in disk.names.items()}


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_whose_segment_files_are_all_gone_is_refused_and_left_as_it_is(is_clean):
    disk = filled(is_clean=is_clean)
    remove(disk, ".log")
    remove(disk, ".spare")
    before = contents(disk)
    with pytest.raises(CorruptLog, match="segment file is missing"):
        open_log(World(), disk)
    assert contents(disk) == before


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_young_log_whose_only_segment_file_is_gone_is_refused(is_clean):
    # Its base is 0, which is where a new log begins.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    append(log, log.open_partition(partition_number(0)))
    world.run()
    if is_clean:
        log.close()
    remove(disk, ".log")
    before = contents(disk)
    with pytest.raises(CorruptLog):
        open_log(World(), disk)
    if is_clean:
        assert contents(disk) == before


@pytest.mark.parametrize("at", [0, 1, -2])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_with_one_segment_file_missing_is_refused_and_left_as_it_is(is_clean, at):
    disk = filled(is_clean=is_clean)
    if not is_clean and at == -2:
        # The last of all is prepared ahead and empty.
        at = -3
    gone = segments(disk)[at]
    disk.files.remove(gone)
    before = contents(disk)
    with pytest.raises(CorruptLog) as found:
        open_log(World(), disk)
    assert found.value.position == int(gone[-24:-4])
    assert contents(disk) == before


def test_all_segment_files_and_all_snapshots_gone_is_refused_while_the_note_of_syncs_is_there():
    disk = filled()
    remove(disk, ".log")
    remove(disk, ".snap")
    assert mark_path(DIRECTORY) in disk.names
    with pytest.raises(CorruptLog):
        open_log(World(), disk)


def test_side_files_and_indexes_that_are_gone_are_made_again():
    disk = filled()
    gone = remove(disk, ".side") + remove(disk, ".idx")
    assert len(gone) > 3
    world = World()
    log = open_log(world, disk)
    found = log.open_partition(partition_number(0))
    assert found.log_end_offset == BATCHES
    assert len(read_all(world, log, found)) == BATCHES - found.log_start_offset


def test_snapshots_that_are_gone_are_made_again_from_the_segments():
    disk = filled()
    remove(disk, ".snap")
    world = World()
    log = open_log(world, disk)
    found = log.open_partition(partition_number(0))
    assert found.log_end_offset == BATCHES
    assert len(read_all(world, log, found)) == BATCHES - found.log_start_offset


def test_an_empty_log_that_lost_its_first_file_begins_again_where_it_was():
    world, disk = World(), FaultyDisk()
    log = open_member(world, disk)
    log.reset_to(Position(SMALL.segment_bytes), Position(2 * SMALL.segment_bytes), lambda _: None)
    world.run()
    log.close()
    remove(disk, ".log")
    again = open_member(World(), disk)
    assert again.end_position == again.start_position == SMALL.segment_bytes


def test_a_follower_that_is_killed_at_the_start_of_a_segment_without_a_file_opens_again():
    """Its snapshot names the segment, and the file was still to be made."""
    world, disk = World(), FaultyDisk()
    master = open_log(world, FaultyDisk())
    partition = master.open_partition(partition_number(0))
    for number in range(70):
        append(master, partition, size=1000, fill=number)
        world.run()
    slave = open_member(world, disk)
    (making_the_next_file,) = world.work
    world.work.clear()
    while slave.end_position < SMALL.segment_bytes:
        slave.append_run(take_run(world, master, slave.end_position))
        world.run()
    assert slave.parts.store.active.file is None
    del making_the_next_file  # it never gets its turn
    slave.note_confirmed(slave.end_position)
    slave.checkpoint()
    world.run()
    assert slave.snapshot_position == slave.end_position == SMALL.segment_bytes
    disk.kill()
    again = open_member(World(), disk)
    assert again.end_position == SMALL.segment_bytes


def test_a_log_is_there_when_any_file_says_so():
    disk = FaultyDisk()
    disk.make_directory(DIRECTORY)
    disk.replace(f"{DIRECTORY}/replica.json", b"{}")
    assert not has_log(disk, DIRECTORY)
    disk = filled()
    for part in (".log", ".snap", ".idx", ".side"):
        assert has_log(disk, DIRECTORY)
        remove(disk, part)
    assert has_log(disk, DIRECTORY), "the note of syncs is there"
    remove(disk, mark_path(DIRECTORY))
    remove(disk, ".spare")
    assert not has_log(disk, DIRECTORY)
