"""Retention, deletion, recycling, DeleteRecords, dropped partitions, epochs."""

import errno

import pytest

from harness.log_world import (
    SMALL,
    World,
    append,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import TopicPartition
from penstock.base.invariant import InvariantViolation
from penstock.storage.commit_log.pins import Pin
from penstock.storage.config import Retention
from penstock.storage.errors import OffsetOutOfRange
from tests.storage.faulty_disk import FaultyDisk

KEEP = Retention(-1, -1)


@pytest.fixture
def world():
    return World()


@pytest.fixture
def disk():
    return FaultyDisk()


@pytest.fixture
def log(world, disk):
    return open_log(world, disk)


def fill(world, log, partition, batches, size=1000, timestamp=1000):
    for _ in range(batches):
        append(log, partition, size=size, timestamp=timestamp)
        world.run()


def segment_files(disk):
    return [name for name in disk.names if name.endswith(".log")]


def test_old_data_goes_and_its_files_with_it(world, log, disk):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 200, timestamp=1000)
    fill(world, log, partition, 200, timestamp=9000)
    before = len(segment_files(disk))
    log.apply_retention(10_000, lambda _: Retention(-1, 5000))
    world.run()
    assert 100 < partition.log_start_offset <= 200
    assert len(segment_files(disk)) < before
    assert len(read_all(world, log, partition)) == 400 - partition.log_start_offset
    assert partition.size_bytes == 1000 * (400 - partition.log_start_offset)


def test_size_is_kept_at_or_above_the_limit(world, log):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 400)
    log.apply_retention(0, lambda _: Retention(150_000, -1))
    world.run()
    assert 150_000 <= partition.size_bytes <= 150_000 + SMALL.segment_bytes


def test_without_limits_nothing_goes(world, log, disk):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 300)
    log.apply_retention(1 << 50, lambda _: KEEP)
    world.run()
    assert partition.log_start_offset == 0


def test_batches_without_a_timestamp_are_not_old(world, log):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 200, timestamp=-1)
    log.apply_retention(1 << 50, lambda _: Retention(-1, 1))
    world.run()
    assert partition.log_start_offset == 0


def test_a_segment_stays_while_one_partition_still_needs_it(world, log, disk):
    short, long = (log.open_partition(partition_number(number)) for number in (0, 1))
    append(log, long, size=100)
    fill(world, log, short, 400)
    settings = {short.topic_partition: Retention(0, -1), long.topic_partition: KEEP}
    log.apply_retention(0, settings.__getitem__)
    world.run()
    assert short.log_start_offset > 300
    names = sorted(segment_files(disk))
    assert names[0].endswith(f"{0:020d}.log"), "holds the batch that is kept"
    assert names[1] > f"set-1/log/{4 * SMALL.segment_bytes:020d}.log", "later ones went before it"
    assert len(read_all(world, log, long)) == 1
    world = World()
    again = open_log(world, disk)
    assert len(read_all(world, again, again.open_partition(partition_number(1)))) == 1
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == 400 - found.log_start_offset
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.remove(name)
    world = World()
    rebuilt = open_log(world, disk)
    found = rebuilt.open_partition(partition_number(0))
    assert found.log_end_offset == 400
    assert read_all(world, rebuilt, found)


def test_files_go_only_after_a_snapshot_has_the_new_log_starts(world, log, disk):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 300)
    order = []
    disk.on_operation = lambda kind, path: order.append((kind, path[-5:]))
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    kinds = [
        kind for kind, path in order if path == ".snap" or (kind == "rename" and ".log" in path)
    ]
    assert kinds[0] == "replace"


