"""Truncating, resetting, and replacing a log: durable at any crash, and nothing comes back."""

import errno
from random import Random
from typing import Any

import pytest

from harness.log_world import SMALL, World, append, open_log, partition_number, read_all
from penstock.base.ids import LeaderEpoch, Position
from penstock.frames.frames import KIND_BATCH
from penstock.storage.commit_log.catching_up import encode_note, note_path, read_note
from penstock.storage.commit_log.truncation import plan_reset
from penstock.storage.config import Retention
from penstock.storage.errors import CorruptLog, LogBusy, LogFenced, PositionOutOfRange
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    copy_of,
    crashes,
    frames_of,
    give_run,
    member,
    open_member,
    reopened,
    settle,
    take_run,
)


def snapshots(disk):
    return sorted(int(name[-25:-5]) for name in disk.names if name.endswith(".snap"))


def test_nothing_above_the_confirmed_position_is_snapshotted():
    world, disk, log, _ = member(200)
    assert snapshots(disk) == [0]
    log.note_confirmed(30_000)
    world.run()
    assert log.confirmed_position == 30_000
    first = snapshots(disk)[-1]
    assert 0 < first <= 30_000
    log.note_confirmed(10_000)
    assert log.confirmed_position == 30_000
    log.note_confirmed(1 << 40)
    assert log.confirmed_position == log.end_position
    world.advance(5000)
    log.checkpoint()
    world.run()
    assert snapshots(disk)[-1] == log.end_position == log.snapshot_position


def test_a_close_is_clean_only_where_everything_is_confirmed():
    _, disk, log, _ = member(50)
    log.note_confirmed(log.end_position - 1)
    log.close()
    _, again, found = reopened(disk)
    assert not again.recovery.was_clean
    assert found.log_end_offset == 50
    assert again.confirmed_position == again.snapshot_position < again.end_position
    again.note_confirmed(again.end_position)
    again.close()
    _, third, found = reopened(disk)
    assert third.recovery.was_clean
    assert third.recovery.replayed_bytes == 0
    assert third.confirmed_position == third.end_position
    assert found.log_end_offset == 50


def test_an_unconfirmed_log_comes_back_whole_and_its_first_snapshot_holds_every_partition():
    world, disk, log, _ = member(100)
    others = [log.open_partition(partition_number(number)) for number in range(1, 5)]
    for partition in others:
        append(log, partition, size=100)
    world.run()
    world, again, _ = reopened(disk)
    again.note_confirmed(again.end_position)
    again.checkpoint()
    world.run()
    world, third, found = reopened(disk)
    assert third.recovery.replayed_frames == 0
    assert found.log_end_offset == 100
    for number in range(1, 5):
        assert third.open_partition(partition_number(number)).log_end_offset == 1


def truncated(world, log, position):
    calls = []
    log.on_reopened = lambda: calls.append("reopened")
    settle(world, log.truncate, position)
    return calls


@pytest.mark.parametrize("kept", [1, 3, 60, 93, 150, 199])
def test_a_truncation_takes_away_what_lies_behind_and_nothing_else(kept):
    world, disk, log, partition = member(200)
    before = read_all(world, log, partition)
    frames = frames_of(disk, log)
    positions = sorted(frames)
    position = [p for p in positions if frames[p][7] == KIND_BATCH][kept]
    assert truncated(world, log, position) == ["reopened"]
    after = log.open_partition(partition_number(0))
    assert after is not partition
    assert log.end_position == log.flushed_position == position
    assert after.log_end_offset == kept
    assert read_all(world, log, after) == before[:kept]
    assert frames_of(disk, log) == {p: f for p, f in frames.items() if p < position}
    for number in range(200):
        append(log, after, size=900, fill=number)
        world.run()
    world, again, found = reopened(disk)
    assert found.log_end_offset == kept + 200
    assert again.epochs == [(1, 0)]


def test_who_waits_for_a_snapshot_of_what_is_cut_hears_that_there_is_none():
    world, _, log, _ = member(20)
    log.note_confirmed(500)
    told: list[bool] = []
    log.checkpoint(told.append)
    world.run()
    assert told == [], "it is taken, and waits for what it holds to be confirmed"
    assert truncated(world, log, 1268) == ["reopened"]
    assert told == [False]


