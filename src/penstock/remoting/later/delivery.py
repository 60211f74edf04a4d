"""Messages whose time has come go from their delay level to where they were meant for.

    look, several times a second, over the levels' partitions that are led here
      first message due? ─► read some ─► a batch for each partition ─► append all ─► raise the start
                                                                   in one turn of the loop

The log start of a level's partition is how far it is delivered. It is a frame of the same log as
the copies and follows them: a log that has lost copies has lost it, too, so that a new master goes
on where the old one was, and delivers nothing before its time and nothing never. Where a log ends
between the two, the new master delivers them once more.

    a time of its own      that is not over: it goes on to the next level, likewise (delayed.py)
    recalled               it is dropped, and counted (recall/recalls.py)
    topic deleted          its messages are dropped, and counted
    topic refuses them     (a smaller max.message.bytes, too few in step): they wait for the delay
                           once more, at the end of their level, so that others do not wait for them
    anything else          nothing is appended, or the start stays; tried again after a second

Memory: AT_ONCE reads of a quarter MiB, or a message; else a time for each partition of a level.
Turns: a read's worth of records, which is some milliseconds; a worker compresses.

Source: ours, docs/adr/0127; RocketMQ `ScheduleMessageService.DeliverDelayedMessageTimerTask`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, TopicId
from penstock.broker.append.append import ACKS_ALL, append_batch
from penstock.broker.append.preparation import Prepared, needs_preparation, prepare
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.controller.commands.topic_names import DELAY_TOPICS
from penstock.record.batch import read_header
from penstock.record.build import build_batch
from penstock.record.errors import RecordError
from penstock.remoting.later.delayed import DELAYS_MS, held, level_before, stamped
from penstock.remoting.later.due import (
    BYTES_MAX,
    HELD_BYTES_MAX,
    Due,
    Waiting,
    parts_of,
    take_due,
)
from penstock.replication.errors import NotEnoughReplicas, NotMaster
from penstock.storage.errors import BatchTooLargeForLog

if TYPE_CHECKING:
    from penstock.base.ids import LeaderEpoch, ReplicaSetId
    from penstock.broker.append.batch_rules import BatchRules
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition
    from penstock.remoting.later.places import Places
    from penstock.remoting.recall.recalls import Recalls

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
"""Levels' partitions that are read at one time."""
PAUSE_MS: Final = 1_000
"""After what could not be delivered."""
_REFUSALS: Final = (RecordError, BatchTooLargeForLog, NotEnoughReplicas)
"""What a topic says before anything is appended to it."""


class _Head(NamedTuple):
    """When the first message of a level's partition is to be looked at, in a mastership."""

    leader_epoch: LeaderEpoch
    due_ms: int
    is_paused: bool = False
    """Whether it is later than that message is due: the last try has failed."""


class _Source(NamedTuple):
    """A level's partition as it was when it was read."""

    hosted: HostedPartition
    level: int
    leader_epoch: LeaderEpoch
    log: object
    """Another one where the log was opened anew."""
    first: int
    """Its log start offset."""

    def check(self) -> None:
        """Raise a PlatformError where the mastership is over, or its log has moved."""
        hosted, member = self.hosted, self.hosted.member
        hosted.check_still_led()
        member.check_writable()
        is_other = member.leader_epoch != self.leader_epoch or hosted.log is not self.log
        if is_other or hosted.log.log_start_offset != self.first:
            raise NotMaster("another mastership has begun")
        member.check_in_step(hosted.topic.rules.min_insync_replicas)


class _Batch(NamedTuple):
    """Records for one partition."""

    target: HostedPartition
    records: list[Waiting]
    memory: memoryview
    rules: BatchRules
    is_move: bool = False
    """Whether they go on to another level."""

    @property
    def is_changed(self) -> bool:
        """Whether its topic has the records looked at, or compressed."""
        return needs_preparation(read_header(self.memory), self.rules)


_Outcome = Prepared | RecordError


