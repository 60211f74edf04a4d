"""Who waits until a transactional id is free for its next transaction.

Who waits is told as well when the last change was refused, or the id has another coordinator now:
who is told asks again. All have a time-out.

Source: our own; Kafka answers CONCURRENT_TRANSACTIONS at once, and clients pause (KAFKA-18654).
"""

from collections.abc import Callable

WAITING_MAX = 1_000
"""Those who wait together: all of them may be told in one turn of the loop."""
CALLS_MAX = 32
"""Those of them that are questions of other brokers: each keeps one of 64 places of a link until it
is answered, and the marker that it waits for may be behind it. The rest ask again later."""
Told = Callable[[], None]


class Ends:
    """Whom to tell, by transactional id; each is told once."""

    __slots__ = ("_calls", "_count", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Told, bool]] = {}
        """By id: who waits, and whether it is a call of a broker."""
        self._count = 0
        self._calls = 0

    def wait(self, transactional_id: str, told: Told, *, is_call: bool = False) -> bool:
        """Call `told` when the id is free; False if too many wait, and nobody is told."""
        if self._count >= WAITING_MAX or (is_call and self._calls >= CALLS_MAX):
            return False
        self._waiting.setdefault(transactional_id, {})[told] = is_call
        self._count += 1
        self._calls += is_call
        return True

    def give_up(self, transactional_id: str, told: Told) -> None:
        """Do not tell this one any more; without effect if it was told."""
        waiting = self._waiting.get(transactional_id, {})
        if told not in waiting:
            return
        self._calls -= waiting.pop(told)
        self._count -= 1
        if not waiting:
            del self._waiting[transactional_id]

    def tell(self, transactional_id: str) -> None:
        """The id is free, or it is time to ask again."""
        waiting = self._waiting.pop(transactional_id, {})
        self._count -= len(waiting)
        self._calls -= sum(waiting.values())
        for told in waiting:
            told()

    def __len__(self) -> int:
        return self._count
