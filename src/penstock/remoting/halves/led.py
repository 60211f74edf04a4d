"""The half messages of one replica set, in one mastership.

    half ─► sent to the partition ─► confirmed ─► open (state.py)
    work ─► waits for its record ─► one batch is read ─► all work on its records ─► one append
                                                                                    (deciding.py)

Work is done one read after another, so nothing changes between a verdict and its append. Whatever
goes wrong behind an append of decisions, or is not known of a half message, the log is read anew,
as by a new master (loading.py): it says how it is.

The log start follows the first half message that waits, so a new master reads little.

Source: ours, docs/adr/0132.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset
from penstock.base.invariant import invariant
from penstock.broker.append.append import ACKS_ALL, append_batch
from penstock.broker.append.preparation import Prepared, prepare
from penstock.record.build import Record, build_batch
from penstock.record.errors import RecordError
from penstock.remoting.errors import HalvesNotReady, MessageGone, TooManyHalves
from penstock.remoting.halves.deciding import Deciding, first_half, refusal
from penstock.remoting.halves.loading import Loading, Owed, read_at, records_of
from penstock.remoting.halves.record import Decided, Half, Outcome, settled_record
from penstock.remoting.halves.state import OpenHalves, Verdict
from penstock.remoting.halves.times import MOVED_BEHIND, OF_GROUP_MAX
from penstock.remoting.halves.work import Batch, Check, Decide, Move, Work, prepare_all
from penstock.remoting.sending import WAIT_MS, Done, Pending, Sending, Sent, Waiting
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.broker.partitions import HostedPartition

log = logging.getLogger(__name__)

WORK_MAX: Final = 10_000
"""Decisions and checks of one set that wait for their records."""
MOVES_AT_ONCE: Final = 100
SETTLE_MS: Final = 10_000
"""Decisions are said to have their copies so long after the last of them, where a half message that
waits keeps them in the log."""

Ask = Callable[[Check, Record], int | None]
"""Asks a producer; returns when the next check is due, None if it could not be asked."""


class LedHalves:
    """See the module."""

    def __init__(
        self, broker: Broker, hosted: HostedPartition, ask: Ask, counts: Counter[str]
    ) -> None:
        """`counts` are what is decided, by outcome, and `check`: producers that were asked."""
        self._broker = broker
        self.hosted = hosted
        self._ask = ask
        self._leader_epoch = hosted.member.leader_epoch
        self._log = hosted.log
        self.halves = OpenHalves()
        self.is_ready = False
        self._loading: Loading | None = None
        self._owed: list[Owed] = []
        self._work: OrderedDict[int, list[Work]] = OrderedDict()
        """By the offset of the record that it needs."""
        self._work_count = 0
        self._is_busy = False
        self._coming: OrderedDict[int, int] = OrderedDict()
        """Half messages that are not confirmed, with an offset that they are not below."""
        self._sent = 0
        self._decided_ms: int | None = None
        """When decisions were appended that are not settled."""
        self._decided_end = 0
        self._counts = counts

    @property
    def is_current(self) -> bool:
        """Whether the mastership goes on, and its log is the one that was read."""
        hosted, member = self.hosted, self.hosted.member
        is_same = member.leader_epoch == self._leader_epoch and hosted.log is self._log
        return is_same and member.is_master and not hosted.is_dropped

    def load(self) -> None:
        """Read the log, unless it is being read or has been; an empty one is read at once."""
        if self.is_ready or self._loading is not None or self._is_busy:
            return
        self._loading = Loading(self._broker, self.hosted, lambda: self.is_current, self._on_loaded)
        self._loading.go_on()

    def take(self, half: Half, record: Record, sending: Sending, done: Done) -> None:
        """Append a half message; `done` is called with its number when it is confirmed.

        Raises HalvesNotReady, TooManyHalves.
        """
        if not self.is_ready:
            raise HalvesNotReady("the half messages of this set are being read")
        waiting = self.halves.of_group[half.group, half.topic_id] + len(self._coming)
        if waiting >= OF_GROUP_MAX:
            told = f"{waiting} half messages of {half.group} wait for their decision"
            raise TooManyHalves(told)
        self._sent += 1
        self._coming[self._sent] = self._log.log_end_offset
        taken = partial(self._taken, self._sent, half, record.timestamp_ms, done)
        sending.add(self.hosted, Sent([first_half(half, record)], taken))

    def decide(self, work: Decide) -> None:
        """Decide a half message, or tell of the decision before. Raises HalvesNotReady."""
        if not self.is_ready:
            raise HalvesNotReady("the half messages of this set are being read")
        verdict = self.halves.verdict(work.number, work.outcome)
        if verdict is Verdict.NEW:
            self.add(work)
        elif verdict is Verdict.SAME:
            self._park([Waiting(1, work.done)])
        else:
            work.done(refusal(work, verdict))

    def add(self, work: Work) -> None:
        """Do something with a half message that waits. Raises TooManyHalves."""
        found = self.halves.get(work.number)
        assert found is not None, work.number
        if self._work_count >= WORK_MAX:
            raise TooManyHalves(f"{self._work_count} decisions and checks wait")
        self._work_count += 1
        self._work.setdefault(found.at, []).append(work)
        if not self._is_busy:
            self._broker.scheduler.call_soon(self._read)
            self._is_busy = True

    def tidy(self, now_ms: int) -> None:
        """Let the log start follow, and move half messages that have waited for very long."""
        if not self.is_ready:
            return
        first = self.halves.first()
        end = self._log.log_end_offset
        low = end if first is None else first.at
        low = min([low, *self._coming.values()])
        try:
            if low > self._log.log_start_offset:
                self.hosted.member.log.delete_records(self._log, Offset(low))
            self._settle(low, now_ms)
            if first is not None and first.at < end - MOVED_BEHIND:
                for one in self.halves.firsts(MOVES_AT_ONCE):
                    self.add(Move(one.half.number))
        except PlatformError as error:
            log.info("half messages partition=%d: %s", self.hosted.partition, error)

    def end(self) -> None:
        """Refuse what waits: another mastership has begun."""
        self.is_ready = False
        self._refuse_work(NotMaster("another mastership has begun"))

    # --- half messages that come in ------------------------------------------------------------

    def _taken(
        self, sent: int, half: Half, taken_ms: int, done: Done, outcome: int | PlatformError
    ) -> None:
        self._coming.pop(sent, None)
        if isinstance(outcome, PlatformError):
            self._reload()  # it may be in the log
        elif self.is_current and self.is_ready and self._is_unknown(outcome):
            self.halves.apply(half._replace(number=outcome), outcome, taken_ms)
        done(outcome)

    def _is_unknown(self, number: int) -> bool:
        return self.halves.verdict(number, Outcome.COMMIT) is Verdict.UNKNOWN

    # --- what the log says ---------------------------------------------------------------------

    def _reload(self) -> None:
        """Read the log anew, with the next look."""
        self.is_ready = False
        self._refuse_work(HalvesNotReady("the half messages of this set are read anew"))

    def _on_loaded(self, owed: list[Owed] | PlatformError) -> None:
        loading, self._loading = self._loading, None
        assert loading is not None, "it was being read"
        if isinstance(owed, PlatformError):
            log.info("half messages partition=%d: %s", self.hosted.partition, owed)
            return
        if not self.is_current:
            return
        if loading.unreadable:
            log.warning("%d unreadable records of half messages", loading.unreadable)
        self.halves = loading.halves
        self._owed = owed
        self._decided_ms = self._broker.clock.wall_ms()
        self._decided_end = self._log.log_end_offset
        if owed:
            self._is_busy = True
            self._read_owed([])
        else:
            self.is_ready = True

    def _read_owed(self, found: list[tuple[Owed, Record]]) -> None:
        """Read the half messages of what is owed, then append all of it."""
        if len(found) == len(self._owed):
            self._finish_owed(found)
            return
        one = self._owed[len(found)]

        def on_read(read: PartitionRead) -> None:
            try:
                record = _record_of(read, one.half.at)
            except PlatformError as error:
                self._fail(error, None)
                return
            found.append((one, record))
            self._broker.scheduler.call_soon(partial(self._read_owed, found))

        read_at(self._broker, self.hosted, one.half.at, 1, on_read)

    def _finish_owed(self, found: list[tuple[Owed, Record]]) -> None:
        deciding = self._deciding()
        try:
            for one, record in found:
                deciding.owe(one.decided, one.half, record)
        except PlatformError as error:
            self._fail(error, None)
            return
        log.warning("%d decisions had no copies, which are written now", len(found))
        self._prepare(deciding)

    # --- work ----------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the batch that the first work needs."""
        at = next(iter(self._work), None)
        if at is None or not self.is_current:
            self._is_busy = False
            return
        if not all(self._is_at(one.number, at) for one in self._work[at]):
            self._again(self._pop(at))
            self._go_on()
            return
        read_at(self._broker, self.hosted, at, 1, partial(self._on_read, at))

    def _is_at(self, number: int, at: int) -> bool:
        found = self.halves.get(number)
        return found is not None and found.at == at

    def _again(self, works: list[Work]) -> None:
        """Look anew at half messages that are decided by now, or were moved."""
        for work in works:
            try:
                if self.halves.get(work.number) is not None:
                    self.add(work)
                elif isinstance(work, Decide):
                    self.decide(work)
            except PlatformError as error:
                self._refuse([work], error)

    def _on_read(self, at: int, read: PartitionRead) -> None:
        deciding = self._deciding()
        try:
            if read.error is not None:
                raise read.error
            records = records_of(read.buffers)
        except PlatformError as error:
            self._refuse(self._pop(at), error)
            self._go_on()
            return
        for offset in [one for one in records if one in self._work]:
            for work in self._pop(offset):
                self._do(deciding, work, records[offset])
        self._refuse(self._pop(at), MessageGone("the half message is not there any more"))
        self._prepare(deciding)

    def _do(self, deciding: Deciding, work: Work, record: Record) -> None:
        match work:
            case Decide():
                deciding.decide(work, record)
            case Move():
                deciding.move(work, record)
            case Check():
                found = self.halves.get(work.number)
                due_ms = None if found is None else self._ask(work, record)
                if found is not None and due_ms is not None:
                    self._counts["check"] += 1
                    deciding.note_check(found, due_ms)

    def _prepare(self, deciding: Deciding) -> None:
        if not deciding.has_events:
            self._park(deciding.waiting)
            self._go_on()
            return
        batches = deciding.batches()
        changed = {n: one for n, one in enumerate(batches) if one.is_changed}
        if changed:
            work = partial(prepare_all, changed, deciding.now_ms)
            self._broker.workers.submit(work, partial(self._prepared, deciding, batches))
        else:
            self._append(deciding, batches, {})

    def _prepared(
        self,
        deciding: Deciding,
        batches: list[Batch],
        outcomes: Mapping[int, Prepared | RecordError] | None,
        error: BaseException | None,
    ) -> None:
        if error is not None:
            raise error
        assert outcomes is not None, "a worker has an error or outcomes"
        self._append(deciding, batches, outcomes)

    def _append(
        self,
        deciding: Deciding,
        batches: list[Batch],
        outcomes: Mapping[int, Prepared | RecordError],
    ) -> None:
        """Append the events and, right behind them, the copies."""
        try:
            self._check()
            refused = next((one for one in outcomes.values() if isinstance(one, RecordError)), None)
            if refused is not None:
                raise refused
            events = deciding.events(batches)
            stored = memoryview(bytearray(build_batch([record for _, record in events])))
            first = self._append_to(self.hosted, stored, None)
        except PlatformError as error:
            self._fail(error, deciding)
            return
        try:
            for number, batch in enumerate(batches):
                expected = batch.target.log.log_end_offset
                prepared = outcomes.get(number)
                assert not isinstance(prepared, RecordError), "it was refused"
                base = self._append_to(batch.target, batch.memory, prepared)
                invariant(base == expected, "a copy has another offset", base=base, is_=expected)
        except PlatformError as error:
            self._reload()
            self._fail(error, deciding)
            return
        for offset, (event, record) in enumerate(events, first):
            self.halves.apply(event, offset, record.timestamp_ms)
            if isinstance(event, Decided):
                self._counts[event.outcome] += 1
                self._decided_ms, self._decided_end = deciding.now_ms, offset + 1
        if self._owed:
            self._owed, self.is_ready = [], True
        self._park(deciding.waiting)
        self._go_on()

    def _append_to(
        self, hosted: HostedPartition, memory: memoryview, prepared: Prepared | None
    ) -> int:
        """Append a batch; return its first offset."""
        now_ms, stats = self._broker.clock.wall_ms(), self._broker.stats
        appended = append_batch(hosted, memory, ACKS_ALL, now_ms, stats, prepared)
        if appended is None:
            prepared = prepare(memory, hosted.topic.rules, now_ms)
            appended = append_batch(hosted, memory, ACKS_ALL, now_ms, stats, prepared)
        assert appended is not None, "it is prepared"
        return appended[0]

    def _settle(self, low: int, now_ms: int) -> None:
        """Say that decisions have their copies, unless they are deleted."""
        if self._decided_ms is None:
            return
        if low >= self._decided_end:
            self._decided_ms = None
        elif now_ms - self._decided_ms >= SETTLE_MS:
            self._check()
            stored = memoryview(bytearray(build_batch([settled_record(now_ms)])))
            self._append_to(self.hosted, stored, None)
            self._decided_ms = None

    def _check(self) -> None:
        """Raise a PlatformError where nothing can be appended."""
        if not self.is_current:
            raise NotMaster("another mastership has begun")
        self.hosted.member.check_writable()
        self.hosted.member.check_in_step(self.hosted.topic.rules.min_insync_replicas)

    def _deciding(self) -> Deciding:
        now_ms = self._broker.clock.wall_ms()
        return Deciding(self._broker, self.hosted, self.halves, now_ms)

    # --- answers -------------------------------------------------------------------------------

    def _park(self, waiting: list[Waiting]) -> None:
        """Answer when everything that is in the log is confirmed."""
        if waiting:
            member = self.hosted.member
            deadline_ms = self._broker.clock.monotonic_ms() + WAIT_MS
            pending = Pending(self.hosted, waiting, 0, deadline_ms)
            member.waiting_for_all.park(member.log.end_position, pending)

    def _go_on(self) -> None:
        self._broker.scheduler.call_soon(self._read)

    def _fail(self, error: PlatformError, deciding: Deciding | None) -> None:
        log.info("half messages partition=%d: %s", self.hosted.partition, error)
        for one in () if deciding is None else deciding.waiting:
            one.done(error)
        self._go_on()

    def _pop(self, at: int) -> list[Work]:
        works = self._work.pop(at, [])
        self._work_count -= len(works)
        return works

    def _refuse(self, works: list[Work], error: PlatformError) -> None:
        for work in works:
            if isinstance(work, Decide):
                work.done(error)

    def _refuse_work(self, error: PlatformError) -> None:
        for at in list(self._work):
            self._refuse(self._pop(at), error)


def _record_of(read: PartitionRead, offset: int) -> Record:
    """Return the record that was read. Raises PlatformError kinds."""
    if read.error is not None:
        raise read.error
    record = records_of(read.buffers).get(offset)
    if record is None:
        raise MessageGone("the half message is not there")
    return record
