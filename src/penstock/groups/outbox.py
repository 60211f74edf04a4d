"""Answers leave when the state that caused them is complete.

A rebalance answers many members in the middle of its work. If such an answer made a connection
hand in the next request at once, that request would see half a state change. So callbacks given to
the coordinator are wrapped: calling one only queues its answer, and the queue is emptied when the
outermost turn of the coordinator ends. The order of answers is the order of the calls.

Source: the run-to-completion rule of etcd-io/raft's Ready (messages leave after the state changed).
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

A = TypeVar("A")


class Outbox:
    """Queues answers while a turn lasts; each one leaves exactly once."""

    __slots__ = ("_answers", "_depth")

    def __init__(self) -> None:
        self._answers: deque[Callable[[], None]] = deque()
        self._depth = 0

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
        while not self._depth and self._answers:
            self._answers.popleft()()
