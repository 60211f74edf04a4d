"""A new master reads which half messages wait, and whether the last decisions have their copies.

    log start ─► events, in order ─► log end ─► the last batch of decisions: is each copy there?
                                                  └─ no: it is owed, and written before all else

A batch of decisions is followed by its copies, in the same log and the same turn of the loop. A log
that ends between them has the decisions alone, and nothing can be behind them but another
mastership. So only decisions of the last batch can lack their copies, and none where the log says
behind it that they are settled: a copy that is compacted away later is not missed. A decision names
the offset of its copy, and the copy its half message: so it is known again.

Memory: one read of a quarter MiB, or a message, at a time. Turns: a read's worth of records.

Source: ours, docs/adr/0132. A write-ahead record of what is to be done, as in ARIES.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, TopicId
from penstock.broker.fetch.consumer import Consumer
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead, WantedPartition
from penstock.record.build import Record
from penstock.record.read import iter_batches, iter_records, run_end
from penstock.remoting.errors import MessageGone
from penstock.remoting.halves.record import NO_COPY, Decided, Settled, event_of, is_copy
from penstock.remoting.halves.state import OpenHalf, OpenHalves
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partitions import HostedPartition

READ_BYTES: Final = 256 << 10


class Owed(NamedTuple):
    """A decision whose copy is not there."""

    decided: Decided
    half: OpenHalf


OnLoaded = Callable[["list[Owed] | PlatformError"], None]
"""Called once, with what is owed, or with why it is to be tried again."""


def read_at(
    broker: Broker,
    hosted: HostedPartition,
    offset: int,
    most: int,
    on_read: Callable[[PartitionRead], None],
) -> None:
    """Read batches of a partition from an offset on: one, or so many bytes."""
    key = (hosted.topic.name_bytes, hosted.partition)
    FetchOperation(
        broker,
        [PartitionRead(WantedPartition(key, offset, most), hosted)],
        min_bytes=1,
        max_bytes=most,
        on_done=lambda reads: on_read(reads[0]),
        consumer=Consumer(),
    ).start(0)


def records_of(buffers: Sequence[memoryview]) -> dict[int, Record]:
    """Return the records of what was read by their offsets. Raises RecordError kinds."""
    return {
        one.offset: Record(one.key, one.value, one.headers, one.timestamp_ms)
        for header, batch in iter_batches(memoryview(b"".join(buffers)))
        for one in (() if header.is_control else iter_records(batch))
    }


def take_batches(read: PartitionRead, first: Offset, apply: Callable[[memoryview], None]) -> Offset:
    """Hand over the batches of what was read at an offset; return where the next read begins.

    Raises why nothing was read, RecordError kinds, NotMaster for a log that is not confirmed.
    """
    if read.error is not None:
        raise read.error
    data = memoryview(b"".join(read.buffers))
    for header, batch in iter_batches(data):
        if not header.is_control:
            apply(batch)
    following = run_end(data, first)
    if following <= first:
        raise NotMaster("the log is not confirmed to its end yet")
    return Offset(following)


class Loading:
    """See the module; used once. `is_current` says whether the mastership goes on."""

    def __init__(
        self,
        broker: Broker,
        hosted: HostedPartition,
        is_current: Callable[[], bool],
        on_loaded: OnLoaded,
    ) -> None:
        self._broker = broker
        self._hosted = hosted
        self._is_current = is_current
        self._on_loaded = on_loaded
        self.halves = OpenHalves()
        self.unreadable = 0
        """Records that nothing of the front's has written."""
        self._next = hosted.log.log_start_offset
        self._last: list[Owed] = []
        """The last batch of decisions, those that have copies."""
        self._owed: list[Owed] = []

    def go_on(self) -> None:
        """Read what comes next, or look for copies."""
        if not self._is_current():
            self._on_loaded(NotMaster("another mastership has begun"))
        elif self._next < self._hosted.log.log_end_offset:
            read_at(self._broker, self._hosted, self._next, READ_BYTES, self._on_read)
        elif self._last:
            self._look_for(self._last.pop(0))
        else:
            self._on_loaded(self._owed)

    def _on_read(self, read: PartitionRead) -> None:
        try:
            self._next = take_batches(read, self._next, self._apply)
        except PlatformError as error:
            self._on_loaded(error)
            return
        self._broker.scheduler.call_soon(self.go_on)

    def _apply(self, batch: memoryview) -> None:
        decisions: list[Owed] = []
        has_decisions = False
        before = {one.decided.number: one.half for one in self._last}
        for one in iter_records(batch):
            if one.offset < self._next:
                continue
            event = event_of(Record(one.key, one.value, one.headers, one.timestamp_ms))
            if event is None:
                self.unreadable += 1
                continue
            about = self.halves.apply(event, one.offset, one.timestamp_ms)
            if isinstance(event, Decided):
                has_decisions = True
                # Decided again, since the copy was missing: it may be missing once more.
                about = about or before.get(event.number)
                if about is not None and event.offset != NO_COPY:
                    decisions.append(Owed(event, about))
            elif isinstance(event, Settled):
                self._last = []
        if has_decisions:
            self._last = decisions

    def _look_for(self, one: Owed) -> None:
        """Find out whether a copy is there, then go on."""
        decided = one.decided
        topic = self._broker.partitions.by_id.get(decided.topic_id)
        target = None if topic is None else topic.find(decided.partition)
        if target is None:
            if topic is None and self._broker.leftovers.is_deleted(TopicId(decided.topic_id)):
                self.go_on()
            else:
                self._on_loaded(NotMaster("the topic of a decision is not known here yet"))
        elif decided.offset < target.log.log_start_offset:
            self.go_on()  # it was there, and is deleted
        elif decided.offset >= target.log.log_end_offset:
            self._owed.append(one)
            self.go_on()
        else:
            read_at(self._broker, target, decided.offset, 1, partial(self._on_copy, one))

    def _on_copy(self, one: Owed, read: PartitionRead) -> None:
        try:
            if read.error is not None:
                raise read.error
            if not read.size:
                raise MessageGone("the copy of a decision is not confirmed yet")
            record = records_of(read.buffers).get(one.decided.offset)
        except PlatformError as error:
            self._on_loaded(error)
            return
        if record is None or not is_copy(record, one.decided.number):
            self._owed.append(one)
        self._broker.scheduler.call_soon(self.go_on)
