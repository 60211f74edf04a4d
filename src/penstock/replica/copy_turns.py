"""Whose turn it is to be sent bytes of a copy, while the rate of copies allows no more.

    may_send(session) ── in step, or waited for ──────────────► yes, uncounted
                      ├─ the rate allows it ──────────────────► yes, counted when sent
                      └─ no: the session rests ─► wake ───────► it asks again

Sessions rest in the order in which they asked, and one is called at a time: where its link has no
room, the next one is called a moment later. A session that is waited for by now (its member joins
the sync-state set, or the others are too few to confirm) is called by the next `look`, whatever the
rate allows. So a master confirms as if there were no rate, and no timer runs while nobody rests.

Source: docs/adr/0128. It reads no bytes and knows no links.
"""

from typing import Protocol

from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable, Scheduler
from penstock.replication.copy_pace import CopyPace

CALL_MS_MIN = 1
"""Between two calls: time for the first one to send, which makes the next one wait."""
CALL_MS_MAX = 60_000
"""A lower rate is looked at again after so long."""


class Copying(Protocol):
    """A slave's session, as far as its turns need it."""

    is_resting: bool
    """Whether it waits for its turn."""

    @property
    def may_wait(self) -> bool:
        """Whether neither writes nor a resumption wait for what the slave is sent."""

    def wake(self) -> None:
        """Ask again, as soon as there is something to send."""


class CopyTurns:
    """The turns of all sessions of one broker. Used on its event loop."""

    def __init__(self, pace: CopyPace, scheduler: Scheduler) -> None:
        self.pace = pace
        self.rests = 0
        """Times that a session had to rest."""
        self._scheduler = scheduler
        self._resting: dict[Copying, None] = {}
        self._timer: Cancellable | None = None

    @property
    def resting_count(self) -> int:
        """Sessions that rest now."""
        return len(self._resting)

    def may_send(self, session: Copying) -> bool:
        """Whether the session may be sent bytes now; else it rests until it is woken."""
        if session.is_resting:
            return False
        if not session.may_wait or self.pace.wait_ms() == 0:
            return True
        invariant(session not in self._resting, "a session rests once", resting=self.resting_count)
        self.rests += 1
        session.is_resting = True
        self._resting[session] = None
        self._call_later()
        return False

    def leave(self, session: Copying) -> None:
        """Forget a session that has ended."""
        self._resting.pop(session, None)
        session.is_resting = False

    def use_rate(self, bytes_per_second: int) -> None:
        """Go by another rate from now on, also for those that rest."""
        self.pace.use_rate(bytes_per_second)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._call_later()

    def look(self) -> None:
        """Call those that are waited for by now; to be called several times a second."""
        for session in [one for one in self._resting if not one.may_wait]:
            self._call(session)

    def _call_later(self) -> None:
        if self._timer is None and self._resting:
            delay_ms = min(max(self.pace.wait_ms(), CALL_MS_MIN), CALL_MS_MAX)
            self._timer = self._scheduler.call_later(delay_ms, self._call_next)

    def _call_next(self) -> None:
        self._timer = None
        if self._resting and self.pace.wait_ms() == 0:
            self._call(next(iter(self._resting)))
        self._call_later()

    def _call(self, session: Copying) -> None:
        self.leave(session)
        session.wake()