class Delivery:
    """See the module; one for each node."""

    def __init__(self, broker: Broker, places: Places, recalls: Recalls) -> None:
        self._broker = broker
        self._places = places
        self._recalls = recalls
        self._heads: dict[HostedPartition, _Head] = {}
        self._open: set[HostedPartition] = set()
        self._turn = 0
        self.delivered = 0
        self.moved = 0
        """Messages that have gone on to another level."""
        self.put_back = 0
        """Messages that their topics have refused, and that wait once more."""
        self.dropped = 0
        """Messages of deleted topics."""

    def look(self) -> None:
        """Begin to deliver what is due. All partitions have their turn first, one after another."""
        now_ms = self._broker.clock.wall_ms()
        led = list(self._led())
        self._turn += 1
        for at in range(len(led)):
            level, hosted = led[(at + self._turn) % len(led)]
            if len(self._open) >= AT_ONCE:
                break
            is_due = hosted not in self._open and self._may_be_due(hosted, now_ms)
            if is_due and self._recalls.is_ready(hosted.member.replica_set_id):
                self._read(hosted, level)

    def waiting(self) -> int:
        """Return how many messages wait in what is led here."""
        return sum(one.log.log_end_offset - one.log.log_start_offset for _, one in self._led())

    def late_ms(self) -> int:
        """Return for how long the first message that is due has been so; 0: none is."""
        now_ms = self._broker.clock.wall_ms()
        heads = (self._heads.get(hosted) for _, hosted in self._led())
        return max((now_ms - one.due_ms for one in heads if one and one.due_ms < now_ms), default=0)

    def floor_ms(self, set_id: ReplicaSetId) -> int | None:
        """Return a time before which no message of a set's levels is due; None: not known."""
        floor = self._broker.clock.wall_ms()
        for _, hosted in self._led():
            if hosted.member.replica_set_id != set_id:
                continue
            if hosted.log.log_start_offset >= hosted.log.log_end_offset:
                continue
            head = self._heads.get(hosted)
            is_known = head is not None and head.leader_epoch == hosted.member.leader_epoch
            if head is None or not is_known or head.is_paused or hosted in self._open:
                return None
            floor = min(floor, head.due_ms)
        return floor

    def _led(self) -> Iterator[tuple[int, HostedPartition]]:
        by_name = self._broker.partitions.by_name
        for level, name in enumerate(DELAY_TOPICS, 1):
            topic = by_name.get(name.encode())
            for hosted in () if topic is None or not topic.internal else topic.partitions:
                if hosted is not None and hosted.member.is_master:
                    yield level, hosted

    def _may_be_due(self, hosted: HostedPartition, now_ms: int) -> bool:
        head = self._heads.get(hosted)
        if hosted.log.log_start_offset >= hosted.log.log_end_offset:
            self._heads.pop(hosted, None)
            return False
        if head is None or head.leader_epoch != hosted.member.leader_epoch:
            return True
        return head.due_ms <= now_ms

    def _read(self, hosted: HostedPartition, level: int) -> None:
        member, first = hosted.member, hosted.log.log_start_offset
        source = _Source(hosted, level, member.leader_epoch, hosted.log, first)
        key = (hosted.topic.name_bytes, hosted.partition)
        self._open.add(hosted)
        FetchOperation(
            self._broker,
            [PartitionRead(WantedPartition(key, first, BYTES_MAX), hosted)],
            min_bytes=1,
            max_bytes=BYTES_MAX,
            on_done=partial(self._on_read, source),
            consumer=Consumer(),
        ).start(0)

    def _on_read(self, source: _Source, reads: list[PartitionRead]) -> None:
        (read,) = reads
        now_ms = self._broker.clock.wall_ms()
        try:
            if read.error is not None:
                raise read.error
            due = take_due(memoryview(b"".join(read.buffers)), source.first, now_ms)
            due = self._decided(source, due, now_ms)
            batches = [*self._batches(due, now_ms), *self._moves(source, due, now_ms)]
        except PlatformError as error:
            self._pause(source, error)
            return
        changed = {n: one for n, one in enumerate(batches) if one.is_changed}
        if changed:
            work = partial(_prepare_all, changed, now_ms)
            self._broker.workers.submit(work, partial(self._prepared, source, due, batches))
        else:
            self._append(source, due, batches, {})

    def _decided(self, source: _Source, due: Due, now_ms: int) -> Due:
        """Return what is due without what is recalled; no more of it can be, from now on.

        Raises what an append does.
        """
        set_id = source.hosted.member.replica_set_id
        times = [one.destination.until_ms for one in due.records]
        if not any(times):
            return due
        source.check()
        left = self._recalls.left_of(set_id, due.records)
        self._recalls.decide(set_id, max((one for one in times if one <= now_ms), default=0))
        return due._replace(records=list(left), recalled=len(due.records) - len(left))

    def _batches(self, due: Due, now_ms: int) -> list[_Batch]:
        """Return the records as batches for their partitions. Raises what _target does."""
        by_target: dict[HostedPartition, list[Waiting]] = {}
        for waiting in [one for one in due.records if not one.waits_on(now_ms)]:
            target = self._target(waiting)
            if target is not None:
                by_target.setdefault(target, []).append(waiting)
        batches = []
        for target, records in by_target.items():
            rules = target.topic.rules
            for part in parts_of(records, rules.max_message_bytes):
                stored = build_batch([stamped(one.record, now_ms) for one in part])
                batches.append(_Batch(target, part, memoryview(bytearray(stored)), rules))
        return batches

    def _moves(self, source: _Source, due: Due, now_ms: int) -> Iterator[_Batch]:
        """Yield batches of what is to wait in other levels. Raises NotMaster."""
        by_level: dict[int, list[Waiting]] = {}
        for one in due.records:
            if one.waits_on(now_ms) and self._target(one) is not None:
                level = level_before(one.destination.until_ms - now_ms)
                by_level.setdefault(level, []).append(one)
        set_id = source.hosted.member.replica_set_id
        for level, records in by_level.items():
            target = self._places.find(DELAY_TOPICS[level - 1], set_id)
            if target is None:
                raise NotMaster(f"delay level {level} of the set is not known here yet")
            rules, due_ms = target.topic.rules, now_ms + DELAYS_MS[level - 1]
            for part in parts_of(records, rules.max_message_bytes, HELD_BYTES_MAX):
                stored = build_batch([held(one.record, one.destination.at(due_ms)) for one in part])
                yield _Batch(target, part, memoryview(bytearray(stored)), rules, is_move=True)

    def _target(self, waiting: Waiting) -> HostedPartition | None:
        """Return the partition that a record is for; None if its topic is deleted.

        Raises NotMaster where that is not known yet: metadata may be behind the log.
        """
        topic_id, number = waiting.destination.topic_id, waiting.destination.partition
        topic = self._broker.partitions.by_id.get(topic_id)
        if topic is None and self._broker.leftovers.is_deleted(TopicId(topic_id)):
            return None
        hosted = None if topic is None else topic.find(number)
        if hosted is None:
            raise NotMaster(f"partition {number} of topic {topic_id.hex()} is not known here")
        return hosted

    def _prepared(
        self,
        source: _Source,
        due: Due,
        batches: list[_Batch],
        outcomes: Mapping[int, _Outcome] | None,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            raise error
        assert outcomes is not None, "a worker has an error or outcomes"
        self._append(source, due, batches, outcomes)

    def _append(
        self, source: _Source, due: Due, batches: list[_Batch], outcomes: Mapping[int, _Outcome]
    ) -> None:
        """Append the batches, and tell with the next frame that they are delivered."""
        put_back = delivered = moved = 0
        try:
            source.check()
            for number, batch in enumerate(batches):
                if self._append_one(batch, outcomes.get(number)):
                    delivered += 0 if batch.is_move else len(batch.records)
                    moved += len(batch.records) if batch.is_move else 0
                else:
                    self._put_back(source, batch.records)
                    put_back += len(batch.records)
            if due.next_offset > source.first:
                hosted = source.hosted
                hosted.member.log.delete_records(hosted.log, Offset(due.next_offset))
        except PlatformError as error:
            self._pause(source, error)
            return
        self.delivered += delivered
        self.moved += moved
        self.put_back += put_back
        self._recalls.dropped += due.recalled
        self.dropped += len(due.records) - delivered - moved - put_back + due.unreadable
        self._end(source, due)

    def _append_one(self, batch: _Batch, outcome: _Outcome | None) -> bool:
        """Append a batch; return whether its topic takes it. Raises what is no refusal."""
        try:
            if isinstance(outcome, RecordError):
                raise outcome
            self._append_to(batch.target, batch.memory, outcome)
        except _REFUSALS as error:
            name = batch.target.topic.name
            log.warning("topic=%s messages=%d put back: %s", name, len(batch.records), error)
            return False
        return True

    def _put_back(self, source: _Source, records: Sequence[Waiting]) -> None:
        """Let records wait once more, behind all others of their level."""
        due_ms = self._broker.clock.wall_ms() + DELAYS_MS[source.level - 1]
        again = [held(one.record, one.destination.at(due_ms)) for one in records]
        self._append_to(source.hosted, memoryview(bytearray(build_batch(again))), None)

    def _append_to(
        self, hosted: HostedPartition, memory: memoryview, prepared: Prepared | None
    ) -> None:
        """Append a batch that is prepared; one that is not, since settings have changed, too."""
        now_ms, stats = self._broker.clock.wall_ms(), self._broker.stats
        appended = append_batch(hosted, memory, ACKS_ALL, now_ms, stats, prepared)
        if appended is None:
            prepared = prepare(memory, hosted.topic.rules, now_ms)
            append_batch(hosted, memory, ACKS_ALL, now_ms, stats, prepared)

    def _pause(self, source: _Source, error: PlatformError) -> None:
        log.info("level=%d partition=%d: %s", source.level, source.hosted.partition, error)
        self._open.discard(source.hosted)
        due_ms = self._broker.clock.wall_ms() + PAUSE_MS
        self._heads[source.hosted] = _Head(source.leader_epoch, due_ms, is_paused=True)

    def _end(self, source: _Source, due: Due) -> None:
        self._open.discard(source.hosted)
        if due.next_due_ms is None:
            self._heads.pop(source.hosted, None)
        else:
            self._heads[source.hosted] = _Head(source.leader_epoch, due.next_due_ms)
        if due.records or due.recalled:
            self._broker.scheduler.call_soon(self.look)


def _prepare_all(batches: Mapping[int, _Batch], now_ms: int) -> Mapping[int, _Outcome]:
    """Prepare batches on a worker."""
    outcomes: dict[int, _Outcome] = {}
    for number, batch in batches.items():
        try:
            outcomes[number] = prepare(batch.memory, batch.rules, now_ms)
        except RecordError as error:
            outcomes[number] = error
    return outcomes
