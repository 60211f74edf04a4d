"""Who may prepare a large answer now: some bytes in a turn of the loop, within the budget, fairly.

    ask ─► nobody waits, this turn has bytes left, memory is there ─► begin
      └──► wait, holding nothing but the request ─► a later turn: who holds least ─► begin

What is begun counts as work of the turn, and what lies anywhere on its way to the peer counts in
the budget: bytes that are being read (`Connection.keep`), answers that wait for an earlier one,
and what the socket did not take. What the system keeps in a socket's send buffer is not memory of
this process, and does not count: `net.ipv4.tcp_wmem` bounds it for each connection, `tcp_mem` for
all of them.

A connection that does not take its answers gets none prepared. Answers and the requests that wait
have eleven sixteenths of the budget, what is beside it (buffers for reading, records read ahead)
has the rest; the last part of those is for connections that have few requests waiting. Whatever
else is pinned, answers have an eighth. At least one batch comes of every beginning, so each makes
progress; the overshoot is one batch, whoever waits. ADR 0043.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import nsmallest
from typing import Protocol

from penstock.net.quiet_turns import QUIET_TURNS, QuietTurns
from penstock.net.receive import FrameBudget

TURN_BYTES = 512 << 10
"""Bytes of answers that are begun in one turn, and of one answer while others wait: reading,
checking and sending them takes half a millisecond, and several times that where memory is touched
first."""
FEW = 4
"""A client that is not flooding has no more requests waiting than this."""
ANSWER_SIXTEENTHS, ANSWER_SIXTEENTHS_OF_MANY = 11, 9
"""Of the budget, until which answers are begun: for those with few requests waiting, and others."""
WAITING_BYTES = 2560
"""What a fetch that waits keeps, decoded and with its tasks; it counts in the budget."""
CHOSEN_MAX = 32
"""Connections that are served in one turn, one request each."""

Begin = Callable[[int], int]
"""Gets how many bytes its answer may hold, 0 where the connection has gone; returns the bytes that
it has read, or asked the disk for. A single batch may be larger than what was allowed."""


class Asker(Protocol):
    """A connection that asks for room."""

    @property
    def is_choked(self) -> bool:
        """Whether more answers lie there, not taken, than a connection may have."""

    @property
    def pinned_bytes(self) -> int:
        """What the connection holds of answers."""

    def has_gone(self) -> bool:
        """Whether the peer has closed."""

    def abort(self) -> None:
        """End the connection now; what is queued is lost."""


class AnswerRoom:
    """Who prepares an answer, and who waits for that. One for a listener."""

    __slots__ = ("_budget", "_is_told", "_left", "_quiet", "_waiting", "is_short")

    def __init__(
        self, budget: FrameBudget, loop: asyncio.AbstractEventLoop, quiet_turns: int = QUIET_TURNS
    ) -> None:
        """Between two turns with answers for those who wait there are so many without."""
        self._budget = budget
        self._quiet = QuietTurns(loop.call_soon, self._give, quiet_turns)
        self._waiting: dict[Asker, deque[tuple[int, Begin]]] = {}
        self._left = TURN_BYTES
        """Of this turn. It is only looked after once it is used up: what small answers take adds
        up over several turns, and costs the one who comes then a turn of waiting."""
        self._is_told = False
        self.is_short = False
        """Whether somebody waits for memory who takes the answers."""

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._waiting.values()))

    def ask(self, connection: Asker, most: int, begin: Begin) -> None:
        """Let `begin` prepare an answer of `most` bytes, or less; now or in a later turn."""
        if self._waiting or self._left <= 0 or connection.is_choked or not self._has_room(FEW + 1):
            self._waiting.setdefault(connection, deque()).append((most, begin))
            self._budget.change(0, WAITING_BYTES)
            self._quiet.ask()
        else:
            self._left -= begin(min(most, self._budget.answer_bytes_max))

    def forget(self, connection: Asker) -> None:
        """Tell those who wait that their connection has gone."""
        waited = self._waiting.pop(connection, ())
        for _, begin in waited:
            begin(0)
        self._budget.change(len(waited) * WAITING_BYTES, 0)
        if not self._waiting:
            self.is_short = False

    def _give(self) -> None:
        self._left = TURN_BYTES
        has_given = False
        chosen = self._chosen()
        try:
            for connection in chosen:
                if self._left <= 0:
                    break
                if self._has_room(len(self._waiting.get(connection, ()))):
                    if not has_given:
                        self._quiet.rest()
                    has_given = True
                    self._serve(connection)
        finally:
            self.is_short = bool(chosen) and not has_given
            if has_given and self._waiting:
                self._quiet.ask()
            elif self._waiting and not self._is_told:
                self._is_told = True
                self._budget.on_given_back.append(self._wake)

    def _chosen(self) -> list[Asker]:
        """Return who may be served in this turn: who holds least, then who asks for least."""
        able = [connection for connection in self._waiting if not connection.is_choked]
        if len(able) == 1:
            return able
        return nsmallest(CHOSEN_MAX, able, key=self._rank)

    def _rank(self, connection: Asker) -> tuple[int, int]:
        return connection.pinned_bytes, len(self._waiting[connection])

    def _has_room(self, waiting: int) -> bool:
        budget, sixteenth = self._budget, self._budget.limit // 16
        most = sixteenth * (ANSWER_SIXTEENTHS_OF_MANY if waiting > FEW else ANSWER_SIXTEENTHS)
        return budget.used < most or budget.answers < 2 * sixteenth

    def _serve(self, connection: Asker) -> None:
        waiting = self._waiting.get(connection)
        if waiting is None:
            return
        most, begin = waiting.popleft()
        if not waiting:
            del self._waiting[connection]
        self._budget.change(WAITING_BYTES, 0)
        if connection.has_gone():
            begin(0)
            connection.abort()  # it may not be read any more, and then nobody would notice
            return
        if self._waiting:
            most = min(most, TURN_BYTES)
        self._left -= begin(min(most, self._budget.answer_bytes_max))

    def _wake(self) -> None:
        """Something was given back, which may be what was waited for."""
        self._is_told = False
        self._quiet.ask()
