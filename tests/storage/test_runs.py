"""Runs: what a master reads, what a slave takes, and what it refuses."""

from dataclasses import replace

import pytest

from harness.log_world import (
    SMALL,
    Crashed,
    append,
    async_config,
    make_batch,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import LeaderEpoch, Offset
from penstock.frames.frames import HEADER, KIND_END
from penstock.record.batch import read_header
from penstock.storage.errors import (
    BadRun,
    GapInRun,
    LogFollows,
    NoFrameBegins,
    PositionOutOfRange,
)
from penstock.storage.index.producers import Duplicate
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    QUIET,
    Pair,
    frames_of,
    give_run,
    open_member,
    pair_with_a_shorter_segment,
    replicate,
    take_run,
)


@pytest.mark.parametrize("max_bytes", [1, 500, 5000, 1 << 20])
def test_a_slave_becomes_equal_byte_for_byte_over_many_segments(max_bytes):
    pair = Pair()
    second = pair.master.open_partition(partition_number(1))
    for number in range(300):
        pair.append(size=200 + number * 3 % 2000, fill=number)
        pair.append(partition=second, size=100, records=3)
    pair.master.delete_records(pair.partition, Offset(100))
    pair.world.run()
    pair.replicate(max_bytes=max_bytes)
    assert pair.slave.end_position == pair.master.end_position > 3 * SMALL.segment_bytes
    pair.check()
    assert pair.slave.epochs == pair.master.epochs
    for number in range(2):
        own = pair.slave_partition(number)
        other = pair.master.open_partition(partition_number(number))
        assert own.log_end_offset == other.log_end_offset
        assert own.log_start_offset == other.log_start_offset
        assert read_all(pair.world, pair.slave, own) == read_all(pair.world, pair.master, other)


def test_a_run_never_crosses_a_segment_or_an_epoch_and_holds_whole_frames():
    pair = Pair()
    pair.append(100, size=700)
    pair.master.begin_epoch(LeaderEpoch(2))
    pair.append(100, size=700)
    pair.master.begin_epoch(LeaderEpoch(3))
    pair.append(100, size=700)
    position = 0
    frames = frames_of(pair.master_disk, pair.master)
    while (run := take_run(pair.world, pair.master, position)).data:
        assert run.position == position
        assert run.file_base <= position < run.end_position <= run.file_end
        inside = [at for at in frames if run.position <= at < run.end_position]
        epochs = {HEADER.unpack_from(frames[at])[5] for at in inside}
        assert epochs == {run.leader_epoch}
        assert b"".join(frames[at] for at in inside) == bytes(run.data)
        is_ended = HEADER.unpack_from(frames[inside[-1]])[3] == KIND_END
        assert run.next_position == (run.file_end if is_ended else run.end_position)
        position = run.next_position
    assert position == pair.master.end_position


def test_nothing_above_the_limit_is_read_and_a_frame_larger_than_asked_for_comes_whole():
    pair = Pair()
    start = pair.master.end_position
    pair.append(size=3000)
    middle = pair.master.end_position
    pair.append(size=3000)
    run = take_run(pair.world, pair.master, start, 10)
    assert (run.position, run.end_position) == (start, middle)
    assert take_run(pair.world, pair.master, start, 1 << 20, middle).end_position == middle
    assert not take_run(pair.world, pair.master, start, 1 << 20, middle - 1).data
    assert not take_run(pair.world, pair.master, start, 10, middle - 1).data
    assert not take_run(pair.world, pair.master, pair.master.end_position).data


def test_what_is_not_in_memory_is_read_off_the_loop():
    pair = Pair()
    pair.append(200, size=1000)
    pair.master_disk.is_cold = True
    pair.replicate(max_bytes=30_000)
    pair.master_disk.is_cold = False
    pair.check()
    assert pair.slave.end_position == pair.master.end_position


