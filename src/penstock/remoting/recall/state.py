"""What is recalled in one replica set, and up to which time deliveries are decided.

Memory follows from the log, record by record; some 250 bytes for each recall until its message can
wait in no level any more.

Source: ours, docs/adr/0165.
"""

from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Final

from penstock.remoting.recall.record import Event, Recalled, Through

RECALLS_MAX: Final = 100_000
"""Of one set."""
RECALL_BYTES: Final = 250


class RecallState:
    """See the module."""

    def __init__(self) -> None:
        self.through_ms = 0
        """Deliveries up to this time are decided."""
        self._through_at: int | None = None
        self._at: dict[Recalled, int] = {}
        """Offsets of their records, in this order."""
        self._by_time: list[Recalled] = []

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, recalled: Recalled) -> bool:
        return recalled in self._at

    def apply(self, event: Event, offset: int) -> None:
        """Note a record of the log."""
        if isinstance(event, Through):
            if event.through_ms >= self.through_ms:
                self.through_ms, self._through_at = event.through_ms, offset
        else:
            if self._at.pop(event, None) is None:
                heappush(self._by_time, event)
            self._at[event] = offset

    def forget(self, before_ms: int) -> None:
        """Forget recalls of messages that were due before a time, and have left all levels."""
        while self._by_time and self._by_time[0].until_ms < before_ms:
            del self._at[heappop(self._by_time)]

    def first(self) -> int | None:
        """Return the offset of the first record that is needed; None if none is."""
        firsts = [*islice(self._at.values(), 1)]
        if self._through_at is not None:
            firsts.append(self._through_at)
        return min(firsts, default=None)

    def before(self, offset: int, most: int) -> list[Event]:
        """Return what has its record before an offset, the first ones."""
        found: list[Event] = []
        if self._through_at is not None and self._through_at < offset:
            found.append(Through(self.through_ms))
        older = takewhile(lambda item: item[1] < offset, islice(self._at.items(), most))
        return [*found, *(one for one, _ in older)]
