"""One append of what was decided: the decisions, and right behind them the copies.

    work with its record ─► still open? whose is it? ─► decisions, checks, moves: one batch
                                                     └► copies: batches for their partitions

Everything that can refuse a copy is looked at before the decision is appended, so that a message
that its topic does not take stays undecided, and is discarded in the end.

Source: ours, docs/adr/0132.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId
from penstock.broker.append.timestamps import check_times
from penstock.broker.errors import UnknownPartition
from penstock.record.build import Record
from penstock.record.errors import RecordError
from penstock.record.walk import Times
from penstock.remoting.errors import AlreadyDecided, MessageGone, WrongHalf
from penstock.remoting.halves.record import (
    OWN_OFFSET,
    Checked,
    Decided,
    Event,
    Half,
    Outcome,
    checked_record,
    copy_of,
    decided_record,
    discarded,
    half_record,
    message_of,
    transaction_id,
)
from penstock.remoting.halves.state import OpenHalf, OpenHalves, Verdict
from penstock.remoting.halves.work import Batch, Copy, Decide, Move, batches_of
from penstock.remoting.ids import locator_of
from penstock.remoting.later.holding import check_taken
from penstock.remoting.sending import Waiting
from penstock.remoting.system_names import HEADER_OF, UNIQ_KEY
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition


class Deciding:
    """See the module; for the work of one read."""

    def __init__(
        self, broker: Broker, hosted: HostedPartition, halves: OpenHalves, now_ms: int
    ) -> None:
        self._broker = broker
        self._hosted = hosted
        self._halves = halves
        self.now_ms = now_ms
        self._claimed: dict[int, Outcome] = {}
        self._copies: dict[HostedPartition, list[Copy]] = {}
        self._plain: list[tuple[Event, Record]] = []
        """Events that need no copy, with their records."""
        self.waiting: list[Waiting] = []
        """Whom to answer once all of it is confirmed."""

    @property
    def has_events(self) -> bool:
        """Whether there is anything to append."""
        return bool(self._plain or self._copies)

    def decide(self, work: Decide, record: Record) -> None:
        """Take a decision, or answer why there is none."""
        verdict = self._verdict(work)
        if verdict is Verdict.NEW:
            found = self._halves.get(work.number)
            assert found is not None, work.number
            try:
                self._check_id(work, record)
                self._claim(work, found, record)
            except PlatformError as error:
                work.done(error)
                return
        if verdict is Verdict.NEW or verdict is Verdict.SAME:
            self.waiting.append(Waiting(1, work.done))
        else:
            work.done(refusal(work, verdict))

    def owe(self, decided: Decided, found: OpenHalf, record: Record) -> None:
        """Take a decision again whose copy is not there. Raises what is to be tried again."""
        outcome, place = decided.outcome, None
        if outcome is Outcome.DISCARD:
            place = self._target(decided.topic_id, decided.partition)
        work = Decide(found.half.number, outcome, _nobody, place=place)
        try:
            self._claim(work, found, record)
        except (RecordError, UnknownPartition):
            if work.number not in self._claimed:
                self._add(Decided(work.number, Outcome.DROP))

    def note_check(self, found: OpenHalf, due_ms: int) -> None:
        """Note that a producer was asked."""
        event = Checked(found.half.number, found.half.checks + 1, due_ms)
        self._plain.append((event, checked_record(event, self.now_ms)))

    def move(self, work: Move, record: Record) -> None:
        """Write a half message again, unless it is decided."""
        found = self._halves.get(work.number)
        if found is not None and work.number not in self._claimed:
            half = found.half
            self._plain.append((half, half_record(half, message_of(record))))

    def batches(self) -> list[Batch]:
        """Return the copies as batches."""
        return [
            batch for target, copies in self._copies.items() for batch in batches_of(target, copies)
        ]

    def events(self, batches: list[Batch]) -> list[tuple[Event, Record]]:
        """Return all events with their records; the copies are appended next, in this order."""
        events = list(self._plain)
        ends: dict[HostedPartition, int] = {}
        for batch in batches:
            offset = ends.get(batch.target, batch.target.log.log_end_offset)
            for copy in batch.copies:
                decided = copy.decided._replace(offset=offset)
                events.append((decided, decided_record(decided, self.now_ms)))
                offset += 1
            ends[batch.target] = offset
        return events

    def _verdict(self, work: Decide) -> Verdict:
        claimed = self._claimed.get(work.number)
        if claimed is None:
            return self._halves.verdict(work.number, work.outcome)
        return Verdict.SAME if claimed is work.outcome else Verdict.CONTRARY

    def _check_id(self, work: Decide, record: Record) -> None:
        """Raise WrongHalf unless the message is the one that the client means."""
        shown = next((value for name, value in record.headers if name == HEADER_OF[UNIQ_KEY]), None)
        told = work.message_id
        locator = locator_of(self._hosted.partition, work.number)
        is_by_place = told.upper().endswith(f"{locator:016X}")
        if told and shown is not None and told.encode() != shown and not is_by_place:
            raise WrongHalf("the half message there has another id")

    def _claim(self, work: Decide, found: OpenHalf, record: Record) -> None:
        """Take the decision. Raises what a topic refuses a copy for, and what passes."""
        half = found.half
        if work.outcome is Outcome.ROLLBACK:
            self._add(Decided(half.number, Outcome.ROLLBACK, half.topic_id))
            return
        if work.outcome is Outcome.DROP or self._is_deleted(half.topic_id):
            self._add(Decided(half.number, Outcome.DROP, half.topic_id))
            if work.outcome is Outcome.COMMIT:
                raise UnknownPartition
            return
        target, copy = self._copy(work, half, record)
        check_taken(target, copy)
        if not target.topic.rules.is_log_append_time:
            check_times(Times(self.now_ms, self.now_ms), target.topic.rules, self.now_ms)
        self._claimed[half.number] = work.outcome
        decided = Decided(half.number, work.outcome, target.topic.topic_id, target.partition)
        self._copies.setdefault(target, []).append(Copy(decided, copy))

    def _copy(self, work: Decide, half: Half, record: Record) -> tuple[HostedPartition, Record]:
        told = transaction_id(self._hosted.partition, half.number)
        if work.outcome is Outcome.COMMIT:
            target = self._target(half.topic_id, half.partition)
            return target, copy_of(record, half.number, told, self.now_ms)
        assert work.place is not None, "what is discarded has a place"
        topic = self._broker.partitions.by_id.get(half.topic_id)
        name = "" if topic is None else topic.name
        return work.place, discarded(record, half, name, told, self.now_ms)

    def _add(self, decided: Decided) -> None:
        self._claimed[decided.number] = decided.outcome
        self._plain.append((decided, decided_record(decided, self.now_ms)))

    def _is_deleted(self, topic_id: bytes) -> bool:
        if topic_id in self._broker.partitions.by_id:
            return False
        return self._broker.leftovers.is_deleted(TopicId(topic_id))

    def _target(self, topic_id: bytes, partition: int) -> HostedPartition:
        topic = self._broker.partitions.by_id.get(TopicId(topic_id))
        hosted = None if topic is None else topic.find(partition)
        if hosted is None:
            raise NotMaster("the topic of a half message is not known here yet")
        return hosted


def refusal(work: Decide, verdict: Verdict) -> PlatformError:
    """Return what is told of a decision that is none."""
    if verdict is Verdict.CONTRARY:
        return AlreadyDecided(f"half message {work.number} was decided otherwise before")
    return MessageGone(f"no half message {work.number} waits")


def first_half(half: Half, record: Record) -> Record:
    """Return the record of a half message as it comes in."""
    return half_record(half._replace(number=OWN_OFFSET), record)


def _nobody(outcome: int | PlatformError) -> None:
    del outcome
