"""Full disks refuse and resume; failed writes and syncs fence; slow files hold nothing up."""

import errno
from dataclasses import replace

import pytest

from harness.log_world import (
    SMALL,
    World,
    append,
    async_config,
    make_batch,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import LeaderEpoch, Position
from penstock.record.batch import read_header
from penstock.storage.config import LogConfig, Retention
from penstock.storage.errors import BatchTooLargeForLog, LogFenced, OutOfSpace, SegmentNotReady
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.filling import fill
from tests.storage.replicas import open_member, take_run


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


def test_a_full_disk_refuses_appends_while_reads_and_deletes_go_on(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    count = fill(world, log, partition)
    assert count > 100
    assert log.is_full
    assert not log.is_fenced
    assert log.flushed_position == log.end_position
    assert partition.log_end_offset == count
    assert len(read_all(world, log, partition)) == count
    with pytest.raises(OutOfSpace):
        append(log, partition, size=1000)
    log.apply_retention(0, lambda _: Retention(70_000, -1))
    world.run()
    assert partition.log_start_offset > 0
    world.advance(SMALL.space_check_ms)
    assert not log.is_full
    append(log, partition, size=1000)
    world.run()
    assert log.flushed_position == log.end_position


def test_writes_resume_by_themselves_when_somebody_else_frees_space(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    count = fill(world, log, partition)
    disk.capacity = 1 << 40
    world.advance(SMALL.space_check_ms)
    assert not log.is_full
    assert append(log, partition, size=1000) == partition.log_end_offset - 1 >= count


def test_the_reserve_is_left_free(world, disk):
    disk.capacity = 1_000_000
    config = LogConfig(
        segment_bytes=65_536, checkpoint_interval_bytes=1 << 30, reserve_bytes=400_000
    )
    log = open_log(world, disk, config)
    fill(world, log, log.open_partition(partition_number(0)))
    assert disk.free_bytes() >= 390_000


def test_an_append_that_is_refused_changes_nothing(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition)
    before = (
        log.end_position,
        partition.log_end_offset,
        partition.size_bytes,
        len(partition.bases),
    )
    large = make_batch(size=60_000, producer=(3, 0, 0))
    with pytest.raises(OutOfSpace):
        log.append(partition, large, read_header(large))
    after = (log.end_position, partition.log_end_offset, partition.size_bytes, len(partition.bases))
    assert after == before
    assert partition.producers.check(read_header(make_batch(producer=(3, 0, 7)))) is None


@pytest.mark.parametrize("size", [200, 5000])
def test_a_write_that_finds_no_space_is_tried_again_and_acknowledged_only_then(world, disk, size):
    log = open_log(world, disk)
    world.run()
    partition = log.open_partition(partition_number(0))
    durable = []
    log.on_durable = lambda: durable.append(log.durable_position)
    before = log.end_position
    disk.fail("write", ".log", errno.ENOSPC)
    if size == 5000:
        with pytest.raises(OutOfSpace):
            append(log, partition, size=size)
        assert log.end_position == before
        append(log, partition, size=size)
    else:
        append(log, partition, size=size)
    world.turn()
    if size == 200:
        assert log.is_full
        assert durable == []
    world.advance(SMALL.space_check_ms)
    assert durable[-1] == log.end_position
    assert not log.is_full
    assert len(read_all(world, log, partition)) == 1


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_io_error_fences_the_log_for_good(world, disk, operation):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    append(log, partition)
    world.run()
    told: list[Exception] = []
    log.on_fenced = told.append
    durable = log.durable_position
    disk.fail(operation, ".log", errno.EIO)
    append(log, partition)
    world.run()
    assert log.is_fenced
    assert len(told) == 1
    assert isinstance(told[0], LogFenced)
    assert log.durable_position == durable
    with pytest.raises(LogFenced):
        append(log, partition)
    world.advance(10_000)
    assert log.flushed_position == durable, "a later sync that works means nothing"
    assert len(read_all(world, log, partition, durable)) == 1
    log.close()
    world = World()
    again = open_log(world, disk)
    assert again.open_partition(partition_number(0)).log_end_offset >= 1


def test_a_fenced_log_leaves_no_clean_snapshot_behind(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    disk.fail("sync", ".log", errno.EIO)
    append(log, partition)
    world.run()
    log.close()
    assert not open_log(World(), disk).recovery.was_clean


def test_failed_derived_files_do_not_fence(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for number in range(600):
        if number % 40 == 0:
            for operation, kind in (("write", ".side"), ("replace", ".snap"), ("replace", ".idx")):
                disk.fail(operation, kind, errno.EIO)
        append(log, partition, size=700, fill=number)
        world.run()
    assert not log.is_fenced
    assert len(read_all(world, log, partition)) == 600
    disk.faults.clear()
    again = open_log(World(), disk)
    assert again.open_partition(partition_number(0)).log_end_offset == 600


def test_flushed_position_never_passes_an_older_segment_that_is_not_synced(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    world.run()
    synced = []
    disk.on_operation = lambda kind, path: synced.append(path) if kind == "sync" else None
    while len(log.writer._store.segments) == 1:
        append(log, partition, size=1000)
        if log.end_position > 60_000:
            world.turn()
    world.turn()
    old, new = (segment.path for segment in log.writer._store.segments)
    while log.flushed_position < log.end_position:
        world.work_one()
        world.turn()
        if log.flushed_position > SMALL.segment_bytes:
            assert old in synced
    logs = [path for path in synced if path in (old, new)]
    assert logs.index(old) < logs.index(new)


def test_one_sync_covers_everything_that_was_written_before_it_began(world, disk):
    log = open_log(world, disk)
    world.run()
    partition = log.open_partition(partition_number(0))
    syncs = []
    disk.on_operation = lambda kind, path: syncs.append(path) if kind == "sync" else None
    append(log, partition)
    world.turn()
    first = log.written_position
    for _ in range(10):
        append(log, partition)
        world.turn()
    assert syncs == []
    world.work_one()
    assert log.flushed_position == first
    world.run()
    assert log.flushed_position == log.end_position
    assert len(syncs) == 2


def test_appends_of_one_turn_are_one_write(world, disk):
    log = open_log(world, disk)
    world.run()
    partition = log.open_partition(partition_number(0))
    writes = []
    disk.on_operation = lambda kind, path: writes.append(path) if kind == "write" else None
    for _ in range(20):
        append(log, partition)
    assert writes == []
    world.turn()
    assert len(writes) == 1


def test_under_async_written_counts_as_durable_and_syncs_follow_by_time(world, disk):
    log = open_log(world, disk, async_config())
    world.run()
    world.advance(1000)
    partition = log.open_partition(partition_number(0))
    told = []
    log.on_durable = lambda: told.append(log.durable_position)
    append(log, partition)
    world.run()
    assert told == [log.end_position]
    assert log.flushed_position < log.end_position
    world.advance(SMALL.flush_interval_ms)
    assert log.flushed_position == log.end_position


def test_under_async_many_bytes_are_synced_before_the_time_is_over(world, disk):
    config = async_config(flush_interval_bytes=10_000, flush_interval_ms=60_000)
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    for _ in range(30):
        append(log, partition, size=1000)
        world.run()
    assert log.flushed_position > log.end_position - 12_000


def test_a_batch_that_can_never_fit_is_told_so(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    with pytest.raises(BatchTooLargeForLog):
        append(log, partition, size=65_500)
    append(log, partition, size=65_536 - 48 - 60 - 48 - 1024)
    world.run()
    assert log.flushed_position == log.end_position


def test_appends_wait_in_memory_while_the_next_file_is_being_allocated(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    count = 0
    try:
        while count < 200:
            append(log, partition, size=1000)
            count += 1
            world.turn()  # nothing off the loop happens
    except SegmentNotReady as error:
        assert "disk is behind" in str(error)  # noqa: PT017  the loop may also end by itself
    assert not log.is_full
    assert log.end_position > SMALL.segment_bytes
    assert log.written_position <= SMALL.segment_bytes
    world.run()
    assert log.flushed_position == log.end_position
    assert not log.is_full
    assert len(read_all(world, log, partition)) == count


def test_unknown_callbacks_are_not_needed(world, disk):
    log = open_log(world, disk)
    append(log, log.open_partition(partition_number(0)))
    world.run()
    log.close()
    log.close()


def test_deletes_and_epochs_go_on_when_the_disk_is_full(world, disk):
    disk.capacity = 300_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    count = fill(world, log, partition)
    assert log.is_full
    assert log.delete_records(partition, count - 5) == count - 5
    log.begin_epoch(LeaderEpoch(2))
    world.run()
    assert log.flushed_position == log.end_position
    world = World()
    disk.capacity = disk.used
    again = open_log(world, disk)
    assert again.leader_epoch == 2
    assert again.open_partition(partition_number(0)).log_start_offset == count - 5


def test_dead_segments_go_although_there_is_no_room_left_for_a_snapshot(world, disk):
    disk.capacity = 400_000
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition)
    disk.capacity = disk.used
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert partition.log_start_offset > 0
    world.advance(SMALL.space_check_ms)
    assert disk.free_bytes() > 0 or not log.is_full
    append(log, partition, size=1000)
    world.run()
    assert log.flushed_position == log.end_position


@pytest.mark.parametrize("operation", ["sync", "allocate"])
def test_an_io_error_while_a_segment_is_fitted_fences_the_log(world, disk, operation):
    slave = open_member(world, disk)
    master = open_log(world, FaultyDisk(), replace(SMALL, segment_bytes=131_072))
    append(master, master.open_partition(partition_number(0)), size=1000)
    world.run()
    told: list[Exception] = []
    slave.on_fenced = told.append
    assert slave.append_run(take_run(world, master, 0)) == 0
    disk.fail(operation, ".log", errno.EIO)
    world.run()
    assert slave.is_fenced
    assert len(told) == 1


def test_a_segment_is_fitted_when_nothing_in_it_is_still_to_be_synced(world, disk):
    """The sync of the new size would take the error of bytes that it has not written."""
    slave = open_member(world, disk, async_config())
    master = open_log(world, FaultyDisk())
    partition = master.open_partition(partition_number(0))
    append(master, partition, size=1000)
    world.run()
    run = take_run(world, master, 0)
    assert slave.append_run(run) == len(run.data)
    world.turn()
    assert slave.flushed_position < slave.written_position
    append(master, partition, size=1000)
    world.run()
    wider = take_run(world, master, slave.end_position)._replace(file_end=Position(131_072))
    told: list[Exception] = []
    slave.on_fenced = told.append
    disk.fail("sync", ".log", errno.EIO)
    assert slave.append_run(wider) == 0
    world.run()
    assert slave.is_fenced
    assert "sync failed" in str(told[0])
    assert slave.flushed_position < slave.written_position
    assert slave.parts.store.active.end == SMALL.segment_bytes


def test_more_rolls_than_files_are_held_open_during_one_sync_close_none_before_its_sync(
    world, disk
):
    config = replace(SMALL, open_segments_max=1)
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    world.run()
    append(log, partition, size=1000)
    world.turn()  # a sync is handed out, and does not end
    sync = world.work.pop(0)
    while len(log.parts.store.segments) < 6:
        append(log, partition, size=1000)
        world.run()
    world.work.append(sync)
    world.run()
    assert not log.is_fenced
    assert log.flushed_position == log.end_position
    files = [segment.file for segment in log.parts.store.segments]
    assert sum(file is not None for file in files) == 2, "the newest closed one and the active one"
