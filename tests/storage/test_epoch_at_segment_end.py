"""A mastership that begins where a segment is full: everything behind belongs to the new epoch.

    old epoch's frames │ end marker │ gap │ epoch frame │ ...
                       └ the new epoch starts here; without room for a marker, at the epoch frame

A master of the past may have gone over the same end by itself, with frames of its own.
"""

import errno
from random import Random
from typing import cast

import pytest

from harness.log_world import DIRECTORY, SMALL, World, append, partition_number
from penstock.base.ids import LeaderEpoch, Position
from penstock.frames.frames import EPOCH_PAYLOAD, HEADER, KIND_END, KIND_EPOCH
from penstock.inspection.findings import Severity
from penstock.inspection.verify import LogCheck
from penstock.replication.alignment import Continue, LogShape, Truncate, align
from penstock.replication.epochs import EpochStart
from penstock.storage.errors import BadRun, LogFenced, OutOfSpace, SegmentNotReady
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    check_equal,
    copy_base,
    copy_of,
    crashes,
    export_of,
    fill_segment,
    frames_of,
    give_run,
    open_member,
    settle,
    take_run,
)

END = SMALL.segment_bytes
MARKED = [48, 53, 59]
"""Room for a marker, none for an epoch frame."""
UNMARKED = [0, 1, 47]
AROUND = [*UNMARKED, *MARKED, 60, 108]


class Replica:
    """A member with a world of its own: nothing happens in it unasked."""

    def __init__(self, disk=None):
        self.world, self.disk = World(), disk or FaultyDisk()
        self.log = open_member(self.world, self.disk)
        self.log.follow()

    @property
    def partition(self):
        return self.log.open_partition(partition_number(0))

    @property
    def shape(self):
        epochs = [
            EpochStart(LeaderEpoch(epoch), Position(start)) for epoch, start in self.log.epochs
        ]
        return LogShape(epochs, Position(self.log.start_position), Position(self.log.end_position))

    def append(self, count, *, size=700):
        for number in range(count):
            append(self.log, self.partition, size=size, fill=number)
            if number >= 10:
                self.world.run()

    def copy_from(self, master, *, runs=1 << 30):
        for _ in range(runs):
            run = take_run(master.world, master.log, self.log.end_position)
            if not run.data:
                return
            give_run(self.world, self.log, run)
        self.world.run()

    def follow(self, master):
        """Align as slaves do, copy everything, and be equal."""
        self.log.follow()
        self.world.run()
        found = align(self.shape, master.shape)
        assert isinstance(found, Continue | Truncate), found
        settle(self.world, self.log.truncate, found.position)
        self.log.follow()
        master.world.run()
        self.copy_from(master)
        self.world.run()
        self.check_equal(master)

    def check_equal(self, master):
        assert self.log.end_position == master.log.end_position
        check_equal((self.disk, self.log), (master.disk, master.log))
        assert self.log.epochs == master.log.epochs
        assert self.partition.log_end_offset == master.partition.log_end_offset

    def restarted(self):
        self.disk.on_operation = None
        return Replica(self.disk)


def at_the_end(left, *, capacity=1 << 40):
    """Return an old master with `left` bytes in its segment, and a slave with all that it has."""
    old, new = (Replica(FaultyDisk(capacity)) for _ in range(2))
    old.log.begin_epoch(LeaderEpoch(1))
    assert fill_segment(old.world, old.log, old.partition, left)
    new.copy_from(old)
    new.world.run()
    assert new.log.end_position == old.log.end_position == END - left
    return old, new


def tell(frames, position):
    """Return kind, leader epoch, and what an epoch frame says of its epoch's start."""
    header = HEADER.unpack_from(frames[position])
    start = EPOCH_PAYLOAD.unpack(frames[position][48:])[1] if header[3] == KIND_EPOCH else None
    return header[3], header[5], start


@pytest.mark.parametrize("left", MARKED)
def test_an_epoch_that_needs_the_next_segment_starts_at_the_end_marker(left):
    _, new = at_the_end(left)
    new.log.begin_epoch(2)
    frames = frames_of(new.disk, new.log)
    assert tell(frames, END - left) == (KIND_END, 2, None)
    assert tell(frames, END) == (KIND_EPOCH, 2, END - left)
    assert new.log.epochs == [(1, 0), (2, END - left)]
    assert new.log.end_position == END + 60
    assert new.log.leader_epoch == 2


