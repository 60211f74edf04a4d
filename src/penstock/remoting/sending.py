"""Messages that clients send: those of one loop turn for one partition become one batch.

    add ─► waits for the end of the turn ─► batches ─► appended ─► parked until confirmed ─► answers

A batch costs 200 bytes and microseconds of its own, so 32 messages in one take half of the CPU and
two thirds of the space. It is bounded, so that it never needs more than a message by itself.

Source: ours, docs/adr/0122.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.append.append import ACKS_ALL, append_batch
from penstock.broker.append.preparation import Prepared, prepare
from penstock.record.batch import BATCH_HEADER_BYTES
from penstock.record.build import Record, build_batch, record_bytes_max
from penstock.remoting.errors import SendTimedOut
from penstock.replication.errors import NotEnoughReplicasAfterAppend, ReplicationError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition

RECORDS_MAX: Final = 512
BATCH_BYTES_MAX: Final = 256 << 10
"""Of several messages together, or less where their topic permits less; a single one may have what
that permits."""
WAIT_MS: Final = 30_000
"""A client waits 3 s, and then sends again."""

Done = Callable[[int | PlatformError], None]
"""Called once, with the offset of the first message, or with why there is none."""


class Sent(NamedTuple):
    """Messages of one request, which stay together."""

    records: Sequence[Record]
    done: Done
    known_size: int = 0
    """An upper bound of their bytes, where somebody has counted: a batch may have thousands."""

    @property
    def size_max(self) -> int:
        """An upper bound of their bytes."""
        return self.known_size or sum(map(record_bytes_max, self.records))


class Waiting(NamedTuple):
    """Messages of one request that are appended: the log has them, and nobody else."""

    messages: int
    done: Done


class Sending:
    """See the module; one for each broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._turn: dict[HostedPartition, list[Sent]] = {}

    def add(self, hosted: HostedPartition, sent: Sent) -> None:
        """Append messages at the end of this turn, in the order of the calls."""
        if not self._turn:
            self._broker.scheduler.call_soon(self._flush)
        self._turn.setdefault(hosted, []).append(sent)

    def _flush(self) -> None:
        turn, self._turn = self._turn, {}
        for hosted, sents in turn.items():
            permitted = hosted.topic.rules.max_message_bytes - BATCH_HEADER_BYTES
            for several in batches_of(sents, min(BATCH_BYTES_MAX, permitted)):
                self._append(hosted, several)

    def _append(
        self, hosted: HostedPartition, sents: list[Sent], prepared: Prepared | None = None
    ) -> None:
        broker = self._broker
        now_ms = broker.clock.wall_ms()
        try:
            hosted.check_still_led()
            batch = build_batch([record for sent in sents for record in sent.records])
            memory = memoryview(bytearray(batch))
            appended = append_batch(hosted, memory, ACKS_ALL, now_ms, broker.stats, prepared)
        except PlatformError as error:
            for sent in sents:
                sent.done(error)
            return
        if appended is None:
            prepared_later = partial(self._prepared, hosted, sents)
            work = partial(prepare, memory, hosted.topic.rules, now_ms)
            broker.workers.submit(work, prepared_later)
            return
        member = hosted.member
        deadline_ms = broker.clock.monotonic_ms() + WAIT_MS
        waiting = [Waiting(len(sent.records), sent.done) for sent in sents]
        pending = Pending(hosted, waiting, appended[0], deadline_ms)
        member.waiting_for_all.park(member.log.end_position, pending)

    def _prepared(
        self,
        hosted: HostedPartition,
        sents: list[Sent],
        prepared: Prepared | None,
        error: BaseException | None,
    ) -> None:
        """A worker has compressed the batch, or has found why it can not be stored."""
        if isinstance(error, PlatformError):
            for sent in sents:
                sent.done(error)
        elif error is not None:
            raise error
        else:
            self._append(hosted, sents, prepared)


class Pending:
    """An appended batch that waits for the members of its set; see replica/purgatory.py."""

    __slots__ = ("_hosted", "_offset", "_sents", "_why", "deadline_ms")

    def __init__(
        self, hosted: HostedPartition, sents: list[Waiting], offset: int, deadline_ms: int
    ) -> None:
        self._hosted = hosted
        self._sents = sents
        self._offset = offset
        self._why: PlatformError | None = None
        self.deadline_ms = deadline_ms

    def complete(self) -> None:
        offset = self._offset
        for sent in self._end():
            sent.done(offset if self._why is None else self._why)
            offset += sent.messages

    def expire(self) -> bool:
        self.refuse(SendTimedOut())
        return False

    def fail(self) -> None:
        self.refuse(SendTimedOut("the log is fenced"))

    def refuse(self, error: ReplicationError | SendTimedOut) -> None:
        for sent in self._end():
            sent.done(error)

    def shrunk(self, in_sync_count: int) -> None:
        del in_sync_count
        member, least = self._hosted.member, self._hosted.topic.rules.min_insync_replicas
        if member.in_sync_count < member.least_in_step(least):
            self._why = NotEnoughReplicasAfterAppend(member.in_sync_count, least)

    def _end(self) -> list[Waiting]:
        sents, self._sents = self._sents, []
        return sents


def batches_of(sents: Iterable[Sent], bytes_max: int = BATCH_BYTES_MAX) -> Iterator[list[Sent]]:
    """Divide the messages of a turn into batches, in order. `bytes_max` is of several together."""
    several: list[Sent] = []
    count = size = 0
    for sent in sents:
        more, grown = len(sent.records), sent.size_max
        if several and (count + more > RECORDS_MAX or size + grown > bytes_max):
            yield several
            several, count, size = [], 0, 0
        several.append(sent)
        count, size = count + more, size + grown
    if several:
        yield several