def test_positions_from_which_nothing_can_be_read_are_refused():
    pair = Pair()
    pair.append(10, size=500)
    end = pair.master.end_position
    with pytest.raises(PositionOutOfRange):
        take_run(pair.world, pair.master, end + 1)
    with pytest.raises(PositionOutOfRange):
        take_run(pair.world, pair.master, 1 << 40)
    told: list[int] = []
    pair.master.on_damage = lambda position, _: told.append(position)
    for is_cold in (False, True):
        pair.master_disk.is_cold = is_cold
        for position in (61, 700):  # inside a frame: that is no damage of the log
            with pytest.raises(NoFrameBegins):
                take_run(pair.world, pair.master, position)
    assert told == []
    assert not take_run(pair.world, pair.master, end).data


def test_a_run_that_does_not_begin_at_the_end_is_refused():
    pair = Pair()
    pair.append(10, size=500)
    run = take_run(pair.world, pair.master, 0)
    give_run(pair.world, pair.slave, run)
    end = pair.slave.end_position
    with pytest.raises(GapInRun):
        pair.slave.append_run(run)
    pair.append(2, size=500)
    later = take_run(pair.world, pair.master, end)
    with pytest.raises(GapInRun):
        pair.slave.append_run(later.after(548))
    assert pair.slave.end_position == end
    give_run(pair.world, pair.slave, later)
    pair.check()


def test_every_flipped_byte_of_a_run_is_refused_and_nothing_of_it_is_taken():
    pair = Pair()
    append(pair.master, pair.partition, size=200)
    pair.master.delete_records(pair.partition, Offset(1))
    append(pair.master, pair.partition, size=100)
    pair.world.run()
    run = take_run(pair.world, pair.master, 0)
    starts = sorted(frames_of(pair.master_disk, pair.master))
    for at in range(len(run.data)):
        damaged = bytearray(run.data)
        damaged[at] ^= 0x41
        slave = open_member(pair.world, FaultyDisk())
        with pytest.raises(BadRun):
            give_run(pair.world, slave, run._replace(data=memoryview(damaged)))
        frame = max(start for start in starts if start <= at)
        is_claim = 24 <= at - frame < 28  # what a frame says is flushed is looked at first
        assert slave.end_position == 0 or (is_claim and slave.end_position == frame)
        assert slave.end_position or not slave.partitions
    for cut in range(1, len(run.data)):
        if cut not in starts:
            with pytest.raises(BadRun):
                pair.slave.append_run(run._replace(data=run.data[:cut]))
    give_run(pair.world, pair.slave, run)
    pair.check()


def test_a_frame_that_is_whole_and_does_not_follow_is_refused():
    pair = Pair()
    pair.append(2, size=200)
    pair.replicate()
    pair.world.run()
    other = Pair()
    other.append(size=200)
    other.append(partition=other.master.open_partition(partition_number(1)), size=200)
    other.append(2, size=200)
    position = pair.slave.end_position
    run = take_run(other.world, other.master, position)
    with pytest.raises(BadRun, match="offset 1, expected 2"):
        pair.slave.append_run(run)
    assert pair.slave.end_position == position


def test_frames_of_an_older_epoch_are_refused():
    pair = Pair()
    pair.append(2, size=200)
    pair.replicate()
    pair.world.run()
    pair.slave.begin_epoch(LeaderEpoch(5))
    pair.world.run()
    pair.master.delete_records(pair.partition, Offset(1))
    pair.append(2, size=200)
    position = pair.slave.end_position
    run = take_run(pair.world, pair.master, position - 60)
    with pytest.raises(BadRun):
        pair.slave.append_run(run._replace(position=position))
    assert pair.slave.end_position == position


def test_a_log_that_follows_takes_no_appends_until_it_leads():
    pair = Pair()
    pair.append(5, size=300)
    pair.replicate()
    partition = pair.slave_partition()
    with pytest.raises(LogFollows):
        append(pair.slave, partition, size=300)
    with pytest.raises(LogFollows):
        pair.slave.delete_records(partition, Offset(1))
    pair.slave.begin_epoch(LeaderEpoch(2))
    assert append(pair.slave, partition, size=300) == 5
    pair.world.run()
    assert pair.slave.epochs == [(1, 0), (2, pair.master.end_position)]
    pair.master.follow()
    replicate(pair.world, pair.slave, pair.master)
    pair.check()
    assert pair.master.epochs == pair.slave.epochs
    assert pair.partition.log_end_offset == 6


