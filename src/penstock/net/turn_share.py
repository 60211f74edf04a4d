"""How long handlers of requests may hold the loop in one turn, all connections together.

    connection A   frame │ frame │ ...
    connection B         │       │ frame │ used up: the rest waits
    connection C                          waits as a whole ─► next turn: C, B, ...

One request is short, or is cut into slices (ADR 0033). Thousands of connections with one each are
not, where a turn takes what all of them have sent. So a turn ends after TURN_SECONDS of handling:
links of peers, which have one of their own (peer_turn.py), heartbeats and answers come in between.
What waits does so in its connection, which is read no further. Who has sent a single request goes
first, then those who have had nothing of what they sent, then those who have had some and have
more; one of each goes on in every turn. While several wait each has a quarter of a turn: a client
with one request waits neither for the pipelines of all others, nor for one visit of each of them.

The share is short because of who waits longest: a record that is written beside a flood waits for
the turn under way. Shorter ones cost a busy broker two hundredths of its requests. What the record
waits for after that comes in quiet turns (quiet_turns.py), as long as anybody waits.

Nothing is scheduled as long as little is done: the clock starts anew once a turn has handled
requests for a quarter of its share. ADR 0044.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from enum import IntEnum
from struct import Struct

from penstock.net.quiet_turns import QUIET_TURNS, QuietTurns

TURN_SECONDS = 0.000_5
"""One more request may begin just before it is over; with a slice and a few answers that are begun
a turn is below 5 ms."""
PEERS_SECONDS = 0.002
"""What links of peers have of a turn: more, since they share it with nobody else and send what
clients wait for."""
ONES_PART = 2
"""Half as much again for connections that have sent a single request: those do not wait for a
turn."""
VISIT_PART = 4
"""A quarter of it at a time for one connection while others wait; one request at least."""
COUNTED_PART = 4
"""What is not counted of one turn, a quarter at most, may be counted in the next one."""


class Sent(IntEnum):
    """What a connection that waits has sent, in the order of who goes first."""

    ONE = 0
    """A single request, or a part of one."""
    SEVERAL = 1
    """Several, of which none was handled yet."""
    MORE = 2
    """More than what was handled in its last visit."""


_SIZE = Struct(">i")


def sent_in(view: memoryview, filled: int) -> Sent:
    """Return what the bytes [0, filled) are that nobody has looked at yet."""
    if filled < _SIZE.size:
        return Sent.ONE
    (size,) = _SIZE.unpack_from(view, 0)
    return Sent.ONE if _SIZE.size + size >= filled else Sent.SEVERAL


FIRST_FIRST = tuple(Sent)
LAST_FIRST = FIRST_FIRST[::-1]


class TurnShare:
    """What handlers have left of the turn, and who waits for the next one. One for a listener."""

    __slots__ = ("_quiet", "_seconds", "_visit_left", "_waiting", "left", "stopwatch")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float = TURN_SECONDS,
        quiet_turns: int = QUIET_TURNS,
    ) -> None:
        """Handlers get so many seconds; so many turns follow one with those who had to wait."""
        self._quiet = QuietTurns(loop.call_soon, self._begin, quiet_turns)
        self._seconds = seconds
        self.stopwatch: Callable[[], float] = time.perf_counter
        """Tells seconds that pass while code runs, from any moment on."""
        self.left = seconds
        """Seconds; below 0 only single requests begin."""
        self._visit_left = seconds
        self._waiting: tuple[deque[Callable[[], None]], ...] = tuple(deque() for _ in Sent)

    def has_room(self, sent: Sent) -> bool:
        """Whether another request may begin in this turn, for who has sent so much."""
        return self.left > (-self._seconds / ONES_PART if sent is Sent.ONE else 0)

    def spend(self, seconds: float) -> bool:
        """Count the handling of a request; returns whether the connection may go on."""
        self.left -= seconds
        self._visit_left -= seconds
        if not self._quiet.is_due and self.left < self._seconds * (1 - 1 / COUNTED_PART):
            self._quiet.ask()
        return self.left > 0 and self._visit_left > 0

    def wait(self, go_on: Callable[[], None], sent: Sent) -> None:
        """Call `go_on` in a turn to come."""
        self._waiting[sent].append(go_on)
        self._quiet.ask()

    def _begin(self) -> None:
        self.left = self._seconds
        if any(self._waiting):
            self._quiet.rest()
        counts = list(map(len, self._waiting))
        try:
            for sent in LAST_FIRST:
                self._visit(sent, min(counts[sent], 1))  # however many come who go first
            for sent in FIRST_FIRST:
                self._visit(sent, counts[sent] - 1)
        finally:
            self._visit_left = self._seconds
            if any(self._waiting):
                self._quiet.ask()

    def _visit(self, sent: Sent, count: int) -> None:
        if count <= 0:
            return
        waiting = self._waiting[sent]
        is_alone = sum(map(len, self._waiting)) == 1
        for _ in range(count):
            if not self.has_room(sent):
                return
            self._visit_left = self._seconds if is_alone else self._seconds / VISIT_PART
            waiting.popleft()()
