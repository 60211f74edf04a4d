"""Who waits until a transactional id is free for its next transaction.

Not kept over a change of coordinators: who waits has a time-out, and asks again.

Source: our own; Kafka answers CONCURRENT_TRANSACTIONS at once, and clients pause (KAFKA-18654).
"""

from collections.abc import Callable

WAITING_MAX = 1_000
"""Those who wait together: all of them may be told in one turn of the loop."""
Told = Callable[[], None]


class Ends:
    """Whom to tell, by transactional id; each is told once."""

    __slots__ = ("_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, set[Told]] = {}
        self._count = 0

    def wait(self, transactional_id: str, told: Told) -> bool:
        """Call `told` when the id is free; False if too many wait, and nobody is told."""
        if self._count >= WAITING_MAX:
            return False
        self._waiting.setdefault(transactional_id, set()).add(told)
        self._count += 1
        return True

    def give_up(self, transactional_id: str, told: Told) -> None:
        """Do not tell this one any more; without effect if it was told."""
        waiting = self._waiting.get(transactional_id, set())
        if told not in waiting:
            return
        waiting.remove(told)
        self._count -= 1
        if not waiting:
            del self._waiting[transactional_id]

    def tell(self, transactional_id: str) -> None:
        """The id is free."""
        waiting = self._waiting.pop(transactional_id, set())
        self._count -= len(waiting)
        for told in waiting:
            told()

    def __len__(self) -> int:
        return self._count