def test_appends_reads_and_runs_are_refused_while_a_log_is_truncated():
    world, _, log, partition = member(20)
    answers: list[Exception | None] = []
    position = log.end_position
    log.truncate(1268, answers.append)
    assert log.is_busy
    assert not log.is_fenced
    with pytest.raises(LogBusy):
        append(log, partition, size=100)
    with pytest.raises(LogBusy):
        log.read(partition, 0, 100, 1 << 60)
    with pytest.raises(LogBusy):
        log.read_run(0, 100, 1 << 60)
    with pytest.raises(LogBusy):
        log.begin_epoch(7)
    log.truncate(2000, answers.append)
    assert isinstance(answers.pop(), LogBusy)
    world.run()
    assert answers == [None]
    assert not log.is_busy
    assert log.end_position < position


def test_truncating_at_or_above_the_end_does_nothing_and_below_the_log_is_refused():
    world, _, log, partition = member(5)
    settle(world, log.truncate, log.end_position)
    settle(world, log.truncate, 1 << 40)
    assert log.open_partition(partition_number(0)) is partition
    settle(world, log.reset_to, 1 << 20, (1 << 20) + SMALL.segment_bytes)
    log.begin_epoch(2)
    with pytest.raises(PositionOutOfRange):
        settle(world, log.truncate, 1000)


def test_a_truncation_is_complete_after_a_crash_at_any_step():
    world, origin, log, _ = member(150)
    log.note_confirmed(20_000)
    world.run()
    frames = frames_of(origin, log)
    position = [p for p in sorted(frames) if frames[p][7] == KIND_BATCH][30]
    kept = {p: f for p, f in frames.items() if p < position}
    for seed in range(3):
        random = Random(seed)
        state: dict[str, Any] = {}

        def truncate(state=state):
            disk = state["disk"] = copy_of(origin)
            disk.on_operation, hook = None, state.get("hook")
            world, log, _ = reopened(disk)
            disk.on_operation = hook
            settle(world, log.truncate, position)

        for _ in crashes(truncate, state):
            disk = state["disk"]
            disk.power_loss(random) if seed else disk.kill()
            world, log, partition = reopened(disk)
            found = frames_of(disk, log)
            assert found in (kept, frames), "neither before nor after"
            was_cut = found == kept
            append_many(world, log, partition, 20)
            _, _, partition = reopened(disk)
            expected = (30 if was_cut else 150) + 20
            assert partition.log_end_offset == expected
            assert not any(name.endswith("pending-change") for name in disk.names)
        assert state["steps"] > 8


def append_many(world, log, partition, count, **batch):
    if log.leader_epoch < 9:
        log.begin_epoch(9)
    for number in range(count):
        append(log, partition, size=batch.get("size", 700), fill=number)
        world.run()


def test_a_cut_tail_does_not_come_back_when_new_frames_grow_up_to_it():
    # The same sizes again, so that a stale frame would lie exactly where a new one ends.
    world, disk, log, _ = member(100)
    frames = frames_of(disk, log)
    position = [p for p in sorted(frames) if frames[p][7] == KIND_BATCH][40]
    settle(world, log.truncate, position)
    partition = log.open_partition(partition_number(0))
    for number in range(60):
        append(log, partition, size=700, fill=number)
        world.run()
        _, again, found = reopened(copy_of(disk))
        assert again.end_position - log.end_position < 48
        assert found.log_end_offset == 41 + number


@pytest.mark.parametrize("kept", [1, 50, 120])
def test_a_truncation_below_the_snapshot_rebuilds_the_log_from_its_segments(kept):
    world, disk, log, partition = member(200)
    for _ in range(2):
        append(log, partition)
        log.note_confirmed(1 << 40)
        log.checkpoint()
        world.run()
        log.note_confirmed(1 << 40)
        world.run()
    before = read_all(world, log, partition)
    frames = frames_of(disk, log)
    position = [p for p in sorted(frames) if frames[p][7] == KIND_BATCH][kept]
    assert position < min(snapshots(disk))
    settle(world, log.truncate, position)
    found = log.open_partition(partition_number(0))
    assert found.log_end_offset == kept
    assert read_all(world, log, found) == before[:kept]
    assert log.end_position == position == log.snapshot_position
    world, again, found = reopened(disk)
    assert again.recovery.replayed_frames == 0
    assert found.log_end_offset == kept


