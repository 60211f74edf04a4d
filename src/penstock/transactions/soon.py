"""What transactions have due at once: done in order, in portions of the loop.

Thousands may be open for too long at once, or hear of their last marker. All of a kind are one
work, so that completions, and answers to others, come between time-outs.

Source: Kafka `TransactionCoordinator.abortTimedOutTransactions`, which ends all of them in one go.
"""

from collections import deque
from collections.abc import Callable, Mapping

from penstock.coordinator.portions import Portions, Steps

Work = Callable[[str], int]
"""Does one thing for a transactional id; returns what it cost, as a step of a portion."""


class Soon:
    """Queues of transactional ids by kind; an id may be in one as often as it was put there."""

    __slots__ = ("_portions", "_queues", "_work")

    def __init__(self, portions: Portions, work: Mapping[str, Work]) -> None:
        self._portions = portions
        self._work = work
        self._queues: dict[str, deque[str]] = {kind: deque() for kind in work}

    def put(self, kind: str, transactional_id: str) -> None:
        """Do the work of this kind once what was put before is done."""
        queue = self._queues[kind]
        queue.append(transactional_id)
        if len(queue) == 1:
            self._portions.begin(self._done(queue, self._work[kind]))

    def _done(self, queue: deque[str], work: Work) -> Steps:
        while queue:
            cost = work(queue[0])
            queue.popleft()
            yield cost
