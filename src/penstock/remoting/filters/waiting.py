"""Pulls with a filter that wait: they go on waiting until there is what they want.

    readable ─► its records are in the tail ─► judged ─► none is wanted: it waits on, behind them
                │                                └─► some are: read these, and answer
                ├─► not, and nobody reads them: read from where it stands, which gives them to
                │   the tail as well
                └─► somebody does: look again when they are there

A message for one of a thousand subscribers of a partition is read and mapped once, then, and not a
thousand times, and the others answer nothing and are not asked again. When its time is over a pull
is told how far it has looked. A read that ends without records, as its client has gone, lets the
others go on as well.

The tail of a partition has the properties of its last records: TAIL_RECORDS of them and TAIL_BYTES
at most, for TAILS_MAX partitions where such pulls wait. Pulls of others read for themselves.

Source: ours, docs/adr/0179; RocketMQ `PullRequestHoldService.notifyMessageArriving`, which wakes a
pull for what its filter wants.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.base.errors import PlatformError
from penstock.broker.fetch.committed import stable_end
from penstock.broker.fetch.wakes import TO_ANSWER, TO_WAIT_ON
from penstock.broker.fetch.watermarks import End
from penstock.remoting.filters.verdicts import MessageFilter, Verdict

if TYPE_CHECKING:
    from penstock.base.ports import Cancellable, Scheduler
    from penstock.broker.partitions import HostedPartition

TAILS_MAX: Final = 64
TAIL_RECORDS: Final = 256
TAIL_BYTES: Final = 64 << 10
RECORD_BYTES: Final = 200
"""About what is kept of a record beside the text of its properties."""
BEHIND_MS: Final = 50
"""Then somebody else reads: a client that takes no answers has its pull wait for room."""
_COST_UNIT_US: Final = 10
"""Of the portions of wakes."""

Properties = Mapping[str, str]


def committed_end(hosted: HostedPartition) -> int | None:
    """Return up to where records are committed; None where that is not known at once."""
    try:
        hosted.member.check_readable()
    except PlatformError:
        return None
    known = hosted.member.high_watermark(hosted.log)
    if known is None:
        return None
    return stable_end(hosted, End(known, hosted.member.confirm_position)).offset


class Looked(NamedTuple):
    """A record that a filter has looked at."""

    offset: int
    properties: Properties

    @property
    def size(self) -> int:
        """Approximate memory."""
        return RECORD_BYTES + sum(len(name) + len(one) for name, one in self.properties.items())


class Tail:
    """What the last committed records of a partition say of themselves, from `first` to `end`."""

    def __init__(self, hosted: HostedPartition) -> None:
        self._hosted = hosted
        self._records: deque[Looked] = deque()
        self._of: tuple[object, ...] = ()
        self.first = self.end = 0
        """The second is exclusive. There may be no record at an offset between them."""
        self.bytes_now = 0
        self.waiting = 0
        """Pulls that look at it."""
        self.is_read = False
        """Whether one of them reads what comes next."""
        self.behind: dict[FilteredWait, None] = {}
        """Those that wait for that, until a timer ends it."""
        self.timer: Cancellable | None = None

    def add(self, begun: int, records: Sequence[Looked], end: int) -> None:
        """Take what a read from the offset `begun` has looked at, up to `end`; the last of it."""
        if len(records) == TAIL_RECORDS:
            begun = records[0].offset
        of = self._mastership()
        if of != self._of or not self.first <= begun <= self.end:
            self._of, self.first, self.end = of, begun, begun
            self._records.clear()
            self.bytes_now = 0
        for record in records:
            if record.offset >= self.end:
                self._records.append(record)
                self.bytes_now += record.size
        self.end = max(self.end, end)
        while len(self._records) > TAIL_RECORDS or self.bytes_now > TAIL_BYTES:
            gone = self._records.popleft()
            self.bytes_now -= gone.size
            self.first = gone.offset + 1

    def after(self, offset: int) -> list[Looked] | None:
        """Return the records from an offset on; None where it does not know of all of them."""
        if self._of != self._mastership() or not self.first <= offset <= self.end:
            return None
        newer = list(takewhile(lambda one: one.offset >= offset, reversed(self._records)))
        newer.reverse()
        return newer

    def _mastership(self) -> tuple[object, ...]:
        """Records of another one, or of a log that was opened anew, may be others."""
        return self._hosted.log, self._hosted.member.leader_epoch


Wake = Callable[[Collection["FilteredWait"]], object]
"""Lets pulls look again, now or in turns to come."""


class Waits:
    """Pulls with a filter that wait, and the tails of their partitions. One for each front."""

    def __init__(self, scheduler: Scheduler, wake: Wake, left_out: Counter[Verdict]) -> None:
        """`left_out` counts what filters do not want."""
        self._scheduler = scheduler
        self._wake = wake
        self.left_out = left_out
        self._tails: dict[HostedPartition, Tail] = {}

    @property
    def bytes_now(self) -> int:
        """Approximate memory of the tails."""
        return sum(tail.bytes_now for tail in self._tails.values())

    def tail(self, hosted: HostedPartition) -> Tail | None:
        """Return what pulls that wait look at; None where nobody does."""
        return self._tails.get(hosted)

    def knows(self, hosted: HostedPartition, offset: int) -> bool:
        """Whether a pull from an offset on can wait at once, without a read."""
        tail = self._tails.get(hosted)
        is_there = tail is not None and tail.after(offset) is not None
        return is_there or committed_end(hosted) == offset

    def enter(self, hosted: HostedPartition) -> Tail | None:
        """Look at a partition's tail, too; None where there are too many."""
        tail = self._tails.get(hosted)
        if tail is None:
            if len(self._tails) == TAILS_MAX:
                return None
            tail = self._tails[hosted] = Tail(hosted)
        tail.waiting += 1
        return tail

    def leave(self, hosted: HostedPartition, tail: Tail | None) -> None:
        """Look at it no more; the last one takes it along."""
        if tail is not None:
            tail.waiting -= 1
            if not tail.waiting:
                del self._tails[hosted]

    def read_over(self, tail: Tail) -> None:
        """The read for a tail has ended: those behind look at what it has found."""
        tail.is_read = False
        if tail.timer is not None:
            tail.timer.cancel()
            tail.timer = None
        behind, tail.behind = tail.behind, {}
        if behind:
            self._wake(behind)

    def fall_behind(self, tail: Tail, wait: FilteredWait) -> None:
        """Let a pull look again when the read for a tail has ended, or takes too long."""
        tail.behind[wait] = None
        if tail.timer is None:
            tail.timer = self.later(BEHIND_MS, partial(self.read_over, tail))

    def later(self, after_ms: int, run: Callable[[], None]) -> Cancellable:
        """Call this after a while."""
        return self._scheduler.call_later(after_ms, run)