@pytest.mark.parametrize("kept_bytes", [0, 40_000])
def test_where_an_older_snapshot_has_to_do_log_starts_are_where_records_are(
    world, log, disk, kept_bytes
):
    # Its log starts point at segments that went since: nobody could read there, and retention
    # would never get beyond them. The partition that is gone as a whole has nothing left at all.
    gone, partition = (log.open_partition(partition_number(number)) for number in (1, 0))
    fill(world, log, gone, 30)
    fill(world, log, partition, 300)
    older = sorted(name for name in disk.names if name.endswith(".snap"))
    log.apply_retention(0, lambda one: Retention(kept_bytes if one == key_of(partition) else 0, -1))
    world.run()
    start = partition.log_start_offset
    newest = sorted(name for name in disk.names if name.endswith(".snap"))[-1]
    assert newest not in older
    disk.names[newest].data[20] ^= 1
    world = World()
    again = open_log(world, disk)
    found = again.partitions[key_of(partition)]
    records = read_all(world, again, found)
    assert 0 < found.log_start_offset <= start
    assert len(records) == 300 - found.log_start_offset
    assert found.size_bytes == 1000 * len(records)
    assert again.partitions[key_of(gone)].log_start_offset == 30
    again.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert found.log_start_offset > start or kept_bytes == 0
    assert again.start_position > log.start_position or kept_bytes == 0


def test_where_an_older_snapshot_has_to_do_no_log_start_lies_before_a_gap(world, log, disk):
    # The first segment is kept for another partition, and those behind it went.
    pinning, partition = (log.open_partition(partition_number(number)) for number in (1, 0))
    append(log, pinning, size=100)
    fill(world, log, partition, 300)
    settings = {key_of(pinning): KEEP, key_of(partition): Retention(40_000, -1)}
    log.apply_retention(0, settings.__getitem__)
    world.run()
    newest = sorted(name for name in disk.names if name.endswith(".snap"))[-1]
    disk.names[newest].data[20] ^= 1
    world = World()
    again = open_log(world, disk)
    assert again.recovery.damaged_files
    found = again.partitions[key_of(partition)]
    records = read_all(world, again, found)
    assert 0 < found.log_start_offset <= partition.log_start_offset
    assert len(records) == 300 - found.log_start_offset
    looked(world, again)  # what lies before the gap is counted until a pass has looked
    assert found.size_bytes == 1000 * len(records)
    assert len(read_all(world, again, again.partitions[key_of(pinning)])) == 1


def key_of(partition):
    return partition.topic_partition


def test_deleted_files_are_written_over(world, log, disk):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 300)
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert len([name for name in disk.names if name.endswith(".spare")]) == SMALL.recycle_count
    used = disk.used
    fill(world, log, partition, 120)
    assert not [name for name in disk.names if name.endswith(".spare")]
    assert disk.used < used + 2000 + SMALL.segment_bytes


def test_data_of_a_dropped_partition_is_dead(world, log, disk):
    dropped, kept = (log.open_partition(partition_number(number)) for number in (0, 1))
    fill(world, log, dropped, 300)
    log.drop_partition(dropped.topic_partition)
    log.drop_partition(dropped.topic_partition)
    fill(world, log, kept, 80)
    log.apply_retention(0, lambda _: KEEP)
    world.run()
    assert len(segment_files(disk)) <= 4
    world = World()
    again = open_log(world, disk)
    assert dropped.topic_partition not in again.partitions
    assert len(read_all(world, again, again.partitions[kept.topic_partition])) == 80


def test_a_partition_of_the_same_name_begins_anew_after_a_drop(world, log):
    partition = log.open_partition(partition_number(0))
    append(log, partition, producer=(5, 0, 0))
    log.drop_partition(partition.topic_partition)
    again = log.open_partition(partition.topic_partition)
    assert again is not partition
    assert again.log_end_offset == 0


def test_delete_records_is_monotone_and_survives_a_kill(world, log, disk):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 10)
    assert log.delete_records(partition, 4) == 4
    assert log.delete_records(partition, 2) == 4
    end = log.end_position
    for offset in (11, -1):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(partition, offset)
    world.run()
    assert log.flushed_position == end
    found = open_log(World(), disk).open_partition(partition_number(0))
    assert found.log_start_offset == 4


