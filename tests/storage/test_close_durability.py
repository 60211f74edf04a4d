"""A clean close leaves what a power cut can not take back."""

import errno
from random import Random

import pytest

from harness.log_world import World, append, open_log, partition_number, read_all
from penstock.storage.commit_log.durable_mark import read_mark
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.storage.errors import LogFenced
from tests.storage.faulty_disk import FaultyDisk

BATCHES = 8


@pytest.mark.parametrize("policy", list(FlushPolicy))
@pytest.mark.parametrize("seed", range(6))
def test_everything_appended_before_a_clean_close_outlives_a_power_cut(policy, seed):
    # Nothing runs between the appends and the close: no sync of the log's own was under way.
    config = LogConfig(
        segment_bytes=65_536,
        staging_bytes=32_768,
        large_batch_bytes=16_384,
        reserve_bytes=0,
        flush_policy=policy,
    )
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    world.run()
    for number in range(BATCHES):
        append(log, partition, size=1000, fill=number)
    log.close()
    disk.power_loss(Random(seed))
    world = World()
    again = open_log(world, disk, config)
    found = again.open_partition(partition_number(0))
    assert found.log_end_offset == BATCHES
    assert len(read_all(world, again, found)) == BATCHES


SMALL_SYNCED = LogConfig(
    segment_bytes=65_536,
    staging_bytes=32_768,
    large_batch_bytes=16_384,
    checkpoint_interval_bytes=1 << 30,
    reserve_bytes=0,
)


class _SlowWorld(World):
    """A world where work off the loop can end long before the loop hears of it."""

    def end_work(self) -> None:
        """Let the next piece of work happen; `tell` says it on the loop."""
        work, done = self.work.pop(0)
        result, failure = None, None
        try:
            result = work()
        except OSError as error:
            failure = error
        self.finished.append(lambda: done(result, failure))

    def tell(self) -> None:
        """Say on the loop how the work has ended."""
        while self.finished:
            self.finished.pop(0)()


def _written_and_in_sync(disk):
    """A log with a batch that is written, and the sync of it handed out, and not begun."""
    world = _SlowWorld()
    log = open_log(world, disk, SMALL_SYNCED)
    partition = log.open_partition(partition_number(0))
    world.run()
    assert log.flushed_position == log.end_position
    append(log, partition, size=1500)
    world.turn()
    assert len(world.work) == 1
    return world, log


def _what_a_power_cut_leaves(disk):
    disk.heal()
    disk.power_loss(Random(0))
    world = World()
    again = open_log(world, disk, SMALL_SYNCED)
    return again.open_partition(partition_number(0)).log_end_offset, again.recovery.was_clean


def test_a_close_does_not_sync_again_what_a_failed_sync_has_lost():
    """The kernel takes the pages for clean after a failed sync: the next one succeeds."""
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    durable, told = log.durable_position, []
    log.on_durable = lambda: told.append(log.durable_position)
    disk.fail("sync", ".log", errno.EIO)
    world.end_work()  # failed, and the loop has not heard of it
    with pytest.raises(LogFenced):
        log.close()
    world.tell()
    assert told == []
    assert log.durable_position == durable
    assert log.is_fenced
    assert read_mark(disk, log.directory, _unexpected) <= durable
    assert not _what_a_power_cut_leaves(disk)[1], "a clean snapshot would spare the replay"


def test_a_close_during_a_sync_claims_nothing_that_the_sync_may_lose():
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    durable, told = log.durable_position, []
    log.on_durable = lambda: told.append(log.durable_position)
    log.close()
    disk.fail("sync", ".log", errno.EIO)
    world.end_work()
    world.tell()
    assert told == []
    assert log.durable_position == durable
    assert read_mark(disk, log.directory, _unexpected) <= durable
    world = World()
    again = open_log(world, disk, SMALL_SYNCED)
    assert not again.recovery.was_clean
    assert again.open_partition(partition_number(0)).log_end_offset == 1


def test_a_close_after_a_sync_that_has_worked_is_clean_though_the_loop_has_not_heard():
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    world.end_work()
    log.close()
    world.tell()
    assert _what_a_power_cut_leaves(disk) == (1, True)


def test_a_close_before_a_checkpoint_is_written_loses_nothing_that_it_has_taken():
    # It has taken the index entries up to here for its side file, and waits for the sync.
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    partition = log.open_partition(partition_number(0))
    world.run()
    log.checkpoint()
    world.run()
    append(log, partition, size=1500, fill=1)
    gone = log.open_partition(partition_number(1))
    append(log, gone, size=1500)
    log.drop_partition(gone.topic_partition)
    world.turn()
    log.checkpoint()
    append(log, partition, size=1500, fill=2)
    world.turn()
    while world.work:
        world.end_work()
    log.close()
    world = World()
    again = open_log(world, disk, SMALL_SYNCED)
    assert again.recovery.was_clean
    assert list(again.partitions) == [partition.topic_partition]
    assert len(read_all(world, again, again.open_partition(partition_number(0)))) == 3


def test_a_log_that_is_settled_first_is_closed_cleanly():
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    append(log, log.open_partition(partition_number(0)), size=1500)
    world.turn()
    settled = []
    log.settle(lambda: settled.append(len(world.work)))
    assert settled == []
    world.run()
    assert settled == [0]
    log.close()
    assert _what_a_power_cut_leaves(disk) == (2, True)


def test_a_log_whose_sync_fails_while_it_is_settled_is_fenced():
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    settled = []
    log.settle(lambda: settled.append(log.is_fenced))
    disk.fail("sync", ".log", errno.EIO)
    world.run()
    assert settled == [True]
    log.close()
    assert not _what_a_power_cut_leaves(disk)[1], "a clean snapshot would spare the replay"


def test_a_log_that_is_fenced_keeps_no_file_open_for_a_sync_that_never_comes():
    disk = FaultyDisk()
    world, log = _written_and_in_sync(disk)
    append(log, log.open_partition(partition_number(0)), size=1500)
    world.turn()  # to be synced by the next one
    disk.fail("sync", ".log", errno.EIO)
    world.run()
    assert log.is_fenced
    cleared = []
    log.parts.store.guard.when_clear(lambda: cleared.append(True))
    assert cleared == [True]


def _unexpected(text):
    raise AssertionError(text)
