"""Rot that is no torn write, what a repair keeps, and what the scrub looks at."""

from typing import Any

import pytest

from harness.log_world import (
    DIRECTORY,
    SMALL,
    World,
    append,
    batches_of,
    open_log,
    partition_number,
    read_all,
    read_chunk,
)
from penstock.base.ids import Offset, Position
from penstock.storage.commit_log.durable_mark import MARK_BYTES, mark_path
from penstock.storage.commit_log.pending_change import ChangeKind
from penstock.storage.commit_log.set_log import NeedsDisk
from penstock.storage.commit_log.snapshot import decode_snapshot, encode_partition, encode_snapshot
from penstock.storage.commit_log.truncation import read_snapshots
from penstock.storage.config import LogConfig, Retention
from penstock.storage.errors import CorruptFrame, CorruptLog
from penstock.storage.recover.repair import NOTHING_KEPT, cut_below_damage, plan_repair
from penstock.storage.recover.scrub import FROM_START
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import member, open_member

QUIET = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30)
"""No roll and no checkpoint by itself."""


def filled(config=QUIET, batches=30, size=200):
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    for number in range(batches):
        append(log, partition, size=size, fill=number)
        world.run()
    return world, disk, log, partition


def node_of(disk, kind, at=0):
    return disk.names[sorted(name for name in disk.names if name.endswith(kind))[at]]


def flip(node, at):
    node.data[at] ^= 0x10
    node.durable[:] = node.data


def test_the_last_frame_damaged_after_its_sync_is_refused_and_not_cut():
    _, disk, log, partition = filled()
    end, last = log.end_position, partition.columns.positions[-1]
    for at in (last, last + 20, last + 60, end - 1):
        flip(node_of(disk, ".log"), at)
        with pytest.raises(CorruptLog) as found:
            open_log(World(), disk, QUIET)
        assert found.value.position == last
        flip(node_of(disk, ".log"), at)
    assert open_log(World(), disk, QUIET).end_position == end


def test_a_log_cut_at_a_frame_that_was_synced_is_refused():
    _, disk, log, partition = filled()
    node = node_of(disk, ".log")
    whole = bytes(node.data)
    for keep in (partition.columns.positions[20], partition.columns.positions[20] + 30, 60):
        node.data[:] = whole[:keep]
        node.durable[:] = node.data
        with pytest.raises(CorruptLog):
            open_log(World(), disk, QUIET)
    del log


def test_a_damaged_note_counts_as_none_and_is_told():
    _, disk, log, _ = filled()
    node = disk.names[mark_path(DIRECTORY)]
    for at in range(MARK_BYTES - 4):
        flip(node, at)
        log = open_log(World(), disk, QUIET)
        assert any("durable is damaged" in text for text in log.recovery.damaged_files)
        log.close()
        disk.remove(f"{DIRECTORY}/snapshot/none")
        node = disk.names[mark_path(DIRECTORY)]


def test_a_read_gives_no_batch_of_which_any_byte_is_damaged():
    world, disk, log, partition = filled()
    start = partition.columns.positions[7]
    told: list[tuple[int, str]] = []
    log.on_damage = lambda position, reason: told.append((position, reason))
    for at in range(start, start + 248):
        flip(node_of(disk, ".log"), at)
        before = read_chunk(world, log, partition, 5)
        assert [header.base_offset for header, _ in batches_of(before.data)] == [5, 6]
        with pytest.raises(CorruptFrame) as found:
            read_chunk(world, log, partition, 7)
        assert found.value.position == start
        flip(node_of(disk, ".log"), at)
    assert {position for position, _ in told} == {start}
    assert read_chunk(world, log, partition, 5).size > 4000


def test_a_repair_keeps_what_a_snapshot_or_the_whole_log_explains():
    world, disk, log, partition = filled(SMALL, batches=600)
    position = partition.columns.positions[3]
    log.close()
    flip(node_of(disk, ".log", at=-2), 40)
    plan = plan_repair(disk, DIRECTORY, position, SMALL.segment_bytes)
    assert plan.kind in {ChangeKind.TRUNCATE, ChangeKind.REBUILD}
    assert plan.position <= position
    early = plan_repair(disk, DIRECTORY, Position(100), SMALL.segment_bytes)
    assert (early.kind, early.position) == (ChangeKind.REBUILD, 60)
    nothing = plan_repair(disk, DIRECTORY, NOTHING_KEPT, SMALL.segment_bytes)
    assert (nothing.kind, nothing.position) == (ChangeKind.RESET, 0)
    disk.remove(sorted(name for name in disk.names if name.endswith(".log"))[0])
    beheaded = plan_repair(disk, DIRECTORY, Position(70_000), SMALL.segment_bytes)
    assert beheaded.kind is ChangeKind.RESET
    del world


def test_a_log_that_was_cut_below_its_damage_opens_with_all_that_lies_before_it():
    _, disk, log, partition = filled(SMALL, batches=600)
    damaged = 5_000
    log.close()
    flip(node_of(disk, ".log"), damaged)
    end = cut_below_damage(disk, DIRECTORY, Position(damaged), SMALL)
    assert end <= damaged
    world = World()
    again = open_log(world, disk, SMALL)
    kept = again.open_partition(partition_number(0))
    assert again.end_position == end
    assert 0 < kept.log_end_offset < partition.log_end_offset
    assert read_chunk(world, again, kept, 0).size


