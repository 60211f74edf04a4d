"""Turns of the loop without work of clients that is cut up, between two that hold some of it.

    work │ read the sockets │ write, begin a sync │ let workers run │ its result │ answers │ work

What a client waits for is a chain of short steps, each scheduled by the one before it: a record is
read, written in the next turn, synced by a worker, its result is handled in a turn, and the answer
leaves in another one. If each of these turns held a piece of long work, one record waited for five
of them. With quiet turns in between it waits for the one under way, and sometimes for another.

Each costs a busy loop some microseconds: it looks at its sockets once more. They follow work and
never precede it, so work that comes seldom waits for none of them. ADR 0076.
"""

from collections.abc import Callable

from penstock.net.workers_turn import WORKERS_TURN

QUIET_TURNS = 4
"""From the turn in which a record is read to the one in which its answer leaves."""
WORKERS_AT = 1
"""Quiet turns before threads are let run: what was read has begun its sync by then."""

assert WORKERS_AT < QUIET_TURNS


class QuietTurns:
    """Calls `work` in a turn to come; one for each kind of work that is cut up."""

    __slots__ = ("_call_soon", "_count", "_left", "_work", "is_due")

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        work: Callable[[], None],
        count: int = QUIET_TURNS,
    ) -> None:
        """`work` calls `rest` before it does something: so many turns hold none of it then."""
        self._call_soon = call_soon
        self._work = work
        self._count = count
        self._left = 0
        """Quiet turns until `work` may be called again."""
        self.is_due = False
        """Whether `work` is going to be called."""

    def ask(self) -> None:
        """Have `work` called, once however often this is asked."""
        if not self.is_due:
            self.is_due = True
            if not self._left:
                self._call_soon(self._begin)

    def rest(self) -> None:
        """Let quiet turns follow this one."""
        assert not self._left, "work is not called in quiet turns"
        if self._count:
            self._left = self._count
            self._call_soon(self._pass)

    def _begin(self) -> None:
        WORKERS_TURN.come()
        self.is_due = False
        self._work()

    def _pass(self) -> None:
        if self._left == self._count - WORKERS_AT:
            WORKERS_TURN.come()
        self._left -= 1
        if self._left:
            self._call_soon(self._pass)
        elif self.is_due:
            self._call_soon(self._begin)
