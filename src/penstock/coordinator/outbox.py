"""Answers leave when the state that caused them is complete.

A rebalance answers many members in the middle of its work. If such an answer made a connection
hand in the next request at once, that request would see half a state change. So callbacks given to
the coordinator are wrapped: calling one only queues its answer, and the queue is emptied when the
outermost turn of the coordinator ends. The order of answers is the order of the calls.

A rebalance of thousands of members owes thousands of answers at once. `TOGETHER` of them leave
when the turn ends, the others in turns of the loop to come; what is answered meanwhile waits.

Source: the run-to-completion rule of etcd-io/raft's Ready (messages leave after the state changed).
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

A = TypeVar("A")
Later = Callable[[Callable[[], None]], object]
"""Runs a callback in a later turn of the loop."""

TOGETHER = 100
"""Answers that leave in one turn: a millisecond of encoding and sending."""


class Outbox:
    """Queues answers while a turn lasts; each one leaves exactly once."""

    __slots__ = ("_answers", "_depth", "_is_leaving", "_later")

    def __init__(self, later: Later | None = None) -> None:
        """Without `later` all answers leave when the turn ends."""
        self._answers: deque[Callable[[], None]] = deque()
        self._depth = 0
        self._is_leaving = False
        """Whether answers leave now, or will in a turn that was asked for."""
        self._later = later

    def wrap(self, reply: Callable[[A], None]) -> Callable[[A], None]:
        """Return a callback that queues its answer instead of delivering it."""

        def queue(answer: A) -> None:
            self._answers.append(lambda: reply(answer))

        return queue

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Change state inside; what was answered leaves when the outermost turn ends."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if not self._depth and not self._is_leaving:
            self._leave()

    def _leave(self) -> None:
        """Deliver some answers; receivers may begin turns, whose answers wait behind these."""
        self._is_leaving = True
        left = TOGETHER
        try:
            while self._answers and (left > 0 or self._later is None):
                self._answers.popleft()()
                left -= 1
        finally:
            self._is_leaving = bool(self._answers) and self._later is not None
            if self._is_leaving and self._later is not None:
                self._later(self._leave)