@pytest.mark.parametrize("left", UNMARKED)
def test_without_room_for_a_marker_the_epoch_starts_with_the_next_segment(left):
    _, new = at_the_end(left)
    new.log.begin_epoch(2)
    frames = frames_of(new.disk, new.log)
    assert tell(frames, END) == (KIND_EPOCH, 2, END)
    assert new.log.epochs == [(1, 0), (2, END)]
    assert new.log.end_position == END + 60


@pytest.mark.parametrize("left", AROUND)
@pytest.mark.parametrize("tail", [0, 1, 30, 150])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_stale_master_that_rolled_by_itself_becomes_equal(left, tail, is_restarted):
    old, new = at_the_end(left)
    old.append(tail)  # rolls with claims that lag behind those of the slave
    new.log.begin_epoch(2)
    new.append(5)
    if is_restarted:
        old.world.run()
        old = old.restarted()
    old.follow(new)
    new.append(150)
    old.follow(new)


@pytest.mark.parametrize("left", AROUND)
def test_a_stale_master_that_wrote_only_its_marker_becomes_equal(left):
    old, new = at_the_end(left)
    old.append(1)
    old.disk.on_operation = None
    node = old.disk.names[f"{DIRECTORY}/log/{END:020d}.log"]
    node.data[:] = bytes(len(node.data))
    old = old.restarted()
    new.log.begin_epoch(2)
    new.append(5)
    old.follow(new)


@pytest.mark.parametrize("left", MARKED)
def test_a_run_ends_before_the_marker_of_a_newer_epoch(left):
    _, new = at_the_end(left)
    new.log.begin_epoch(2)
    new.world.run()
    last = max(position for position in frames_of(new.disk, new.log) if position < END - left)
    before = take_run(new.world, new.log, last)
    assert (before.leader_epoch, before.end_position) == (1, END - left)
    marker = take_run(new.world, new.log, before.next_position)
    assert (marker.leader_epoch, len(marker.data), marker.next_position) == (2, 48, END)


@pytest.mark.parametrize("left", MARKED)
def test_a_slave_that_got_only_the_marker_knows_the_epoch_also_after_a_restart(left):
    old, new = at_the_end(left)
    third = Replica()
    third.copy_from(old)
    new.log.begin_epoch(2)
    new.world.run()
    third.copy_from(new, runs=1)
    for _ in range(2):
        assert third.log.epochs == [(1, 0), (2, END - left)]
        assert (third.log.leader_epoch, third.log.end_position) == (2, END)
        third = third.restarted()
    third.log.begin_epoch(LeaderEpoch(3))
    assert third.log.epochs == [(1, 0), (2, END - left), (3, END)]
    third.append(5)
    old.append(30)
    old.follow(third)
    new.append(30)
    new.follow(third)


@pytest.mark.parametrize("left", MARKED)
def test_a_marker_of_an_older_epoch_or_a_wrong_start_behind_it_is_refused(left):
    old, new = at_the_end(left)
    old.append(1)
    old.world.run()
    own = take_run(old.world, old.log, END - left)
    new.log.begin_epoch(2)
    new.world.run()
    third, marker = Replica(), take_run(new.world, new.log, END - left)
    third.copy_from(new)
    fourth = Replica()
    fourth.copy_from(old)
    settle(fourth.world, fourth.log.truncate, END - left)
    fourth.log.follow()
    give_run(fourth.world, fourth.log, marker)
    with pytest.raises(BadRun):
        fourth.log.append_run(take_run(old.world, old.log, END))
    settle(third.world, third.log.truncate, END - left)
    third.log.begin_epoch(LeaderEpoch(5))
    third.world.run()
    with pytest.raises(BadRun):
        third.log.append_run(own._replace(position=third.log.end_position))


