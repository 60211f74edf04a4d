"""Writing what shares have replayed, at the end of each turn of the event loop.

    soon ─────────────────► (later) ─► a batch of what is dirty ─► journal took it ─► forgotten here
    with_others ─► LINGER_MS ──┘                                   refused it ─► kept, tried again

Nobody waits for the record of a hand-out: it is written with whatever else its partition writes,
or alone after LINGER_MS. Who acknowledges within that time causes one batch of the log, not two.

All batches of an internal partition are in the order in which their updates were replayed: one that
is refused is refused before it is in the log, and nothing is written before it is taken.

Source: none; Kafka's coordinators append for each request (CoordinatorRuntime, with KIP-848's
linger).
"""

from collections.abc import Callable, Sequence

from penstock.coordinator.outbox import Later
from penstock.coordinator.records import REWRITE_BATCH_BYTES, JournalRecord, records_bytes
from penstock.coordinator.runtime import Foundation
from penstock.shares.find import dying_in
from penstock.shares.ledger import NONE_UNWANTED, Ledger
from penstock.shares.messages import Unavailable
from penstock.shares.runs import Run, joined
from penstock.shares.state import ShareKey
from penstock.shares.table import Part, Shares, Waiting, Write
from penstock.shares.updates.tracing import Event, Traces, events_of

LETTERS_MAX = 5_000
"""Records that are given up whose copies are asked for with one write."""
LINGER_MS = 5
"""A hand-out that is lost with its master is made once more: so little is added to what may be."""
LINGERING_MAX = 500
"""Updates of a partition that are not confirmed, with which nothing waits for company: a batch of
so many takes about a millisecond."""
After = Callable[[int, Callable[[], None]], object]
"""Runs a callback so many milliseconds later."""


class Flushing:
    """Of one coordinator."""

    __slots__ = ("_after", "_confirmed", "_due", "_is_busy", "_is_shown", "_later", "_lingering",
                 "_outbox", "_refused", "_traces", "_writes")  # fmt: skip

    def __init__(  # noqa: PLR0913  its ports
        self,
        base: Foundation[ShareKey | int],
        later: Later | None,
        is_shown: Callable[[Shares], bool],
        confirmed: Callable[[Shares, Part], None],
        refused: Callable[[Shares], None],
        *,
        after: After | None = None,
        traces: Traces | None = None,
    ) -> None:
        """Without `later` everything is written at once; without `after` nothing lingers."""
        self._traces = traces
        self._after = after
        self._lingering: dict[Shares, None] = {}
        """Those with hand-outs that wait for company; while there are some, a time is set."""
        self._writes, self._outbox = base.writes, base.outbox
        self._later = later
        self._is_shown = is_shown
        self._confirmed = confirmed
        self._refused = refused
        self._due: dict[Shares, None] = {}
        self._is_busy = False

    def soon(self, shares: Shares) -> None:
        """Write what is dirty: at the end of this turn, with whatever else it brings."""
        if not shares.dirty:
            return
        is_first = not self._due
        self._due[shares] = None
        if self._later is None:
            self._run()
        elif is_first:
            self._later(self._run)

    def with_others(self, shares: Shares, ledger: Ledger) -> None:
        """Write what nobody waits for: with what comes within LINGER_MS, or then.

        Where a trace is kept it is told what happens when it does, so nothing lingers.
        """
        is_traced = self._traces is not None and self._traces.wants(ledger.share.key)
        if self._after is None or is_traced or shares.tally.count >= LINGERING_MAX:
            self.soon(shares)
        elif shares.dirty:
            is_first = not self._lingering
            self._lingering[shares] = None
            if is_first:
                self._after(LINGER_MS, self._linger_no_more)

    def _linger_no_more(self) -> None:
        lingering, self._lingering = self._lingering, {}
        for shares in lingering:
            self.soon(shares)

    @staticmethod
    def letters_of(ledger: Ledger) -> list[Run]:
        """Return LETTERS_MAX records at most that are to be copied; they are not returned again."""
        share, dying = ledger.share, ledger.share.dying
        offsets = [dying.popleft() for _ in range(min(len(dying), LETTERS_MAX))]
        runs = joined((offset, offset + 1) for offset in offsets)
        return joined(dying_in(share, runs))  # the log's start may have passed some

    def pass_over(self, ledger: Ledger, receipts: Sequence[tuple[int, int]]) -> None:
        """Note that records which are accepted are not wanted by who got them, for the trace."""
        if self._traces is not None and self._traces.wants(ledger.share.key):
            ledger.unwanted |= {offset for offset, _ in receipts}

    @staticmethod
    def _events(traces: Traces, ledger: Ledger, count: int) -> Sequence[Event]:
        return events_of(ledger, count) if traces.wants(ledger.share.key) else ()

    def _told(self, shares: Shares, part: Part) -> None:
        if part.events and self._traces is not None:
            self._traces.happened(part.ledger.share.key, part.events)
        self._confirmed(shares, part)

    def _run(self) -> None:
        """Write one batch of each; what is left has its turn later."""
        if self._is_busy:  # told by a journal that confirms at once
            return
        with self._outbox.holding():
            self._write_all()

    def _write_all(self) -> None:
        self._is_busy = True
        try:
            while self._due:
                due, self._due = self._due, {}
                again = [shares for shares in due if self._write(shares)]
                if again and self._later is not None:
                    self._due.update(dict.fromkeys(again))
                    self._later(self._run)
                    return
                self._due.update(dict.fromkeys(again))
        finally:
            self._is_busy = False

    def _write(self, shares: Shares) -> bool:
        """Write a batch; return whether more is left that can be written now."""
        if not self._is_shown(shares):
            _tell(shares, Unavailable.NOT_HERE)  # what they wait for is never written here
            return False
        if not shares.dirty:
            return False
        if self._writes.is_full:
            _tell(shares, Unavailable.FULL)
            self._refused(shares)
            return False
        records, written = _batch(shares)
        is_all = len(written) == len(shares.dirty) and all(is_whole for _, _, is_whole in written)
        waiting: list[Waiting] = []
        if is_all:
            waiting, shares.waiting = shares.waiting, []
        found = [
            Part(
                ledger,
                count,
                ledger.share.base if is_whole else None,
                self.letters_of(ledger) if is_whole else (),
                () if self._traces is None else self._events(self._traces, ledger, count),
            )
            for ledger, count, is_whole in written
        ]
        write = Write(shares, records, found, waiting, self._told)
        if not self._writes.append(shares.partition, write, write.tell):
            for part in found:
                for first, end in part.letters:
                    part.ledger.share.dying.extend(range(first, end))
            _tell(shares, Unavailable.FULL)
            self._refused(shares)
            return False
        shares.began(write)
        for ledger, count, _ in written:
            ledger.written(count)
            if ledger.is_empty:
                ledger.unwanted = NONE_UNWANTED
                del shares.dirty[ledger]
        return bool(shares.dirty)


def _batch(shares: Shares) -> tuple[list[JournalRecord], list[tuple[Ledger, int, bool]]]:
    """Return records for one batch, and how many of which share, and whether these are all."""
    records: list[JournalRecord] = []
    written: list[tuple[Ledger, int, bool]] = []
    left = REWRITE_BATCH_BYTES
    for ledger in shares.dirty:
        some = ledger.records(left)
        records += some
        left -= records_bytes(some)
        written.append((ledger, len(some), len(some) == ledger.pending_count))
        if left <= 0:
            break
    return records, written


def _tell(shares: Shares, why: Unavailable) -> None:
    waiting, shares.waiting = shares.waiting, []
    for told in waiting:
        told(why)
