"""Applies what a Ready commits, some entries in each turn of the loop.

    Ready ─► entry, entry, ... │ next turn: entry, ... ─► all applied: its answers, `advance`

A member that was cut off gets thousands of entries within one disk write, and each changes the
image and tells all who follow it. While some are left the Ready is not concluded, and later ones
wait behind it; messages, writes and ticks go on. A start applies everything at once, as nobody is
served yet.

Source: raft/raft.py (the driver's duty 4); ADR 0033.
"""

from collections.abc import Callable

from penstock.base.ports import Scheduler
from penstock.raft.entry import Entry
from penstock.raft.ready import Ready

PORTION = 40
"""Cost of the entries in one turn: 1 for an entry, and 1 for each BYTES_OF_ONE of its payload. One
is 0.1 ms of processor time, by creating topics of 4 and of 1,000 partitions."""
BYTES_OF_ONE = 256
_UNBOUNDED = 1 << 62


class Applying:
    """At most one Ready, between its being durable and its being advanced."""

    __slots__ = ("_apply", "_at", "_go_on", "_is_resting", "_left", "_scheduler", "ready")

    def __init__(
        self, apply: Callable[[Entry], bool], scheduler: Scheduler, go_on: Callable[[], None]
    ) -> None:
        """`apply` returns whether the log goes on; `go_on` begins a turn with another share."""
        self._apply = apply
        self._scheduler = scheduler
        self._go_on = go_on
        self.ready: Ready | None = None
        self._at = 0
        """How many of its entries are applied."""
        self._left = _UNBOUNDED
        """Cost left in this turn. It is only renewed once used up, as single entries are the rule.
        """
        self._is_resting = False

    def bound(self) -> None:
        """Apply portions from now on: the start is over."""
        self._left = PORTION

    def begin(self, ready: Ready) -> None:
        """Take the next Ready."""
        assert self.ready is None, "the one before is not concluded"
        self.ready, self._at = ready, 0

    def go_on(self) -> Ready | None:
        """Apply what this turn has left; return the Ready once all that it commits is applied."""
        ready = self.ready
        assert ready is not None
        committed = ready.committed
        while self._at < len(committed):
            if self._left <= 0:
                self._rest()
                return None
            entry = committed[self._at]
            self._left -= 1 + len(entry.payload) // BYTES_OF_ONE
            self._at += 1
            if not self._apply(entry):
                return None
        self.ready = None
        return ready

    def _rest(self) -> None:
        if not self._is_resting:
            self._is_resting = True
            self._scheduler.call_soon(self._renew)

    def _renew(self) -> None:
        self._is_resting = False
        self._left = PORTION
        self._go_on()