def test_offsets_of_partitions_without_kept_batches_survive_a_rebuild():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    early, both, late = (log.open_partition(partition_number(number)) for number in range(3))
    for _ in range(3):
        append(log, early, records=7, producer=(5, 0, 7 * early.log_end_offset // 7))
        append(log, both, records=2)
    for _ in range(500):
        append(log, late, size=1000)
        world.run()
    log.apply_retention(0, lambda tp: Retention(200_000 if tp.partition == 2 else 0, -1))
    world.run()
    assert log.start_position > 0
    position = log.end_position
    append(log, both, records=5)
    for _ in range(10):
        append(log, late, size=1000)
    log.checkpoint()
    world.run()
    world.advance(5000)
    append(log, late, size=1000)
    log.checkpoint()
    world.run()
    assert min(snapshots(disk)) > position
    start = late.log_start_offset
    settle(world, log.truncate, position)
    found = [log.open_partition(partition_number(number)) for number in range(3)]
    assert [p.log_end_offset for p in found] == [21, 6, 500]
    assert [p.log_start_offset for p in found[:2]] == [21, 6]
    assert found[2].log_start_offset == start
    assert append(log, found[1], records=5) == 6
    world.run()
    _, again, _ = reopened(disk)
    ends = [again.open_partition(partition_number(n)).log_end_offset for n in range(3)]
    assert ends == [21, 11, 500]


def test_a_rebuild_is_complete_after_a_crash_at_any_step():
    world, origin, log, _ = member(150)
    log.note_confirmed(log.end_position)
    log.checkpoint()
    world.run()
    frames = frames_of(origin, log)
    position = [p for p in sorted(frames) if frames[p][7] == KIND_BATCH][30]
    state = {}
    random = Random(1)

    def truncate():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        world, log, _ = reopened(disk)
        disk.on_operation = hook
        settle(world, log.truncate, position)

    for _ in crashes(truncate, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        assert partition.log_end_offset in (30, 150)
        assert len(frames_of(disk, log)) in (len(frames), len([p for p in frames if p < position]))


def test_a_reset_leaves_an_empty_log_at_the_given_place_after_a_crash_at_any_step():
    _, origin, _, _ = member(150)
    state = {}
    random = Random(2)
    base = 5 * SMALL.segment_bytes + 1000

    def reset():
        disk = state["disk"] = copy_of(origin)
        hook, disk.on_operation = state.get("hook"), None
        world, log, _ = reopened(disk)
        disk.on_operation = hook
        settle(world, log.reset_to, base, base + 100_000)

    for _ in crashes(reset, state):
        disk = state["disk"]
        disk.power_loss(random)
        _, log, partition = reopened(disk)
        if log.end_position == base:
            assert partition.log_end_offset == 0
        else:
            assert partition.log_end_offset == 150
    world, log, partition = reopened(state["disk"])
    assert (log.start_position, log.end_position) == (base, base)
    assert log.epochs == []
    append_many(world, log, partition, 200)
    world, again, partition = reopened(state["disk"])
    assert partition.log_end_offset == 200
    assert again.start_position == base


def test_a_truncation_that_the_disk_refuses_fences_the_log_and_is_complete_after_a_restart():
    world, disk, log, _ = member(50)
    fenced: list[Exception] = []
    log.on_fenced = fenced.append
    disk.fail("truncate", ".log", errno.EIO)
    position = sorted(frames_of(disk, log))[11]
    with pytest.raises(LogFenced):
        settle(world, log.truncate, position)
    assert log.is_fenced
    assert len(fenced) == 1
    world, again, partition = reopened(disk)
    assert again.end_position == position
    assert partition.log_end_offset == 10


def test_epochs_of_which_nothing_is_kept_are_forgotten_but_the_one_that_covers_the_start():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    partition = log.open_partition(partition_number(0))
    for epoch in range(2, 12):
        log.begin_epoch(LeaderEpoch(epoch))
        for _ in range(30):
            append(log, partition, size=1000)
            world.run()
    log.apply_retention(0, lambda _: Retention(100_000, -1))
    world.run()
    log.checkpoint()
    world.run()
    start = log.start_position
    assert start > 0
    assert log.epochs[0][1] <= start < log.epochs[1][1]
    _, again, _ = reopened(disk)
    assert again.epochs == log.epochs


def streamed(batches):
    """A slave that took each batch of a master by itself, as it does in step."""
    world, _, master, partition = member()
    disk = FaultyDisk()
    slave = open_member(world, disk)
    for number in range(batches):
        append(master, partition, size=300, fill=number)
        world.run()
        give_run(world, slave, take_run(world, master, slave.end_position))
        master.note_confirmed(slave.flushed_position)
    return world, disk, slave


def test_damage_of_durable_bytes_is_reported_on_a_slave_too():
    world, disk, slave = streamed(20)
    world.run()
    frames = sorted(frames_of(disk, slave))
    (node,) = [node for name, node in disk.names.items() if name.endswith(f"{0:020d}.log")]
    node.data[frames[10] + 100] ^= 1
    node.durable[:] = node.data
    with pytest.raises(CorruptLog):
        reopened(disk)


def test_a_slave_that_lost_what_was_not_synced_is_not_called_damaged():
    for seed in range(60):
        random = Random(seed)
        world, disk, slave = streamed(random.randrange(1, 30))
        durable = slave.flushed_position
        if random.random() < 0.5:
            world.turn()
        disk.power_loss(random)
        _, again, _ = reopened(disk)
        assert again.end_position >= durable


def test_a_damaged_pending_change_stops_the_start_and_a_damaged_note_proves_nothing():
    _, disk, log, _ = member(10)
    change = plan_reset(Position(0), Position(SMALL.segment_bytes))
    path = change.path(log.directory)
    data = change.encode()
    for at in range(len(data) - 4):
        damaged = bytearray(data)
        damaged[at] ^= 1
        disk.replace(path, damaged)
        with pytest.raises(CorruptLog):
            reopened(disk)
    disk.remove(path)
    note = encode_note(Position(1234))
    disk.replace(note_path(log.directory), note)
    told: list[str] = []
    assert read_note(disk, log.directory, told.append) == 1234
    for at in range(20):
        damaged = bytearray(note)
        damaged[at] ^= 1
        disk.replace(note_path(log.directory), damaged)
        assert read_note(disk, log.directory, told.append) == 0
    assert len(told) == 20
    reopened(disk)
    assert note_path(log.directory) not in disk.names


def test_a_log_that_is_closed_while_it_is_truncated_is_found_truncated_at_the_next_start():
    world, disk, log, _ = member(20)
    position = sorted(frames_of(disk, log))[11]
    answers: list[Exception | None] = []
    log.truncate(position, answers.append)
    log.close()
    world.run()
    assert answers == []
    _, again, found = reopened(disk)
    assert (again.end_position, found.log_end_offset) == (position, 10)


def test_what_retention_has_taken_from_a_partition_that_ends_at_the_cut_stays_taken():
    """Others still need the segment with its older records, and the snapshot alone knows."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk)
    both, late = (log.open_partition(partition_number(number)) for number in range(2))
    for number in range(500):
        append(log, late, size=1000)
        if number % 20 == 0:
            append(log, both)
        world.run()
    log.apply_retention(0, lambda tp: Retention(200_000 if tp.partition == 1 else 0, -1))
    world.run()
    start, end = both.log_start_offset, both.log_end_offset + 1
    assert 0 < start < end
    append(log, both)
    position = log.end_position
    for _ in range(2):
        for _ in range(10):
            append(log, late, size=1000)
        log.checkpoint()
        world.run()
        world.advance(5000)
    assert min(snapshots(disk)) > position
    settle(world, log.truncate, position)
    found = log.open_partition(partition_number(0))
    assert (found.log_start_offset, found.log_end_offset) == (start, end)


def test_a_truncation_between_two_snapshots_does_not_go_by_the_older_one_where_its_segments_went():
    world, disk, log, partition = member(300)
    log.note_confirmed(log.end_position)
    log.checkpoint()
    world.run()
    older = log.snapshot_position
    append(log, partition)
    world.run()
    cut = log.end_position
    append(log, partition)
    world.run()
    log.note_confirmed(log.end_position)
    log.apply_retention(0, lambda _: Retention(70_000, -1))
    world.run()
    assert older < cut < log.snapshot_position
    assert log.start_position > 0
    start = partition.log_start_offset
    errors: list[Exception | None] = []
    log.truncate(cut, errors.append)
    world.run()
    assert errors == [None]
    assert log.end_position == cut
    world, again, found = reopened(disk)
    assert (again.end_position, found.log_start_offset, found.log_end_offset) == (cut, start, 301)
    assert len(read_all(world, again, found)) == 301 - start