@pytest.mark.parametrize("left", [0, 47, 48, 59])
@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_write_of_such_a_beginning_recovers_and_aligns(left, seed):
    random = Random(seed)
    stale, origin = at_the_end(left)
    stale.append(40)
    stale.world.run()
    origin.world.run()
    state = {}

    def begin():
        state["disk"] = copy_of(origin.disk)
        new = state["new"] = Replica(state["disk"])
        state["third"] = third = Replica(copy_of(origin.disk))
        new.disk.on_operation = state.get("hook")
        new.log.begin_epoch(LeaderEpoch(2))
        for _ in range(3):
            new.world.turn()
            third.copy_from(new)
            new.append(1, size=5000)
            if new.world.work:
                new.world.work_one()
        new.world.run()

    for _ in crashes(begin, state):
        third = state["third"]
        state["disk"].power_loss(random) if seed else state["disk"].kill()
        new = state["new"].restarted()
        assert new.log.epochs in ([(1, 0)], [(1, 0), (2, END - left if left >= 48 else END)])
        master = max(new, third, key=lambda one: (one.log.leader_epoch, one.log.end_position))
        master.log.begin_epoch(3)
        master.append(5)
        for slave in (new, third, Replica(copy_of(stale.disk)), Replica(copy_of(origin.disk))):
            if slave is not master:
                slave.follow(master)
        assert not [
            found
            for found in LogCheck(master.disk, DIRECTORY).findings()
            if found.severity is Severity.ERROR
        ]
    assert state["steps"] > 4


@pytest.mark.parametrize("left", MARKED)
def test_a_base_copied_behind_such_a_marker_goes_on_with_its_epoch(left):
    _, new = at_the_end(left)
    new.log.begin_epoch(2)
    new.append(10)
    new.world.run()
    new.log.note_confirmed(new.log.end_position)
    settle(new.world, lambda done: new.log.checkpoint(lambda _worked: done(None)))
    new.append(10)
    new.world.run()
    for newest_only in (False, True):
        other = Replica()
        export = export_of(new.world, new.log, newest_only=newest_only)
        both = _Both(new.world, other.world)
        copy_base(cast("World", both), export, other.log)
        export.release()
        other.log.follow()
        other.copy_from(new)
        assert other.log.epochs[-1] == new.log.epochs[-1] == (2, END - left)
        check_equal((other.disk, other.log), (new.disk, new.log))


@pytest.mark.parametrize("left", [0, 47, 48, 59])
@pytest.mark.parametrize("was_following", [False, True])
def test_a_beginning_that_finds_no_next_segment_changes_nothing(left, was_following):
    old, new = at_the_end(left, capacity=END + 20_000)
    one = new if was_following else old
    check_refused(one, OutOfSpace)
    one.disk.capacity = 1 << 40
    one.world.advance(SMALL.space_check_ms)
    check_begins(one, END - left if left >= 48 else END)


@pytest.mark.parametrize("left", MARKED)
@pytest.mark.parametrize("was_following", [False, True])
def test_a_marker_that_finds_no_space_changes_nothing(left, was_following):
    old, new = at_the_end(left)
    one = new if was_following else old
    one.disk.fail("write", ".log", errno.ENOSPC)
    check_refused(one, OutOfSpace)
    one.world.advance(SMALL.space_check_ms)
    check_begins(one, END - left)


@pytest.mark.parametrize("left", MARKED)
def test_a_marker_that_can_not_be_written_fences_and_begins_nothing(left):
    _, new = at_the_end(left)
    new.disk.fail("write", ".log", errno.EIO)
    check_refused(new, LogFenced)
    assert new.restarted().log.epochs == [(1, 0)]


def test_a_segment_whose_file_is_on_its_way_begins_nothing():
    _, new = at_the_end(48)
    active = new.log._store.active
    file, active.file = active.file, None
    check_refused(new, SegmentNotReady)
    active.file = file
    check_begins(new, END - 48)


class _Both:
    """Two worlds that run together."""

    def __init__(self, *worlds):
        self._worlds = worlds

    def run(self):
        for world in self._worlds:
            world.run()


def check_refused(one, error):
    log = one.log
    before = (log.leader_epoch, log.epochs[:], log.end_position, log.is_following)
    start = log.writer.epoch_start
    frames = frames_of(one.disk, log)
    with pytest.raises(error):
        log.begin_epoch(2)
    assert (log.leader_epoch, log.epochs, log.end_position, log.is_following) == before
    assert log.writer.epoch_start == start
    assert frames_of(one.disk, log) == frames


def check_begins(one, start):
    one.log.begin_epoch(2)
    assert one.log.epochs == [(1, 0), (2, start)]
    one.append(3)
    one.world.run()
    epochs, end = one.log.epochs, one.log.end_position
    again = one.restarted()
    assert (again.log.epochs, again.log.end_position) == (epochs, end)