def test_epochs_are_recorded_and_come_back(world, log, disk):
    partition = log.open_partition(partition_number(0))
    log.begin_epoch(1)
    second = log.end_position
    log.begin_epoch(4)
    append(log, partition)
    assert log.epochs == [(1, 0), (4, second)]
    with pytest.raises(InvariantViolation):
        log.begin_epoch(3)
    fill(world, log, partition, 300)
    again = open_log(World(), disk)
    assert again.epochs == [(1, 0), (4, second)]
    assert again.leader_epoch == 4
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.remove(name)
    assert open_log(World(), disk).epochs == [(1, 0), (4, second)]


def test_every_segment_names_its_epoch_so_that_old_ones_can_go(world, log, disk):
    log.begin_epoch(7)
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 300)
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.remove(name)
    again = open_log(World(), disk)
    assert again.leader_epoch == 7


def test_silent_producers_are_forgotten_with_retention(world, log):
    partition = log.open_partition(partition_number(0))
    append(log, partition, producer=(5, 0, 0))
    world.run()
    log.apply_retention(world.now_ms + SMALL.producer_id_expiration_ms + 1, lambda _: KEEP)
    assert not log._states.entries


def test_retention_gives_the_loop_away_between_slices(world, disk):
    from penstock.storage.commit_log import retention

    log = open_log(world, disk)
    logs = [log.open_partition(partition_number(number)) for number in range(1200)]
    for partition in logs:
        append(log, partition, size=61)
        world.run()
    turns = []
    log.apply_retention(0, lambda _: Retention(0, -1))
    while world.work or world.soon:
        waiting = len(world.soon)
        if waiting:
            turns.append(waiting)
        world.turn()
        if world.work:
            world.work_one()
    assert sum(partition.log_start_offset for partition in logs) > retention.ENTRIES_PER_SLICE


def test_a_second_pass_while_one_runs_does_nothing(world, log):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 200)
    log.apply_retention(0, lambda _: KEEP)
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert partition.log_start_offset == 0


def test_old_data_of_the_active_segment_goes_when_nobody_writes_any_more(world, log, disk):
    quiet, busy, fresh, kept = (log.open_partition(partition_number(n)) for n in range(4))
    settings = dict.fromkeys((one.topic_partition for one in (quiet, busy, fresh)), 5000)
    for partition, timestamp in ((quiet, 1000), (busy, 1000), (fresh, 9000), (kept, 1000)):
        fill(world, log, partition, 3, timestamp=timestamp)

    def passes():
        log.apply_retention(10_000, lambda wanted: Retention(-1, settings.get(wanted, -1)))
        world.run()
        return [one.log_start_offset for one in (quiet, busy, fresh, kept)]

    assert passes() == [0, 0, 0, 0]
    fill(world, log, busy, 1, timestamp=1000)
    assert passes() == [3, 0, 0, 0]
    assert passes() == [3, 4, 0, 0]
    assert read_all(world, log, quiet) == []
    fill(world, log, quiet, 1, timestamp=9000)
    assert passes() == [3, 4, 0, 0]
    assert len(read_all(world, log, quiet)) == 1
    found = open_log(World(), disk).open_partition(partition_number(1))
    assert (found.log_start_offset, found.log_end_offset) == (4, 4)


def test_active_data_that_are_not_durable_yet_stay(world, log, monkeypatch):
    """What is emptied then, and lost with the power, would end below its log start."""
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 3, timestamp=1000)

    def passes():
        for _ in range(3):
            log.apply_retention(10_000, lambda _: Retention(-1, 5000))
            world.run()
        return partition.log_start_offset

    with monkeypatch.context() as patch:
        patch.setattr(log.writer, "flushed_position", partition.last_end_position - 1)
        assert passes() == 0
    assert passes() == 3


def test_a_newer_record_before_an_older_last_one_keeps_the_active_data(world, log):
    partition = log.open_partition(partition_number(0))
    for timestamp in (1000, 9000, 1000):
        fill(world, log, partition, 1, timestamp=timestamp)
    for _ in range(3):
        log.apply_retention(10_000, lambda _: Retention(-1, 5000))
        world.run()
    assert partition.log_start_offset == 0