def test_producers_are_known_on_the_slave():
    pair = Pair()
    for sequence in range(3):
        pair.append(producer=(7, 0, sequence))
    pair.replicate()
    header = read_header(make_batch(producer=(7, 0, 2)))
    assert pair.slave_partition().producers.check(header) == Duplicate(2)


@pytest.mark.parametrize(("master_kib", "slave_kib"), [(64, 128), (128, 64), (64, 100)])
def test_a_slave_with_other_segment_sizes_takes_the_masters(master_kib, slave_kib):
    configs = [replace(SMALL, segment_bytes=kib << 10) for kib in (master_kib, slave_kib)]
    pair = Pair(*configs)
    pair.append(300, size=1500)
    pair.replicate(max_bytes=10_000)
    pair.check()
    sizes = [
        [len(node.data) for name, node in sorted(disk.names.items()) if name.endswith(".log")]
        for disk in (pair.master_disk, pair.slave_disk)
    ]
    assert sizes[0][:-2] == sizes[1][: len(sizes[0]) - 2]
    pair.slave.begin_epoch(LeaderEpoch(2))
    pair.world.run()
    for _ in range(300):
        append(pair.slave, pair.slave_partition(), size=1500)
        pair.world.run()
    pair.master.follow()
    replicate(pair.world, pair.slave, pair.master)
    pair.check()


def test_a_segment_that_ends_without_room_for_a_marker_is_followed_by_the_next():
    for left in range(0, 61, 4):
        pair = Pair()
        pair.append(10, size=5000, records=100)
        deletes = 20
        taken = pair.master.end_position + 48 + deletes * 56
        pair.append(size=SMALL.segment_bytes - left - taken)
        for _ in range(deletes):
            pair.master.delete_records(pair.partition, Offset(pair.partition.log_start_offset + 1))
        assert pair.master.end_position == SMALL.segment_bytes - left
        if left < 48:
            pair.master.writer.write_staged()
            pair.replicate()  # with the master's next segment still to come
            assert pair.slave.end_position >= SMALL.segment_bytes - left
        pair.world.run()
        assert pair.master.end_position == SMALL.segment_bytes + 60 or left >= 48
        pair.replicate()
        assert pair.slave.end_position == pair.master.end_position
        pair.append(5, size=3000)
        pair.replicate()
        assert pair.slave.end_position == pair.master.end_position
        pair.check()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slave_writes_no_frame_that_says_more_than_is_flushed_here(is_async):
    config = async_config(flush_interval_bytes=8192) if is_async else SMALL
    pair = Pair(config)
    for number in range(30):
        pair.append(5, size=300, fill=number)
        pair.world.advance(300)
    run = take_run(pair.world, pair.master, 0, 4000)
    while run.data:
        taken = pair.slave.append_run(run)
        frames = frames_of(pair.slave_disk, pair.slave)
        note = [name for name in pair.slave_disk.names if name.endswith("catching-up")]
        for at, frame in frames.items():
            unflushed = HEADER.unpack_from(frame)[7]
            if at >= pair.slave.flushed_position and not note:
                assert at - unflushed <= pair.slave.flushed_position
        run = run.after(taken)
        pair.world.run()
    assert pair.slave.end_position > 3000


def test_a_slave_that_copies_old_frames_syncs_rarely_and_takes_the_note_away_afterwards():
    pair = Pair(QUIET)
    pair.append(1000, size=100)
    syncs = 0

    def count(operation, path):
        nonlocal syncs
        syncs += operation == "sync" and path.endswith(".log")

    pair.slave_disk.on_operation = count
    pair.replicate(max_bytes=20_000)
    assert syncs < 40
    noted = [name for name in pair.slave_disk.names if name.endswith("catching-up")]
    assert noted
    for _ in range(40):
        pair.append(size=100)
        pair.replicate()
        pair.world.run()
    assert not [name for name in pair.slave_disk.names if name.endswith("catching-up")]
    pair.check()


