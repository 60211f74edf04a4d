"""A truncation that meets a full disk, or a file of an older life: it is waited for, or gone."""

import errno

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch
from penstock.storage.config import Retention
from penstock.storage.errors import LogBusy
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import frames_of, member, reopened, settle


@pytest.mark.parametrize(
    "fault",
    [
        ("replace", "pending-change"),
        ("allocate", ".log"),
        ("sync_directory", "log"),
    ],
)
def test_a_truncation_that_finds_no_space_is_tried_again_until_it_does(fault):
    world, disk, log, _ = member(60)
    cut = sorted(frames_of(disk, log))[20]
    done: list[Exception | None] = []
    disk.fail(*fault, errno.ENOSPC, times=3)
    log.truncate(cut, done.append)
    world.run()
    assert done == []
    assert log.is_busy
    assert not log.is_fenced
    assert log.is_full
    with pytest.raises(LogBusy):
        log.read_run(0, 100, 1 << 60)
    for _ in range(5):
        world.advance(SMALL.space_check_ms)
    assert done == [None]
    assert log.end_position == cut
    assert not log.is_full
    assert not log.is_busy
    assert "set-1/pending-change" not in disk.names


@pytest.mark.parametrize("fault", [("allocate", ".log"), ("replace", ".snap")])
def test_a_truncation_below_the_snapshot_that_finds_no_space_keeps_what_only_the_plan_knew(fault):
    """The first attempt has removed segments that the plan was made from."""
    world, disk, log, _ = member(200)
    log.note_confirmed(log.end_position)
    world.run()
    cut = sorted(frames_of(disk, log))[20]
    disk.fail(*fault, errno.ENOSPC, times=2)
    done: list[Exception | None] = []
    log.truncate(cut, done.append)
    world.run()
    assert done == []
    world.advance(SMALL.space_check_ms)
    world.advance(SMALL.space_check_ms)
    assert done == [None]
    assert log.end_position == cut
    assert len(frames_of(disk, log)) == 20


def test_a_log_that_is_closed_while_it_waits_for_space_is_found_truncated_at_the_next_start():
    world, disk, log, _ = member(60)
    cut = sorted(frames_of(disk, log))[20]
    disk.fail("allocate", ".log", errno.ENOSPC)
    log.truncate(cut, lambda _: pytest.fail("nobody waits any more"))
    world.run()
    log.close()
    world.advance(5 * SMALL.space_check_ms)
    _, again, _ = reopened(disk)
    assert again.end_position == cut


def test_a_segment_that_was_recycled_does_not_come_back_behind_a_truncation():
    """Its frames name positions that the log reaches again, and follow the new ones exactly."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    kept, dropped = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, kept, size=1000)
    cut = log.end_position
    while log.end_position < 2 * SMALL.segment_bytes:
        append(log, dropped, size=1000)
        world.run()
    log.drop_partition(dropped.topic_partition)
    log.apply_retention(0, lambda _: Retention(-1, -1))
    world.run()
    assert len(log.parts.store.spares) == 1
    settle(world, log.truncate, cut)
    assert [name for name in disk.names if name.endswith(".spare")] == []
    log.begin_epoch(LeaderEpoch(2))
    kept = log.open_partition(partition_number(0))
    while log.end_position < SMALL.segment_bytes + 5000:
        append(log, kept, size=1000)
        world.run()
    disk.kill()
    world = World()
    again = open_log(world, disk)
    found = again.open_partition(partition_number(0))
    assert again.end_position == log.end_position
    assert found.log_end_offset == kept.log_end_offset


def test_offsets_that_only_the_plan_knew_survive_a_truncation_that_found_no_space():
    """The first attempt removes what a second plan would have to be made from."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    early, late = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, early, records=7)
    for _ in range(300):
        append(log, late, size=1000)
        world.run()
    log.apply_retention(0, lambda tp: Retention(150_000 if tp.partition == 1 else 0, -1))
    world.run()
    assert log.start_position > 0
    position = log.end_position
    for _ in range(2):
        for _ in range(10):
            append(log, late, size=1000)
        log.checkpoint()
        for _ in range(5):
            world.advance(1000)
    done: list[Exception | None] = []
    disk.fail("allocate", ".log", errno.ENOSPC)
    log.truncate(position, done.append)
    world.run()
    assert done == []
    world.advance(SMALL.space_check_ms)
    assert done == [None]
    ends = [log.open_partition(partition_number(number)).log_end_offset for number in range(2)]
    assert ends == [7, 300]
