"""What is in memory, what the next snapshot says, and what a start makes of it are the same."""

import errno

import pytest

from harness.log_world import (
    SMALL,
    World,
    append,
    make_batch,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import Offset, Position
from penstock.frames.frames import KIND_LOG_START, LOG_START_PAYLOAD, build_frame
from penstock.record.batch import read_header
from penstock.storage.config import Retention
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import give_run, open_member, replicate, take_run


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


def checkpoint(world, log):
    """Have a snapshot written by the running log."""
    done: list[bool] = []
    log.checkpoint(done.append)
    for _ in range(5):
        world.advance(1000)
    assert done == [True]
    assert log.snapshot_position == log.end_position


def killed_and_opened(disk):
    disk.kill()
    world = World()
    return world, open_log(world, disk)


def test_records_deleted_after_a_snapshot_stay_deleted_in_the_next_one(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for _ in range(10):
        append(log, partition)
    checkpoint(world, log)
    log.delete_records(partition, Offset(6))
    checkpoint(world, log)
    _, again = killed_and_opened(disk)
    assert again.recovery.replayed_frames == 0
    assert again.open_partition(partition_number(0)).log_start_offset == 6


def test_records_that_a_master_deleted_stay_deleted_at_its_slave(world, disk):
    master, slave = open_log(world, FaultyDisk()), open_member(world, disk)
    partition = master.open_partition(partition_number(0))
    for _ in range(10):
        append(master, partition)
    world.run()
    replicate(world, master, slave)
    slave.note_confirmed(slave.end_position)
    checkpoint(world, slave)
    master.delete_records(partition, Offset(6))
    world.run()
    replicate(world, master, slave)
    slave.note_confirmed(slave.end_position)
    checkpoint(world, slave)
    disk.kill()
    again = open_member(World(), disk)
    assert again.recovery.replayed_frames == 0
    assert again.open_partition(partition_number(0)).log_start_offset == 6


def test_a_partition_dropped_after_a_snapshot_is_in_no_later_one(world, disk):
    log = open_log(world, disk)
    kept, dropped = (log.open_partition(partition_number(number)) for number in range(2))
    for partition in (kept, dropped):
        append(log, partition)
    checkpoint(world, log)
    log.drop_partition(dropped.topic_partition)
    append(log, kept)
    checkpoint(world, log)
    _, again = killed_and_opened(disk)
    assert list(again.partitions) == [kept.topic_partition]


def test_a_new_partition_knows_no_producer_of_a_dropped_one_whose_number_it_got(world, disk):
    """Its first records would pass for repeated ones: answered, and not written."""
    log = open_log(world, disk)
    kept, dropped = (log.open_partition(partition_number(number)) for number in range(2))
    for partition in (kept, dropped):
        append(log, partition, producer=(7, 0, 0))
    checkpoint(world, log)
    log.drop_partition(dropped.topic_partition)
    append(log, kept, producer=(7, 0, 1))
    checkpoint(world, log)
    _, again = killed_and_opened(disk)
    new = again.open_partition(partition_number(2))
    assert new.serial == dropped.serial
    assert new.producers.check(read_header(make_batch(producer=(7, 0, 0)))) is None


def test_a_close_beside_a_checkpoint_has_the_partitions_that_did_not_change(world, disk):
    log = open_log(world, disk)
    partitions = [log.open_partition(partition_number(number)) for number in range(3)]
    for partition in partitions:
        append(log, partition)
    checkpoint(world, log)
    while log.end_position < 2 * SMALL.segment_bytes:
        append(log, partitions[0], size=1000)
        world.run()
    checkpoint(world, log)
    append(log, partitions[0])
    world.run()
    log.checkpoint()
    while not log.parts.checkpointer._is_writing:
        world.turn()
        if not log.parts.checkpointer._is_writing:
            world.work_one()
    log.close()
    snapshots = [name for name in disk.names if name.endswith(".snap")]
    world.run()  # the checkpoint that was under way comes to its end
    assert [name for name in disk.names if name.endswith(".snap")] == snapshots
    again = open_log(World(), disk)
    assert again.recovery.was_clean
    ends = [again.open_partition(one.topic_partition).log_end_offset for one in partitions]
    assert ends == [one.log_end_offset for one in partitions]


def test_a_side_file_begun_after_a_failed_one_holds_what_that_held(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for number in range(5):
        append(log, partition, fill=number)
    checkpoint(world, log)
    disk.fail("write", ".side", errno.EIO)
    append(log, partition, fill=5)
    log.checkpoint()
    for _ in range(3):
        world.advance(1000)
    append(log, partition, fill=6)
    checkpoint(world, log)
    world, again = killed_and_opened(disk)
    found = again.open_partition(partition_number(0))
    assert again.recovery.replayed_frames == 0
    assert again.recovery.damaged_files == []
    assert len(found.bases) == 7
    assert len(read_all(world, again, found)) == 7


def test_a_start_gives_side_files_numbers_that_were_never_used(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))

    def newest():
        return max(int(name[-10:-5]) for name in disk.names if name.endswith(".side"))

    for _ in range(3):
        append(log, partition)
        checkpoint(world, log)
        before = newest()
        world, log = killed_and_opened(disk)
        partition = log.open_partition(partition_number(0))
        assert newest() > before


def test_a_partition_made_after_a_start_shares_no_producer_with_an_older_one(world, disk):
    log = open_log(world, disk)
    for number in range(2):
        append(log, log.open_partition(partition_number(number)), producer=(5, 0, 0))
    world.run()
    log.close()
    _, again = killed_and_opened(disk)
    new = again.open_partition(partition_number(2))
    assert new.producers.check(read_header(make_batch(producer=(5, 0, 0)))) is None


def test_a_slave_that_dropped_a_partition_has_it_anew_with_what_comes(world, disk):
    master, slave = open_log(world, FaultyDisk()), open_member(world, disk)
    partition = master.open_partition(partition_number(0))
    key = partition.topic_partition
    append(master, partition)
    world.run()
    replicate(world, master, slave)
    slave.drop_partition(key)
    append(master, partition)
    world.run()
    replicate(world, master, slave)
    assert (slave.partitions[key].log_start_offset, slave.partitions[key].log_end_offset) == (1, 2)
    assert len(read_all(world, slave, slave.partitions[key])) == 1


def test_a_batch_that_ends_at_a_position_lies_below_it(world, disk):
    log = open_log(world, disk)
    partition, other = (log.open_partition(partition_number(number)) for number in range(2))
    ends = []
    for number in range(6):
        append(log, partition, records=2)
        ends.append(log.end_position)
        if number % 2:
            append(log, other)
    world.run()
    for number, end in enumerate(ends):
        assert log.known_offset_at(partition, end) == 2 * number + 2
        assert log.known_offset_at(partition, Position(end - 1)) == 2 * number
        assert log.known_offset_at(partition, Position(end + 1)) == 2 * number + 2


def test_a_record_of_exactly_the_age_that_is_kept_stays(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    while log.end_position < 2 * SMALL.segment_bytes:
        append(log, partition, size=1000, timestamp=5000)
        world.run()
    log.apply_retention(6000, lambda _: Retention(-1, 1000))
    world.run()
    assert partition.log_start_offset == 0
    log.apply_retention(6001, lambda _: Retention(-1, 1000))
    world.run()
    assert partition.log_start_offset > 0


def shared_segments(world, log):
    """Fill three segments; return a partition that has a size limit, and one that keeps files."""
    mine, pinning = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, pinning)
    while log.end_position < 3 * SMALL.segment_bytes:
        append(log, mine, size=1000)
        if mine.log_end_offset % 40 == 0:
            append(log, pinning)
        world.run()
    return mine


def limit_of_one(key):
    return Retention(100_000, -1) if key.partition == 0 else Retention(-1, -1)


def test_what_was_taken_off_the_size_is_not_taken_off_again_while_its_file_stays(world, disk):
    log = open_log(world, disk)
    mine = shared_segments(world, log)
    for _ in range(3):
        log.apply_retention(0, limit_of_one)
        world.run()
        kept = mine.log_end_offset - mine.log_start_offset
        assert mine.log_start_offset > 0
        assert mine.size_bytes == 1000 * kept
    assert log.parts.store.segments[0].base == 0, "the other partition keeps the files"


def test_what_was_taken_off_the_size_is_not_taken_off_again_after_a_start(world, disk):
    log = open_log(world, disk)
    shared_segments(world, log)
    log.apply_retention(0, limit_of_one)
    world.run()
    checkpoint(world, log)
    world, again = killed_and_opened(disk)
    mine = again.open_partition(partition_number(0))
    assert mine.log_start_offset > 0
    again.apply_retention(0, limit_of_one)
    world.run()
    assert mine.size_bytes == 1000 * (mine.log_end_offset - mine.log_start_offset)
    assert again.parts.store.segments[0].base == 0, "the other partition keeps the files"


def test_the_newest_time_of_a_partition_stands_in_every_later_snapshot(world, disk):
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for timestamp in (5000, 9000, 7000):
        append(log, partition, timestamp=timestamp)
    for _ in range(2):
        checkpoint(world, log)
        world, log = killed_and_opened(disk)
        partition = log.open_partition(partition_number(0))
        assert partition.max_timestamp == 9000
        append(log, partition, timestamp=1000)


def test_a_log_start_that_a_master_puts_behind_the_end_is_the_end_before_and_after_a_start(
    world, disk
):
    master, slave = open_log(world, FaultyDisk()), open_member(world, disk)
    for _ in range(10):
        append(master, master.open_partition(partition_number(0)))
    world.run()
    replicate(world, master, slave)
    own = slave.open_partition(partition_number(0))
    at, payload = slave.end_position, LOG_START_PAYLOAD.pack(1_000)
    frame = build_frame(
        KIND_LOG_START, own.frame_key, payload, leader_epoch=1, position=at, unflushed=at
    )
    run = take_run(world, master, 0)._replace(position=at, data=memoryview(frame))
    give_run(world, slave, run)
    world.run()
    assert (own.log_start_offset, own.log_end_offset) == (10, 10)
    disk.kill()
    again = open_member(World(), disk)
    assert again.recovery.replayed_frames > 0
    own = again.open_partition(partition_number(0))
    assert (own.log_start_offset, own.log_end_offset) == (10, 10)
