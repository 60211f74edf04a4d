"""Changes on their way through the journal: noted when appended, shown when they are confirmed.

    change.begin() ─► journal ─► confirmed ─► change.confirm()   the log's readers would find it too
                                 refused   ─► change.refuse()    the state is what it was
                                 late      ─► the client is told; the change stays under way

An error from the journal means: refused, or of unknown fate. After one of unknown fate (the log
was fenced, another broker became master) the partition is unloaded and loaded again; until then the
state holds only what was confirmed. A write that takes too long is answered and stays under way:
when it is confirmed in the end it counts, since a replay of the log would find it (redpanda#31483:
live state and replay must agree). One sync of a slow disk may confirm thousands of writes: they end
in portions, in the order of their confirmation.

Source: Kafka, CoordinatorRuntime (its deferred events); redpanda#31483.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.coordinator.journal import Journal
from penstock.coordinator.portions import POSITIONS, TO_TELL, Portions, Steps
from penstock.coordinator.records import JournalRecord, records_bytes
from penstock.coordinator.rewrites import RewriteTracker
from penstock.coordinator.unwritten import Unwritten

Told = Callable[[Unwritten | None], None]


class Change(Protocol):
    """What one write does to the state of a shard."""

    @property
    def records(self) -> list[JournalRecord]:
        """What the journal gets: what a loader makes the same state of."""

    def begin(self) -> None:
        """Note that it is under way, behind those that are so already."""

    def confirm(self) -> None:
        """Make it part of the state: it is what a replay of the log would find."""

    def refuse(self) -> None:
        """Forget it: it is not in the log, or the partition is about to be loaded again."""


class Writes:
    """What one coordinator has under way."""

    __slots__ = ("_in_flight_max", "_journal", "_portions", "_rewrites", "in_flight")

    def __init__(
        self,
        journal: Journal,
        rewrites: RewriteTracker,
        portions: Portions,
        *,
        in_flight_max: int,
    ) -> None:
        self._journal = journal
        self._rewrites = rewrites
        self._portions = portions
        self._in_flight_max = in_flight_max
        self.in_flight = 0

    @property
    def is_full(self) -> bool:
        """Whether so much is under way that no write is taken."""
        return self.in_flight >= self._in_flight_max

    def append(self, partition: int, change: Change, told: Told) -> None:
        """Append a change; `told` gets None or a reason, once. It must have records.

        The caller has seen that it is not full.
        """
        records = change.records
        assert records, "a change without records would never be confirmed"
        self.in_flight += 1
        self._rewrites.appended(partition, records_bytes(records))
        change.begin()
        is_told = False

        def ended(reason: Unwritten | None) -> None:
            self._portions.begin(end(reason))

        def end(reason: Unwritten | None) -> Steps:
            nonlocal is_told
            if reason is not Unwritten.LATE:
                self.in_flight -= 1
                if reason is None:
                    change.confirm()
                else:
                    change.refuse()
            if not is_told:
                is_told = True
                told(reason)
            yield TO_TELL + len(records) // POSITIONS

        self._journal.append(partition, records, ended)
