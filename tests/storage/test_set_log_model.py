"""The whole log against a list, with crashes, power loss, full disks and cold reads at any time.

The model keeps every batch with the position at which its frame ended. After a crash the log must
hold a prefix of it in log order, at least up to what was durable; what it holds must be readable,
byte for byte, and producers must be known again.
"""

from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from harness.log_world import (
    SMALL,
    Crashed,
    World,
    async_config,
    make_batch,
    open_log,
    partition_number,
    read_all,
)
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.frames.frames import FRAME_HEADER_BYTES
from penstock.record.batch import read_header
from penstock.storage.config import FlushPolicy, Retention
from penstock.storage.errors import OutOfOrderSequence, OutOfSpace
from penstock.storage.index.producers import Duplicate
from tests.storage.faulty_disk import FaultyDisk

PARTITIONS = 3
sizes = st.sampled_from([61, 100, 700, 3000, 4096, 9000])


class Entry(NamedTuple):
    """One batch that was appended."""

    base: int
    end: int
    body: bytes
    end_position: int
    producer: tuple[int, int, int]


class SetLogAgainstList(RuleBasedStateMachine):
    """Rules act on the log and on the list alike."""

    @initialize(seed=st.integers(0, 1 << 32), policy=st.sampled_from(list(FlushPolicy)))
    def begin(self, seed, policy):
        self.random = Random(seed)
        self.disk = FaultyDisk()
        self.config = SMALL if policy is FlushPolicy.SYNC else async_config()
        self.entries: dict[int, list[Any]] = {number: [] for number in range(PARTITIONS)}
        self.starts = dict.fromkeys(range(PARTITIONS), 0)
        self.deletes = []
        self.epoch = 1
        self.epochs = []
        self.world = World(self.random)
        self.log = open_log(self.world, self.disk, self.config)
        self.look()

    def look(self):
        self.partitions = [
            self.log.open_partition(partition_number(number)) for number in range(PARTITIONS)
        ]
        self.last_durable = 0

    @rule(
        number=st.integers(0, PARTITIONS - 1),
        size=sizes,
        records=st.integers(1, 3),
        count=st.integers(1, 12),
    )
    def append(self, number, size, records, count):
        for _ in range(count):
            self.append_one(number, size, records, (-1, -1, -1))

    def append_one(self, number, size, records, producer):
        partition = self.partitions[number]
        fill = self.random.randrange(256)
        batch = make_batch(
            records=records,
            size=size,
            fill=fill,
            producer=producer,
            timestamp=self.random.randrange(5000),
        )
        body = bytes(batch[16:])
        before = partition.log_end_offset
        try:
            base = self.log.append(partition, batch, read_header(batch))
        except OutOfSpace:
            assert partition.log_end_offset == before
            return
        batch[:] = bytes(len(batch))  # the caller's memory is free at once
        assert base == before
        entry = Entry(base, base + records, body, self.log.end_position, producer)
        self.entries[number].append(entry)

    @rule(
        number=st.integers(0, PARTITIONS - 1),
        producer_id=st.integers(1, 2),
        records=st.integers(1, 3),
    )
    def append_idempotent(self, number, producer_id, records):
        window = self.window(number, producer_id)
        sequence = 0 if not window else window[-1].producer[2] + (window[-1].end - window[-1].base)
        header = read_header(make_batch(records=records, producer=(producer_id, 0, sequence)))
        assert self.partitions[number].producers.check(header) is None
        self.append_one(number, 200, records, (producer_id, 0, sequence))

    @rule(number=st.integers(0, PARTITIONS - 1), producer_id=st.integers(1, 2))
    def repeat_what_a_producer_sent(self, number, producer_id):
        sent = [e for e in self.entries[number] if e.producer[0] == producer_id]
        for back, entry in enumerate(reversed(sent[-7:])):
            header = read_header(
                make_batch(records=entry.end - entry.base, producer=entry.producer)
            )
            check = self.partitions[number].producers.check
            if back < 5:
                assert check(header) == Duplicate(entry.base)
            else:
                with pytest.raises(OutOfOrderSequence):
                    check(header)

    def window(self, number, producer_id):
        return [e for e in self.entries[number] if e.producer[0] == producer_id][-5:]

    @rule()
    def loop_turn(self):
        self.world.turn()

    @rule(count=st.integers(1, 5))
    def some_work_off_the_loop(self, count):
        for _ in range(count):
            if self.world.work:
                self.world.work_one()

    @rule()
    def settle(self):
        self.world.run()

    @rule(milliseconds=st.sampled_from([10, 300, 5000]))
    def time_passes(self, milliseconds):
        self.world.advance(milliseconds)

    @rule(is_cold=st.booleans())
    def page_cache(self, is_cold):
        self.disk.is_cold = is_cold

    @rule(room=st.sampled_from([0, 3000, 70_000, 1 << 40]))
    def disk_space(self, room):
        self.disk.capacity = self.disk.used + room

    @rule(number=st.integers(0, PARTITIONS - 1), part=st.floats(0, 1))
    def delete_records(self, number, part):
        partition = self.partitions[number]
        offset = int(partition.log_end_offset * part)
        before = self.log.end_position
        try:
            start = self.log.delete_records(partition, Offset(offset))
        except OutOfSpace:
            return
        assert start == max(self.starts[number], offset)
        self.starts[number] = start
        if self.log.end_position > before:
            self.deletes.append((number, start, self.log.end_position))

    @rule(keep_bytes=st.sampled_from([-1, 0, 20_000, 100_000]), keep_ms=st.sampled_from([-1, 2000]))
    def retention(self, keep_bytes, keep_ms):
        self.log.apply_retention(4000, lambda _: Retention(keep_bytes, keep_ms))
        self.world.run()
        for number, partition in enumerate(self.partitions):
            assert partition.log_start_offset >= self.starts[number]
            assert partition.log_start_offset <= partition.log_end_offset
            self.starts[number] = partition.log_start_offset

    @rule()
    def checkpoint(self):
        self.log.checkpoint()

    @rule()
    def begin_epoch(self):
        try:
            self.log.begin_epoch(LeaderEpoch(self.epoch + 1))
        except OutOfSpace:
            return
        self.epoch += 1

    @rule(number=st.integers(0, PARTITIONS - 1))
    def read_everything(self, number):
        self.world.turn()
        self.compare(number)

    @rule(number=st.integers(0, PARTITIONS - 1), part=st.floats(0, 1))
    def offset_at_a_position(self, number, part):
        position = int(self.log.end_position * part)
        partition = self.partitions[number]
        below = [e.end for e in self.entries[number] if e.end_position <= position]
        expected = max([partition.log_start_offset, *below])
        assert self.log.known_offset_at(partition, Position(position)) in {expected, None}
        self.world.turn()
        found = []
        self.log.find_offset_at(partition, Position(position), lambda *result: found.append(result))
        self.world.run()
        assert found == [(expected, None)]

    @rule(number=st.integers(0, PARTITIONS - 1), timestamp=st.integers(0, 5000))
    def find_by_time(self, number, timestamp):
        self.world.turn()
        partition = self.partitions[number]
        found = []
        written = self.log.written_position  # more may be written while the search is under way
        self.log.offset_for_timestamp(
            partition,
            timestamp,
            written,
            lambda hit, error: found.append((hit, error)),
            examine=lambda hit: hit,
        )
        self.world.run()
        kept = [
            e
            for e in self.entries[number]
            if e.end > partition.log_start_offset and e.end_position <= written
        ]
        times = [(e.base, int.from_bytes(e.body[19:27], "big")) for e in kept]
        expected = next((base for base, time in times if time >= timestamp), None)
        hit, error = found[0]
        assert error is None
        assert (hit.base_offset if hit else None) == expected

    def compare(self, number):
        partition = self.partitions[number]
        kept = [e for e in self.entries[number] if e.end > partition.log_start_offset]
        limit = self.log.written_position
        expected = [(e.base, e.body) for e in kept if e.end_position <= limit]
        assert read_all(self.world, self.log, partition, limit) == expected

    @rule()
    def close_and_open(self):
        self.disk.capacity = 1 << 40
        self.world.advance(2000)
        self.world.run()
        written = self.log.end_position
        self.log.close()
        self.reopen(written)
        assert self.log.recovery.replayed_frames == 0
        # Where no frame header fits any more, the log goes on in the next segment.
        assert 0 <= self.log.end_position - written < FRAME_HEADER_BYTES

    @rule()
    def kill(self):
        written = self.log.written_position
        self.reopen(written)
        assert self.log.end_position >= written

    @rule()
    def power_loss(self):
        durable = self.log.flushed_position
        self.disk.power_loss(self.random)
        self.reopen(durable)

    @rule(operations=st.integers(0, 30))
    def power_loss_in_the_middle_of_something(self, operations):
        left = operations

        def count(_operation, _path):
            nonlocal left
            left -= 1
            if left < 0:
                raise Crashed

        self.disk.on_operation = count
        try:
            for _ in range(10):
                self.append(0, 700, 1, 3)
                self.world.run()
        except Crashed:
            pass
        self.disk.on_operation = None
        durable = self.log.flushed_position
        self.disk.power_loss(self.random)
        self.reopen(durable)

    def reopen(self, durable):
        self.disk.capacity = 1 << 40
        self.disk.is_cold = False
        self.world = World(self.random)
        self.log = open_log(self.world, self.disk, self.config)
        end = self.log.recovery.end_position
        assert end >= durable, "durable data is gone"
        for number in range(PARTITIONS):
            self.entries[number] = [e for e in self.entries[number] if e.end_position <= end]
        self.look()
        for number, partition in enumerate(self.partitions):
            entries = self.entries[number]
            assert partition.log_end_offset == (entries[-1].end if entries else 0)
            deleted = [s for n, s, position in self.deletes if n == number and position <= end]
            assert partition.log_start_offset >= max(deleted, default=0)
            self.starts[number] = partition.log_start_offset
            self.compare(number)
        self.deletes = [delete for delete in self.deletes if delete[2] <= end]
        self.epoch = self.log.leader_epoch

    @invariant()
    def positions_are_in_order(self):
        log = self.log
        assert log.flushed_position <= log.written_position <= log.end_position
        assert log.durable_position >= self.last_durable
        self.last_durable = log.durable_position
        assert not log.is_fenced
        starts = [start for _, start in log.epochs]
        assert starts == sorted(starts)


TestSetLogAgainstList = SetLogAgainstList.TestCase
TestSetLogAgainstList.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
