"""What recovery comes back with is durable: no power cut behind a start takes any of it."""

import errno
from random import Random

import pytest

from harness.log_world import Crashed, World, append, open_log, partition_number, read_all
from penstock.base.ids import LeaderEpoch
from penstock.storage.config import LogConfig, Retention
from penstock.storage.errors import OutOfSpace
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member

CONFIG = LogConfig(
    segment_bytes=65_536,
    staging_bytes=32_768,
    large_batch_bytes=16_384,
    checkpoint_interval_bytes=1 << 30,
    reserve_bytes=0,
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("batches", [5, 60])
def test_a_tail_that_only_the_page_cache_had_is_durable_after_the_next_start(batches, seed):
    # With 60 batches the log rolls: the unsynced bytes lie in a closed segment as well.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    world.run()
    for number in range(batches):
        append(log, partition, size=1500, fill=number)
        world.turn()  # written, and no sync gets its turn
    assert (log.end_position > CONFIG.segment_bytes) == (batches == 60)
    disk.kill()
    world = World()
    log = open_log(world, disk, CONFIG)
    assert log.durable_position == log.end_position
    assert log.open_partition(partition_number(0)).log_end_offset == batches
    disk.power_loss(Random(seed))
    world = World()
    again = open_log(world, disk, CONFIG)
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == batches


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("batches", [5, 60])
def test_what_a_failed_sync_left_in_the_page_cache_is_durable_or_gone_after_the_next_start(
    batches, seed
):
    """The kernel takes those pages for clean: no later sync alone would write them."""
    world, disk = World(), FaultyDisk()
    disk.rng = Random(seed)
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    world.run()
    disk.fail("sync", ".log", errno.EIO, times=None)
    for number in range(batches):
        append(log, partition, size=1500, fill=number)
        world.turn()
    world.run()
    assert log.is_fenced
    disk.kill()
    disk.heal()
    world = World()
    log = open_log(world, disk, CONFIG)
    kept = log.open_partition(partition_number(0)).log_end_offset
    disk.power_loss(Random(seed))
    world = World()
    again = open_log(world, disk, CONFIG)
    found = again.open_partition(partition_number(0))
    assert found.log_end_offset == kept
    assert len(read_all(world, again, found)) == kept


@pytest.mark.parametrize("seed", range(12))
def test_a_start_that_was_killed_while_it_emptied_the_tail_leaves_no_segment_too_long(seed):
    """The file is cut in the page cache only; the next start goes on in a segment behind it."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    append(log, log.open_partition(partition_number(0)))
    world.run()
    log.checkpoint()
    world.run()
    end = log.end_position
    disk.kill()

    def crash(operation: str, _: str) -> None:
        if operation == "allocate":
            raise Crashed

    disk.on_operation = crash
    with pytest.raises(Crashed):
        open_log(World(), disk, CONFIG)
    disk.on_operation = None
    disk.kill()
    open_log(World(), disk, CONFIG)
    disk.power_loss(Random(seed))
    assert open_log(World(), disk, CONFIG).end_position == end


def refuse_allocation(disk: FaultyDisk, error: BaseException) -> None:
    def refuse(operation: str, path: str) -> None:
        if operation == "allocate" and path.endswith(".log"):
            raise error

    disk.on_operation = refuse


@pytest.mark.parametrize("error", [Crashed(), OSError(errno.ENOSPC, "full")])
def test_a_segment_that_a_start_left_without_bytes_does_not_stay_beside_the_one_that_replaces_it(
    error: BaseException,
) -> None:
    """Retention took the empty one for dead, and its file was that of the other one."""
    world, disk = World(), FaultyDisk()
    refuse_allocation(disk, error)
    with pytest.raises((Crashed, OutOfSpace)):
        open_member(world, disk, CONFIG)
    disk.on_operation = None
    disk.kill()
    log = open_member(world, disk, CONFIG)
    assert [segment.base for segment in log.parts.store.segments] == [0]
    log.begin_epoch(LeaderEpoch(1))
    append(log, log.open_partition(partition_number(0)))
    world.run()
    log.note_confirmed(log.end_position)
    log.apply_retention(world.now_ms, lambda _: Retention(-1, -1))
    world.run()
    disk.power_loss(Random(1))
    again = open_member(World(), disk, CONFIG)
    assert again.open_partition(partition_number(0)).log_end_offset == 1
