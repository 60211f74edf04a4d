"""A master and a slave, each on its own faulty disk, against what the set has confirmed.

Random appends, deletes, rolls, retention, partial runs, kills and power losses of either, clean
restarts, failovers with truncation, copies of a base. At any time the two logs are equal byte for
byte up to the smaller end once they are aligned, and nothing confirmed is ever missing.
"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.log_world import SMALL, Crashed, World, append, async_config, partition_number
from penstock.base.ids import LeaderEpoch, Offset
from penstock.frames.run import Run
from penstock.storage.config import FlushPolicy, Retention
from penstock.storage.errors import OutOfSpace, PositionOutOfRange
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import (
    copy_until,
    export_of,
    fill_segment,
    frames_of,
    open_member,
    settle,
    take_run,
)

pytestmark = pytest.mark.timeout(600)  # a long search; the limit is for hangs only

PARTITIONS = 3


class Replica:
    """One member: its disk survives it, its world does not."""

    def __init__(self, random, config):
        self.random = random
        self.config = config
        self.disk = FaultyDisk()
        self.open()

    def open(self):
        self.disk.on_operation = None
        self.disk.is_cold = False
        self.world = World(self.random)
        self.log = open_member(self.world, self.disk, self.config)
        self.log.follow()

    def frames(self):
        return frames_of(self.disk, self.log)

    @property
    def rank(self):
        epochs = self.log.epochs
        return (epochs[-1][0] if epochs else -1, self.log.end_position)


class ReplicaPair(RuleBasedStateMachine):
    """Rules act on one of the two; `master` and `slave` change places at failovers."""

    @initialize(
        seed=st.integers(0, 1 << 32),
        policy=st.sampled_from(list(FlushPolicy)),
        slave_kib=st.sampled_from([64, 64, 80, 150]),
        segments=st.integers(0, 4),
    )
    def begin(self, seed, policy, slave_kib, segments):
        self.random = Random(seed)
        config = SMALL if policy is FlushPolicy.SYNC else async_config(flush_interval_bytes=8192)
        self.master = Replica(self.random, config)
        self.slave = Replica(self.random, replace(config, segment_bytes=slave_kib << 10))
        self.is_in_sync = True
        self.rest = None
        self.confirmed = 0
        self.confirmed_frames = {}
        self.leader_epoch = 1
        self.master.log.begin_epoch(LeaderEpoch(1))
        for number in range(segments * 13):
            self.append(number % PARTITIONS, 5000, 1, 1, True)

    @rule(
        number=st.integers(0, PARTITIONS - 1),
        size=st.sampled_from([61, 100, 700, 3000, 9000]),
        records=st.integers(1, 3),
        count=st.integers(1, 20),
        runs=st.booleans(),
    )
    def append(self, number, size, records, count, runs):
        log = self.master.log
        partition = log.open_partition(partition_number(number))
        for _ in range(count):
            fill = self.random.randrange(256)
            try:
                append(log, partition, size=size, records=records, fill=fill)
            except OutOfSpace:
                return
            if runs:
                self.master.world.run()

    @precondition(lambda self: self.is_in_sync)
    @rule(
        left=st.sampled_from([0, 30, 47, 48, 53, 59, 60]),
        tail=st.integers(0, 12),
        how=st.sampled_from(["kill", "power", None]),
    )
    def the_slave_leads_where_a_segment_is_full(self, left, tail, how):
        """The old master goes over the same end by itself, with claims of its own."""
        master, slave = self.master, self.slave
        partition = master.log.open_partition(partition_number(0))
        try:
            if not fill_segment(master.world, master.log, partition, left):
                return
        except OutOfSpace:
            return
        self.stream(1 << 20, 1000, True)
        slave.world.run()
        self.append(0, 700, 1, tail, False)
        if how is None:
            master.world.run()
        else:
            self.crash(master, how, 0)
        if slave.rank[0] == master.log.leader_epoch and slave.log.end_position >= self.confirmed:
            self.master, self.slave = slave, master
        self.lead()

    @rule(number=st.integers(0, PARTITIONS - 1), share=st.floats(0, 1))
    def delete_records(self, number, share):
        log = self.master.log
        partition = log.open_partition(partition_number(number))
        try:
            log.delete_records(partition, Offset(int(partition.log_end_offset * share)))
        except OutOfSpace:
            return

    @rule(of_master=st.booleans(), milliseconds=st.sampled_from([0, 10, 300]))
    def time_passes(self, of_master, milliseconds):
        (self.master if of_master else self.slave).world.advance(milliseconds)

    @rule(of_master=st.booleans())
    def one_piece_of_work(self, of_master):
        world = (self.master if of_master else self.slave).world
        world.turn()
        if world.work:
            world.work_one()

    @rule(
        max_bytes=st.sampled_from([1, 1000, 10_000, 1 << 20]),
        count=st.integers(1, 40),
        works=st.booleans(),
    )
    def stream(self, max_bytes, count, works):
        master, slave = self.master, self.slave
        for _ in range(count):
            if slave.log.is_busy:
                slave.world.run()
            if self.rest is None or not self.rest.data:
                try:
                    run = take_run(master.world, master.log, slave.log.end_position, max_bytes)
                except PositionOutOfRange:
                    assert slave.log.end_position < master.log.start_position
                    return
                # The buffer of the connection is its own.
                self.rest = run._replace(data=memoryview(bytes(run.data)))
                assert isinstance(run, Run)
            if not self.rest.data:
                return
            self.rest = self.rest.after(slave.log.append_run(self.rest))
            if works:
                slave.world.run()

    @rule()
    def confirm(self):
        master, slave = self.master, self.slave
        if slave.log.flushed_position >= self.confirmed:
            self.is_in_sync = True
        reached = master.log.flushed_position
        if self.is_in_sync:
            reached = min(reached, slave.log.flushed_position)
        if reached <= self.confirmed:
            return
        self.confirmed = reached
        for position, frame in master.frames().items():
            if position < reached:
                self.confirmed_frames[position] = frame
        master.log.note_confirmed(reached)
        if self.random.random() < 0.7:
            slave.log.note_confirmed(min(reached, slave.log.end_position))

    @rule(of_master=st.booleans())
    def checkpoint(self, of_master):
        (self.master if of_master else self.slave).log.checkpoint()

    @rule(of_master=st.booleans(), kept=st.sampled_from([0, 30_000, 100_000]))
    def retention(self, of_master, kept):
        replica = self.master if of_master else self.slave
        replica.log.apply_retention(replica.world.now_ms, lambda _: Retention(kept, -1))
        replica.world.run()

    @rule(of_master=st.booleans())
    def reads_get_cold(self, of_master):
        replica = self.master if of_master else self.slave
        replica.disk.is_cold = not replica.disk.is_cold

    @rule(how=st.sampled_from(["kill", "power", "close", "middle"]), steps=st.integers(0, 40))
    def slave_restarts(self, how, steps):
        self.crash(self.slave, how, steps)
        self.rest = None
        self.align()

    @rule(how=st.sampled_from(["kill", "power", "close"]))
    def master_restarts_and_the_longest_leads(self, how):
        self.crash(self.master, how, 0)
        self.elect()

    @precondition(lambda self: self.is_in_sync)
    @rule(how=st.sampled_from(["kill", "power"]))
    def the_slave_leads_and_the_old_master_comes_back(self, how):
        self.crash(self.master, how, 0)
        self.master, self.slave = self.slave, self.master
        self.lead()

    @rule()
    def the_slave_is_replaced_by_an_empty_one(self):
        self.slave = Replica(self.random, self.slave.config)
        self.rest = None
        self.is_in_sync = False

    @rule()
    def the_master_goes_on_alone_for_long(self):
        self.the_slave_is_replaced_by_an_empty_one()
        for number in range(30):
            self.append(number % PARTITIONS, 3000, 1, 1, True)
        for _ in range(3):
            self.confirm()
            self.master.world.advance(300)
            self.retention(True, 30_000)

    @rule()
    def both_lose_power(self):
        self.crash(self.master, "power", 0)
        self.crash(self.slave, "power", 0)
        self.elect()

    def crash(self, replica, how, steps):
        if how == "middle":
            self.crash_in_the_middle(replica, steps)
        end = replica.log.written_position
        durable = replica.log.flushed_position
        if how == "close":
            replica.world.run()
            end = replica.log.end_position
            replica.log.close()
        if how in ("power", "middle"):
            replica.disk.power_loss(self.random)
        replica.open()
        least = durable if how in ("power", "middle") else end
        assert replica.log.end_position >= min(least, end)

    def crash_in_the_middle(self, replica, steps):
        left = steps

        def count(_operation, _path):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crashed

        replica.disk.on_operation = count
        try:
            self.stream(5000, 20, True)
            replica.world.advance(300)
        except Crashed:
            pass

    def elect(self):
        """The longest leads; the other one follows it."""
        if self.is_in_sync and self.slave.rank > self.master.rank:
            self.master, self.slave = self.slave, self.master
        self.lead()

    def lead(self):
        """The other one follows."""
        self.rest = None
        self.leader_epoch += 1
        while self.master.log.parts.appender.is_fitting:
            self.master.world.run()
        self.master.log.begin_epoch(LeaderEpoch(self.leader_epoch))
        self.check_confirmed(self.master, self.confirmed)
        self.slave.log.follow()
        self.align()

    def align(self):
        """The slave cuts itself down to the last consistent point."""
        master, slave = self.master.log, self.slave.log
        theirs = master.epochs
        point = None
        for at in range(len(slave.epochs) - 1, -1, -1):
            if slave.epochs[at] in theirs:
                where = theirs.index(slave.epochs[at])
                own = [*slave.epochs, (0, slave.end_position)][at + 1][1]
                other = [*theirs, (0, master.end_position)][where + 1][1]
                point = min(own, other)
                break
        if point is None or point < master.start_position:
            if slave.end_position > self.confirmed or slave.epochs:
                settle(self.slave.world, slave.reset_to, 0, self.slave.config.segment_bytes)
            return
        if point < slave.end_position:
            assert point >= slave.snapshot_position, "a clean election cuts below a snapshot"
            settle(self.slave.world, slave.truncate, point)
            slave.follow()
        assert slave.end_position - point < 48

    @precondition(lambda self: self.slave.log.end_position < self.master.log.start_position)
    @rule(chunk=st.sampled_from([3000, 50_000]), newest_only=st.booleans())
    def install(self, chunk, newest_only):
        master, slave = self.master, self.slave
        self.rest = None
        slave.world.run()
        export = export_of(master.world, master.log, newest_only=newest_only)
        worlds, end = (master.world, slave.world), export.manifest.position
        copy_until(worlds, export, slave.log, end, chunk=chunk)
        settle(slave.world, slave.log.finish_install)
        export.release()
        slave.log.follow()
        assert slave.log.end_position == export.manifest.position
        self.check_confirmed(slave, end)

    def check_confirmed(self, replica, end):
        frames = replica.frames()
        for position, frame in self.confirmed_frames.items():
            if replica.log.start_position <= position < end:
                assert frames.get(position) == frame, "confirmed data is gone"

    @invariant()
    def logs_are_equal_as_far_as_both_go(self):
        if not hasattr(self, "master") or self.slave.log.is_busy or self.master.log.is_busy:
            return
        master, slave = self.master.log, self.slave.log
        for log in (master, slave):
            assert not log.is_fenced
            assert log.flushed_position <= log.written_position <= log.end_position
            assert log.snapshot_position <= max(self.confirmed, log.start_position)
            starts = [start for _, start in log.epochs]
            assert starts == sorted(starts)
        frames, copied = self.master.frames(), self.slave.frames()
        start = max(master.start_position, slave.start_position)
        end = min(master.end_position, slave.end_position)
        for position, frame in copied.items():
            if start <= position < end:
                assert frames.get(position) == frame
        for key, partition in slave.partitions.items():
            other = master.partitions.get(key)
            if other is not None and slave.end_position == master.end_position:
                assert partition.log_end_offset in (other.log_end_offset, 0)


TestReplicaPair = ReplicaPair.TestCase
TestReplicaPair.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
