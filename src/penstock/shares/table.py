"""The shares of one internal partition, and what of them is on its way to the log.

Source: Kafka `SharePartitionManager` (its cache of share partitions).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.shares.ledger import Ledger, Tally
from penstock.shares.messages import WhyNot
from penstock.shares.runs import Runs
from penstock.shares.state import NO_EPOCH, ShareKey
from penstock.shares.updates.tracing import Event

Waiting = Callable[[WhyNot | None], None]


class Shares:
    """See the module. A deleted share leaves `ledgers` at once, and `dirty` when written."""

    __slots__ = ("_last", "dirty", "epoch", "is_lost", "ledgers", "partition", "tally",
                 "unreadable", "waiting", "wall_ahead_ms")  # fmt: skip

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.ledgers: dict[ShareKey, Ledger] = {}
        self.unreadable: set[ShareKey] = set()
        """Shares of which this version can not read a record: they stay as they are in the log."""
        self.dirty: dict[Ledger, None] = {}
        """Those that have something to write, in the order in which they had."""
        self.waiting: list[Waiting] = []
        """Who is told when all that is replayed by now is confirmed."""
        self.tally = Tally()
        self.epoch = NO_EPOCH
        self.wall_ahead_ms = 0
        """Wall time less monotonic time, once for a tenure: setting a clock ends no hand-out."""
        self.is_lost = False
        """Whether a write is lost: the state is ahead of a log that nobody can write here."""
        self._last: Write | None = None

    def wait(self, told: Waiting) -> None:
        """Have `told` called once what is replayed by now is confirmed, or is known not to be."""
        if self.dirty:
            self.waiting.append(told)
        elif self._last is not None and not self._last.is_over:
            self._last.waiting.append(told)
        else:
            told(None)

    def given_up(self) -> Iterator[Waiting]:
        """Yield who waits for what will not be written here."""
        self.is_lost = True
        while self.waiting:
            yield self.waiting.pop()

    def began(self, write: "Write") -> None:
        """Note that the journal has taken a write."""
        write.is_taken = True
        self._last = write


class Part(NamedTuple):
    """What a write has of one share."""

    ledger: Ledger
    record_count: int
    base: int | None
    """Where the share's window begins with it; None if more is to be written first."""
    letters: Runs
    events: Sequence[Event] = ()
    """What it has done with its records, where somebody keeps a trace."""


class Write:
    """Updates that were appended together, which is a Change of the runtime.

    They are replayed before they are appended: nothing is left to be done to the shares.
    """

    __slots__ = ("_confirmed", "_shares", "_was_told", "is_over", "is_taken", "parts", "records",
                 "waiting")  # fmt: skip

    def __init__(
        self,
        shares: Shares,
        records: list[JournalRecord],
        parts: Sequence[Part],
        waiting: list[Waiting],
        confirmed: Callable[[Shares, Part], None],
    ) -> None:
        self.records = records
        self.parts = parts
        self.waiting = waiting
        self.is_taken = False
        self.is_over = False
        self._was_told = False
        self._shares = shares
        self._confirmed = confirmed

    def begin(self) -> None:
        """As in Change."""

    def confirm(self) -> None:
        """As in Change: what waited for it may be told."""
        self.is_over = True
        self._shares.tally.count -= len(self.records)
        for part in self.parts:
            if part.base is not None:
                part.ledger.confirmed_base = part.base
            self._confirmed(self._shares, part)
        self._tell_those_who_came_late(None)

    def refuse(self) -> None:
        """As in Change. If it was taken, it is lost with the mastership; else it is kept."""
        self.is_over = True
        self._shares.is_lost |= self.is_taken
        self._tell_those_who_came_late(Unwritten.OVERTAKEN)

    def tell(self, reason: Unwritten | None) -> None:
        """Answer who waits; who comes while it is late waits for its outcome."""
        self._was_told = True
        waiting, self.waiting = self.waiting, []
        for told in waiting:
            told(reason)

    def _tell_those_who_came_late(self, reason: Unwritten | None) -> None:
        if self._was_told:
            self.tell(reason)