def test_a_repair_does_not_count_on_a_snapshot_whose_segments_retention_has_taken():
    # The start would find them missing, and call the log damaged a second time.
    world, disk, log, partition = filled(SMALL, batches=320, size=1000)
    log.apply_retention(0, lambda _: Retention(100_000, -1))
    world.run()
    newest, older = read_snapshots(disk, DIRECTORY)
    assert older.segments[0] < log.start_position == newest.segments[0]
    log.close()
    cut_below_damage(disk, DIRECTORY, Position(newest.position - 1), SMALL)
    again = open_log(World(), disk, SMALL)
    assert again.end_position < older.position
    assert again.open_partition(partition_number(0)).log_end_offset < partition.log_end_offset


def scrubbed(world, log):
    """Let the scrub pass over the whole log; return how much it read and what it made anew."""
    position, read_bytes, rebuilt = FROM_START, 0, 0
    while True:
        answers: list[tuple[Any, Exception | None]] = []
        log.scrub(position, 10_000, lambda *answer, to=answers: to.append(answer))
        world.run()
        ((found, error),) = answers
        if error is not None:
            raise error
        position = found.next_position
        read_bytes, rebuilt = read_bytes + found.read_bytes, rebuilt + found.rebuilt
        if position == FROM_START:
            return read_bytes, rebuilt


def test_the_scrub_meets_damage_in_every_file_that_no_start_has_read():
    world, disk, log, _ = filled(SMALL, batches=600)
    read_bytes, rebuilt = scrubbed(world, log)
    assert rebuilt == 0
    assert log.end_position - read_bytes < 4_000  # what lies behind end markers
    flip(node_of(disk, ".idx"), 70)
    flip(node_of(disk, ".snap"), 70)
    assert scrubbed(world, log)[1] == 2
    assert scrubbed(world, log)[1] == 0
    flip(node_of(disk, ".log"), 33_333)
    with pytest.raises(CorruptFrame):
        scrubbed(world, log)


def test_a_read_that_a_repair_overtakes_is_answered():
    world, disk, log, partition = filled(SMALL, batches=600)
    log.close()
    log = open_log(world, disk, SMALL)  # nothing of the index is in memory
    partition = log.partitions[partition.topic_partition]
    found = log.read(partition, Offset(300), 1 << 16, log.durable_position)
    assert isinstance(found, NeedsDisk)
    answers: list[tuple[Any, Exception | None]] = []
    found.load(lambda *answer: answers.append(answer))
    reading, done = world.work.pop()
    result = reading()
    log.close()
    cut_below_damage(disk, DIRECTORY, NOTHING_KEPT, SMALL)
    open_log(World(), disk, SMALL)
    done(result, None)
    ((chunk, error),) = answers
    assert error is None
    assert chunk.size


def test_a_rebuild_below_damage_does_not_call_its_end_confirmed():
    """Its snapshot is needed to finish the change; what the set has confirmed is not known."""
    world, disk, log, partition = member(40)
    positions = list(partition.columns.positions)
    disk.kill()
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.files.remove(name)
    cut = cut_below_damage(disk, DIRECTORY, positions[30], SMALL)
    assert cut == positions[30]
    for _ in range(3):
        world = World()
        log = open_member(world, disk)
        assert log.end_position == cut
        assert log.snapshot_position == cut
        assert log.confirmed_position == 0
        disk.kill()
    log.note_confirmed(cut)
    append(log, log.open_partition(partition_number(0)))
    world.run()
    log.note_confirmed(log.end_position)
    log.checkpoint()
    world.run()
    end = log.end_position
    disk.kill()
    assert open_member(World(), disk).confirmed_position == end


def test_a_base_of_an_unconfirmed_snapshot_says_so():
    _, disk, _, partition = member(40)
    cut = partition.columns.positions[30]
    disk.kill()
    for name in [name for name in disk.names if name.endswith(".snap")]:
        disk.files.remove(name)
    cut_below_damage(disk, DIRECTORY, cut, SMALL)
    open_member(World(), disk)
    (newest, *_) = read_snapshots(disk, DIRECTORY)
    assert (newest.position, newest.is_confirmed) == (cut, False)
    raw = encode_snapshot(newest, [encode_partition(state) for state in newest.partitions])
    assert decode_snapshot("x", memoryview(raw)) == newest


def test_a_read_finds_its_block_in_an_index_that_is_made_anew_with_a_dropped_partition_in_it():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    dropped, kept = (log.open_partition(partition_number(number)) for number in range(2))
    append(log, dropped)
    append(log, kept)
    world.run()
    log.drop_partition(dropped.topic_partition)
    for number in range(300):
        append(log, kept, size=300, fill=number)
        world.run()
    log.close()
    path = f"{DIRECTORY}/index/{0:020}.idx"
    used = len(bytes(disk.names[path].data).rstrip(b"\0"))
    disk.flip_bit(path, used - 40)
    world = World()
    log = open_log(world, disk)
    found = log.open_partition(partition_number(1))
    assert len(read_all(world, log, found)) == 301
