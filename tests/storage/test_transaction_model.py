"""Transactions in a log against a list: crashes, truncations, retention, lost files, and a slave.

Whatever happens, the log knows which transactions are open, where the first one begins that is not
decided for certain, and which aborted ones touch any part of what is stable.
"""

from functools import partial
from random import Random
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.log_world import SMALL, World, make_batch, open_log, partition_number
from penstock.base.ids import CoordinatorEpoch, LeaderEpoch, Position, ProducerEpoch
from penstock.frames.run import Run
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.config import Retention
from penstock.storage.errors import OutOfSpace
from penstock.storage.index.transactions import TransactionEnd
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member, take_run
from tests.storage.transaction_list import Entry, aborted, transactions_of, unstable

PARTITIONS = 2
producers = st.integers(1, 4)
numbers = st.integers(0, PARTITIONS - 1)


class TransactionsAgainstList(RuleBasedStateMachine):
    """Rules act on the log and on the list alike."""

    @initialize(seed=st.integers(0, 1 << 32))
    def begin(self, seed):
        self.random = Random(seed)
        self.disk = FaultyDisk()
        self.entries: list[Any] = []
        self.confirmed = 0
        self.epoch = 1
        self.world = World(self.random)
        self.log = open_log(self.world, self.disk, SMALL)
        self.stable_before = dict.fromkeys(range(PARTITIONS), 0)

    def partition(self, number):
        return self.log.open_partition(partition_number(number))

    def found(self, number):
        return transactions_of(self.entries, number)

    def is_open(self, number, producer_id):
        return any(
            one.producer_id == producer_id and one.marker is None for one in self.found(number)
        )

    # What is appended

    @rule(
        number=numbers,
        producer_id=producers,
        size=st.sampled_from([100, 900, 5000]),
        count=st.integers(1, 8),
    )
    def write(self, number, producer_id, size, count):
        partition = self.partition(number)
        for _ in range(count):
            known = partition.producers.known(producer_id)
            at = (0, 0) if known is None else (known.epoch, known.last_sequence + 1)
            batch = make_batch(size=size, producer=(producer_id, *at), attributes=TRANSACTIONAL)
            header = read_header(batch)
            assert partition.producers.check(header) is None
            append = partial(self.log.append, partition, batch, header)
            self.add(number, producer_id, append)
            self.world.run()

    @rule(number=numbers, commits=st.booleans())
    def end_all(self, number, commits):
        for producer_id in range(1, 5):
            if self.is_open(number, producer_id):
                self.end(number, producer_id, commits, False)

    @rule(number=numbers, count=st.integers(1, 20))
    def write_without_a_transaction(self, number, count):
        partition = self.partition(number)
        for _ in range(count):
            batch = make_batch(size=900)
            header = read_header(batch)
            append = partial(self.log.append, partition, batch, header)
            self.add(number, -1, append, transactional=False)

    @rule(number=numbers, producer_id=producers, commits=st.booleans(), bumps=st.booleans())
    def end(self, number, producer_id, commits, bumps):
        known = self.partition(number).producers.known(producer_id)
        epoch = bumps if known is None else known.epoch + bumps
        marker = TransactionEnd(
            producer_id, ProducerEpoch(int(epoch)), CoordinatorEpoch(3), commits
        )
        self.add(
            number,
            producer_id,
            lambda: self.log.transactions.append_marker(self.partition(number), marker),
            ends=commits,
        )
        after = self.partition(number).producers.known(producer_id)
        if after is not None and after.epoch == epoch:
            assert after.first_open_offset == -1 or not self.is_open(number, producer_id)

    def add(self, number, producer_id, append, *, transactional=True, ends=None):
        try:
            base = append()
        except OutOfSpace:
            return
        end, position = self.partition(number).log_end_offset, self.log.end_position
        self.entries.append(Entry(number, base, end, position, producer_id, transactional, ends))

    # What happens to it

    @rule()
    def settle(self):
        self.world.run()

    @rule(part=st.floats(0, 1))
    def confirm(self, part):
        self.world.run()
        reached = int(self.confirmed + part * (self.log.flushed_position - self.confirmed))
        self.confirmed = max(self.confirmed, reached)

    @rule()
    def checkpoint(self):
        self.world.run()
        self.log.checkpoint()
        self.world.run()

    @rule(kept=st.sampled_from([0, 30_000, 100_000]))
    def retention(self, kept):
        self.log.apply_retention(4000, lambda _: Retention(kept, -1))
        self.world.run()

    @rule(count=st.integers(1, 3))
    def indexes_are_lost(self, count):
        self.world.run()
        names = [name for name in self.disk.names if name.endswith(".idx")]
        for name in self.random.sample(names, min(count, len(names))):
            self.disk.remove(name)

    @rule()
    def caches_are_empty(self):
        self.world.run()
        for segment in self.log.parts.store.segments[:-1]:
            self.log.parts.reader.cache.drop_segment(segment.base)

    @rule(how=st.sampled_from(["close", "kill", "power"]))
    def open_again(self, how):
        if how == "close":
            self.world.run()
            self.log.close()
        elif how == "power":
            self.disk.power_loss(self.random)
        self.world = World(self.random)
        self.log = open_log(self.world, self.disk, SMALL)
        self.after_a_cut()

    @rule(part=st.floats(0, 1), is_unclean=st.booleans())
    def truncate(self, part, is_unclean):
        """A log is cut below what was confirmed only after an unclean election."""
        self.world.run()
        log = self.log
        least = log.start_position if is_unclean else max(self.confirmed, log.start_position)
        ends = [one.end_position for one in self.entries if one.end_position >= least]
        if not ends:
            return
        at = ends[int(part * (len(ends) - 1))]
        if not log.start_position < at <= log.end_position:
            return
        log.follow()
        done: list[Any] = []
        log.truncate(at, done.append)
        self.world.run()
        assert done == [None]
        self.after_a_cut()
        if at < self.confirmed:
            self.stable_before = dict.fromkeys(range(PARTITIONS), 0)
        self.confirmed = min(self.confirmed, at)
        self.epoch = max(self.epoch, int(log.leader_epoch)) + 1
        log.begin_epoch(LeaderEpoch(self.epoch))

    def after_a_cut(self):
        end = self.log.end_position
        self.entries = [one for one in self.entries if one.end_position <= end]
        self.epoch = max(self.epoch, int(self.log.leader_epoch))
        for number in range(PARTITIONS):  # what began above may be gone, and others begin there
            end = self.partition(number).log_end_offset
            self.stable_before[number] = min(self.stable_before[number], end)

    # What must be true

    @invariant()
    def what_is_open_is_known(self):
        if not hasattr(self, "log"):
            return
        for number in range(PARTITIONS):
            partition = self.partition(number)
            start = partition.log_start_offset
            kept = {
                one.producer_id: max(one.first, start)
                for one in self.found(number)
                if one.marker is None and one.batches[-1].end > start
            }
            for producer_id in range(1, 5):
                known = partition.producers.known(producer_id)
                told = -1 if known is None else known.first_open_offset
                if producer_id in kept:
                    assert max(told, start) == kept[producer_id]
                    assert told >= 0
                else:
                    assert told == -1 or told < start

    @invariant()
    def what_is_unstable_is_known(self):
        if not hasattr(self, "log"):
            return
        for number in range(PARTITIONS):
            partition = self.partition(number)
            start = partition.log_start_offset
            told = self.log.transactions.first_unstable(partition, Position(self.confirmed))
            every = unstable(self.found(number), self.confirmed)
            kept = [one for one in every if one.batches[-1].end > start]
            offset = None if told is None else told.offset
            if kept:
                assert offset is not None
                assert max(offset, start) == max(kept[0].first, start) or (
                    offset < start and every[0] is not kept[0]
                )
            else:
                assert offset is None or offset < start
            if offset is not None and offset >= start:  # else the log start is what counts
                assert offset >= self.stable_before[number]
                self.stable_before[number] = offset

    @rule(first=st.floats(0, 1), length=st.integers(1, 60), confirms=st.booleans())
    def what_was_aborted_is_found(self, first, length, confirms):
        if confirms:
            self.world.run()
            self.confirmed = max(self.confirmed, self.log.flushed_position)
        for number in range(PARTITIONS):
            for start, size in ((first, length), (0, 1 << 40), (first, 1 << 40), (0, length)):
                self.look_for_aborted(number, start, size)

    def teardown(self):
        if hasattr(self, "log"):
            self.what_was_aborted_is_found(0.5, 10, True)

    def look_for_aborted(self, number, first, length):
        self.world.turn()
        partition = self.partition(number)
        told = self.log.transactions.first_unstable(partition, Position(self.confirmed))
        limit = partition.log_end_offset if told is None else told.offset
        low = partition.log_start_offset
        if limit <= low:
            return
        start = low + int(first * (limit - low - 1))
        end = min(start + length, limit)
        touching = aborted(self.found(number), start, end)
        needed = aborted(self.found(number), start, end, self.end_of_segment(number, start))
        results: list[Any] = []
        self.log.transactions.find_aborted(partition, start, end, lambda *one: results.append(one))
        self.world.run()
        ((transactions, error),) = results
        assert error is None
        listed = [tuple(one) for one in transactions]
        assert listed == [one for one in touching if one in listed]
        assert set(needed) <= set(listed)

    def end_of_segment(self, number, offset):
        """Return the position where a read of the offset ends."""
        holding = [one for one in self.entries if one.partition == number and one.end > offset]
        segment = self.log.parts.store.segment_of(holding[0].end_position - 1)
        assert segment is not None
        return segment.end

    @rule()
    def a_slave_is_told_the_same(self):
        """It gets the runs of the master, and reads them from its own files too."""
        self.world.run()
        log = self.log
        if log.start_position > 0:
            return
        world, disk = World(self.random), FaultyDisk()
        slave = open_member(world, disk, SMALL)
        slave.follow()
        for _ in range(500):
            if slave.end_position >= log.end_position:
                break
            run = take_run(self.world, log, slave.end_position, 1 << 20)
            assert isinstance(run, Run)
            slave.append_run(run._replace(data=memoryview(bytes(run.data))))
            world.run()
        assert slave.end_position == log.end_position
        self.is_the_same(slave)
        world = World(self.random)
        again = open_member(world, disk, SMALL)
        self.is_the_same(again)

    def is_the_same(self, other):
        for number in range(PARTITIONS):
            own, theirs = self.partition(number), other.open_partition(partition_number(number))
            assert theirs.log_end_offset == own.log_end_offset
            told = self.log.transactions.first_unstable(own, Position(self.confirmed))
            assert other.transactions.first_unstable(theirs, self.confirmed) == told
            for producer_id in range(1, 5):
                known, also = (one.producers.known(producer_id) for one in (own, theirs))
                assert (known is None) == (also is None)
                if known is not None:
                    assert also._replace(last_append_ms=0) == known._replace(last_append_ms=0)


TestTransactionsAgainstList = TransactionsAgainstList.TestCase
TestTransactionsAgainstList.settings = settings(
    max_examples=40,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
