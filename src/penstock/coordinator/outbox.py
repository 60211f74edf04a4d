"""Answers are sent only when the state change that caused them is complete.

A rebalance answers many members in the middle of its work. If such an answer made a connection
deliver its next request at once, that request would see half a state change. So callbacks given to
the coordinator are wrapped: calling one only queues its answer, and the queue is sent when the
outermost `holding()` block ends. Answers keep the order of the calls.

A rebalance of thousands of members queues thousands of answers at once. `TOGETHER` of them are sent
when the block ends, the rest in later turns of the event loop; newer answers wait behind them.

Source: the run-to-completion rule of etcd-io/raft's Ready (messages leave after the state changed).
"""

from collections import deque
from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
Later = Callable[[Callable[[], None]], object]
"""Runs a callback in a later turn of the event loop."""

TOGETHER = 100
"""Answers sent in one turn of the loop: about a millisecond of encoding and sending."""


class Outbox:
    """Queues answers while state is changed; each one is sent exactly once."""

    __slots__ = ("_answers", "_depth", "_is_leaving", "_later")

    def __init__(self, later: Later | None = None) -> None:
        """Without `later` all answers are sent when the outermost block ends."""
        self._answers: deque[Callable[[], None]] = deque()
        self._depth = 0
        self._is_leaving = False
        """Whether answers are being sent, or a later turn to send them is scheduled."""
        self._later = later

    def wrap(self, reply: Callable[[A], None]) -> Callable[[A], None]:
        """Return a callback that queues its answer instead of delivering it."""

        def queue(answer: A) -> None:
            self._answers.append(lambda: reply(answer))

        return queue

    def holding(self) -> "Outbox":
        """Change state inside; answers are held until the outermost such block ends.

        It is entered for each request, so that it is no generator: such a block took a microsecond.
        """
        return self

    def __enter__(self) -> None:
        """Begin a block."""
        self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End it. What it has queued stays where an error ends it: the next block sends it."""
        self._depth -= 1
        if kind is None and not self._depth and not self._is_leaving:
            self._leave()

    def behind(self, action: Callable[[], None]) -> None:
        """Run `action` in a later turn, behind the answers that this block queues.

        With `later` they are on their way to their clients by then; without it they have been sent.
        """

        def last() -> None:
            if self._later is None:
                action()
            else:
                self._later(action)

        self._answers.append(lambda: self._answers.append(last))

    def _leave(self) -> None:
        """Send some answers; receivers may change state, and those answers queue behind these."""
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