def test_active_data_stay_while_older_ones_before_them_are_kept(world, log):
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 200, timestamp=9000)
    fill(world, log, partition, 100, timestamp=1000)
    for _ in range(3):
        log.apply_retention(10_000, lambda _: Retention(-1, 5000))
        world.run()
    assert partition.log_start_offset == 0


def test_files_stay_where_the_snapshot_with_the_new_log_starts_was_not_written(world, log, disk):
    """A start would go by the older one, which counts on them."""
    partition = log.open_partition(partition_number(0))
    fill(world, log, partition, 300)
    files = segment_files(disk)
    disk.fail("replace", ".snap", errno.EIO)
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert segment_files(disk) == files
    log.apply_retention(0, lambda _: Retention(0, -1))
    world.run()
    assert not set(files[:3]) & set(segment_files(disk))


def sharing(world, log):
    """Return a partition of 300 records; another one keeps the first segment, which both are in."""
    other, partition = (log.open_partition(partition_number(number)) for number in (1, 0))
    append(log, other)
    fill(world, log, partition, 300)
    return partition


def looked(world, log, kept_bytes=-1):
    log.apply_retention(0, lambda one: Retention(kept_bytes if one.partition == 0 else -1, -1))
    world.run()


def is_counted_exactly(partition):
    """Whether only what shares a segment with the log start is counted beyond what is kept."""
    kept = 1000 * (partition.log_end_offset - partition.log_start_offset)
    return kept <= partition.size_bytes < kept + SMALL.segment_bytes


def test_what_lies_in_a_segment_that_could_not_be_read_is_counted_off_when_it_can_be(
    world, log, disk
):
    partition = sharing(world, log)
    log.delete_records(partition, 200)
    world.run()
    disk.fail("read", ".idx", errno.EIO)
    looked(world, log)
    assert [segment.pin for segment in log.pins.segments[:2]] == [Pin.UNREAD, Pin.BEHIND]
    looked(world, log)
    assert is_counted_exactly(partition)
    looked(world, log, 100_000)
    assert partition.log_start_offset == 200


def test_what_lies_in_a_segment_that_is_still_to_be_sealed_is_counted_off_when_it_is(world, log):
    partition = sharing(world, log)
    log.delete_records(partition, 200)
    world.run()
    first = log.parts.store.segments[0]
    first.pending = {}
    looked(world, log)
    assert [segment.pin for segment in log.pins.segments[:2]] == [Pin.CLOSING, Pin.BEHIND]
    first.pending = None
    looked(world, log)
    assert is_counted_exactly(partition)


def test_records_deleted_during_a_pass_are_counted_off_from_the_oldest_segment_on(world, log, disk):
    partition = sharing(world, log)
    seen: list[TopicPartition] = []

    def deleting(one):
        if one == partition.topic_partition and len(seen) < 2:
            seen.append(one)
            if len(seen) == 2:  # the first segment is behind the pass, the second one is looked at
                log.delete_records(partition, 200)
        return KEEP

    files = segment_files(disk)
    log.apply_retention(0, deleting)
    world.run()
    assert segment_files(disk) == files
    looked(world, log)
    assert is_counted_exactly(partition)
    assert files[1] not in segment_files(disk)
    looked(world, log, 100_000)
    assert partition.log_start_offset == 200


def test_where_an_older_snapshot_has_to_do_dead_records_are_counted_off_once(world, log, disk):
    partition = sharing(world, log)
    log.delete_records(partition, 200)
    log.checkpoint()
    world.run()
    looked(world, log)
    newest = sorted(name for name in disk.names if name.endswith(".snap"))[-1]
    disk.names[newest].data[20] ^= 1
    world = World()
    again = open_log(world, disk)
    looked(world, again)
    found = again.partitions[key_of(partition)]
    assert found.log_start_offset == 200
    assert is_counted_exactly(found)