class ToRead(NamedTuple):
    """What a pull reads that has waited."""

    offset: int
    is_one: bool = False
    """Whether the message there is all that is known to be wanted; else whatever is there."""
    tail: Tail | None = None
    """Who waits for it as well: `read_over` is to be called in the end."""


class WaitingPull(NamedTuple):
    """What a pull that waits does in the end, one of them and once."""

    read: Callable[[ToRead], None]
    """There is something for it, or nobody knows."""
    tell: Callable[[int], None]
    """Its time is over: it has looked up to an offset."""
    is_gone: Callable[[], bool]
    """Whether its client is."""
    end: Callable[[], None]
    """It is: nobody is told."""


class FilteredWait:
    """A pull that waits on a partition behind what it does not want. See the module."""

    __slots__ = ("_filter", "_hosted", "_is_over", "_offset", "_pull", "_tail", "_timer", "_waits")

    def __init__(
        self,
        waits: Waits,
        hosted: HostedPartition,
        wanted: MessageFilter,
        offset: int,
        pull: WaitingPull,
    ) -> None:
        """All records below `offset` are known not to be wanted."""
        self._waits, self._hosted, self._filter = waits, hosted, wanted
        self._offset, self._pull = offset, pull
        self._tail: Tail | None = None
        self._timer: Cancellable | None = None
        self._is_over = False

    def begin(self, wait_ms: int) -> None:
        """Wait; what has come since its offset was read is looked at now."""
        self._tail = self._waits.enter(self._hosted)
        self._timer = self._waits.later(wait_ms, self._on_deadline)
        self.on_readable()

    def on_readable(self) -> int:
        """Judge what has come. Returns the cost in units of wakes.py."""
        if self._is_over:
            return 1
        if self._pull.is_gone():
            self._leave()
            self._pull.end()
            return 1
        end = committed_end(self._hosted)
        if end is None or end < self._offset:
            return self._read(ToRead(self._offset))
        wanted, judged = self._look()
        if wanted:
            return self._read(ToRead(wanted[0], is_one=len(wanted) == 1))
        if self._offset < end and not self._is_behind():
            return self._read(ToRead(self._offset, tail=self._tail))
        self._hosted.park(self, self._hosted.member.high_watermark(self._hosted.log) or 0)
        return TO_WAIT_ON + judged * (1 + self._filter.work) // _COST_UNIT_US

    def _is_behind(self) -> bool:
        """Whether somebody reads what this pull is to look at; it hears of the end then."""
        tail = self._tail
        if tail is None or not tail.is_read:
            return False
        self._waits.fall_behind(tail, self)
        return True

    def on_changed(self) -> int:
        """The partition was deleted, or has another master or log: a read says what it is to be."""
        return 1 if self._is_over else self._read(ToRead(self._offset))

    def _look(self) -> tuple[list[int], int]:
        """Step behind what is not wanted; return the offsets of what is, and how many it judged."""
        records = None if self._tail is None else self._tail.after(self._offset)
        if records is None:
            return [], 0
        judge, wanted, count = self._filter.judge(), [], 0
        for record in records:
            count += 1
            verdict = judge(record.properties)
            if verdict is Verdict.WANTED:
                wanted.append(record.offset)
            elif not wanted:
                self._waits.left_out[verdict] += 1
        assert self._tail is not None
        if not wanted:
            self._offset = self._tail.end
        return wanted, count

    def _read(self, what: ToRead) -> int:
        self._leave()
        if what.tail is not None:
            what.tail.is_read = True
        self._pull.read(what)
        return TO_ANSWER + 1

    def _on_deadline(self) -> None:
        self._timer = None
        if not self._is_over:
            self._leave()
            self._pull.tell(self._offset)

    def _leave(self) -> None:
        self._is_over = True
        self._hosted.leave(self)
        if self._tail is not None:
            self._tail.behind.pop(self, None)
        self._waits.leave(self._hosted, self._tail)
        if self._timer is not None:
            self._timer.cancel()