def test_a_slave_without_space_takes_runs_again_when_there_is_room():
    pair = Pair()
    pair.append(200, size=1500)
    pair.slave_disk.capacity = pair.slave_disk.used + 70_000
    ready = []
    pair.slave.on_append_ready = lambda: ready.append(True)
    run = take_run(pair.world, pair.master, 0, 10_000)
    for _ in range(100):
        run = run.after(pair.slave.append_run(run))
        pair.world.run()
        if not run.data:
            run = take_run(pair.world, pair.master, pair.slave.end_position, 10_000)
    stuck = pair.slave.end_position
    assert stuck < pair.master.end_position
    assert pair.slave.is_full
    assert not pair.slave.is_fenced
    ready.clear()
    pair.slave_disk.capacity = 1 << 40
    pair.world.advance(2000)
    assert ready
    pair.replicate()
    assert pair.slave.end_position == pair.master.end_position
    pair.check()


def test_an_append_that_had_to_wait_is_told_when_it_may_go_on():
    pair = Pair()
    pair.append(size=100)
    pair.append(size=100)
    run = take_run(pair.world, pair.master, 0)
    ready = []
    pair.slave.on_append_ready = lambda: ready.append(True)
    taken = pair.slave.append_run(run)
    assert 0 < taken < len(run.data)
    assert not ready
    pair.world.run()
    assert ready == [True]
    assert pair.slave.append_run(run.after(taken)) > 0


def test_partitions_that_are_not_known_begin_where_their_first_batch_says():
    pair = Pair()
    pair.append(300, size=1000)
    assert len(frames_of(pair.master_disk, pair.master)) > 300
    base = take_run(pair.world, pair.master, 3 * SMALL.segment_bytes)
    answers: list[Exception | None] = []
    pair.slave.reset_to(base.file_base, base.file_end, answers.append)
    pair.world.run()
    assert answers == [None]
    pair.replicate()
    own = pair.slave_partition()
    assert own.log_end_offset == 300
    assert own.log_start_offset > 100
    pair.check()
    expected = read_all(pair.world, pair.master, pair.partition)[own.log_start_offset :]
    assert read_all(pair.world, pair.slave, own) == expected


@pytest.mark.parametrize("opens", [open_member, open_log])
def test_a_slave_that_crashed_while_its_tail_was_emptied_goes_on_in_the_same_segment(opens):
    # The file is cut, and the crash comes before it has its length again: a segment too many.
    pair = Pair()
    pair.append(40, size=500)
    pair.replicate()
    pair.world.run()

    def crash(operation, path):
        if operation == "allocate" and path.endswith(".log"):
            raise Crashed

    pair.slave_disk.on_operation = crash
    with pytest.raises(Crashed):
        open_member(pair.world, pair.slave_disk)
    pair.slave_disk.on_operation = None
    pair.world.run()
    pair.slave = opens(pair.world, pair.slave_disk)
    pair.slave.is_sole_member = False
    end = pair.slave.end_position
    assert [segment.base for segment in pair.slave.writer._store.segments] == [0, end]
    reopenings = []
    pair.slave.on_reopened = lambda: reopenings.append(True)
    pair.append(200, size=500)
    pair.replicate()
    assert reopenings == [True]
    pair.check()
    own = pair.slave_partition()
    assert own.log_end_offset == 240
    assert len(read_all(pair.world, pair.slave, own)) == 240
    assert pair.slave.writer._store.segments[1].base == SMALL.segment_bytes


def test_a_slave_follows_a_master_whose_segment_became_shorter_on_a_full_disk():
    pair = pair_with_a_shorter_segment()
    pair.append(200, size=500)
    assert pair.master.writer._store.segments[1].base % SMALL.segment_bytes
    pair.replicate()
    pair.check()
    assert pair.slave_partition().log_end_offset == 245
    bases = [
        [segment.base for segment in log.writer._store.segments]
        for log in (pair.master, pair.slave)
    ]
    assert bases[0] == bases[1]


@pytest.mark.parametrize(
    "bounds", [(0, 1 << 40), (100, SMALL.segment_bytes), (0, 300), (-(1 << 40), 1 << 20)]
)
def test_a_run_with_impossible_segment_bounds_is_refused(bounds):
    pair = Pair()
    pair.append(10, size=500)
    run = take_run(pair.world, pair.master, 0)
    with pytest.raises(BadRun):
        pair.slave.append_run(run._replace(file_base=bounds[0], file_end=bounds[1]))
    pair.replicate()
    pair.check()
