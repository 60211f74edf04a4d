"""Changes on their way through the journal: noted when appended, visible when confirmed.

    change.begin() ─► journal ─► confirmed ─► change.confirm()   a replay of the log gives it too
                                 refused   ─► change.refuse()    the state stays as it was
                                 late      ─► the client is answered; the change stays under way

An error from the journal means refused, or outcome unknown. After an unknown outcome (the log was
fenced, another broker became master) the partition is unloaded and loaded again; until then the
state holds only what was confirmed. A write that takes too long is answered and stays under way: if
it is confirmed in the end, it takes effect, since a replay of the log would find it
(redpanda#31483: live state and replay must agree). One sync of a slow disk may confirm thousands of
writes: they complete in portions, in the order of their confirmation.

Source: Kafka, CoordinatorRuntime (its deferred events); redpanda#31483.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.coordinator.journal import Journal, JournalDone
from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import POSITIONS, TO_TELL, Portions, Steps
from penstock.coordinator.records import JournalRecord, records_bytes
from penstock.coordinator.rewrites import RewriteTracker
from penstock.coordinator.unwritten import Unwritten

MARKER_BYTES = 120
"""About what a marker takes in the log."""

Told = Callable[[Unwritten | None], None]


class Change(Protocol):
    """The change that one write makes to the state of a shard."""

    @property
    def records(self) -> list[JournalRecord]:
        """The records for the journal, from which a loader builds the same state."""

    def begin(self) -> None:
        """Note that it is under way, behind all that already are."""

    def confirm(self) -> None:
        """Apply it to the state, as a replay of the log would."""

    def refuse(self) -> None:
        """Drop it: it is not in the log, or the partition is about to be loaded again."""


class NoChange:
    """What a marker changes where nothing was written in its transaction."""

    records: list[JournalRecord] = []  # noqa: RUF012  never changed

    def begin(self) -> None:
        """As in Change."""

    def confirm(self) -> None:
        """As in Change."""

    def refuse(self) -> None:
        """As in Change."""


class Writes:
    """The writes of one coordinator that are under way."""

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
        """Whether so many writes are under way that no more are accepted."""
        return self.in_flight >= self._in_flight_max

    def append(
        self, partition: int, change: Change, told: Told, writer: Writer | None = None
    ) -> bool:
        """Append a change, which must have records; `told` is called once, with None or a reason.

        The caller has checked `is_full`. With a writer the records are of its transaction. Returns
        whether the journal has taken it: if not, it is refused already, also where `told` follows
        in a later portion. Else a rewrite in between would write what the journal has refused.
        """
        records = change.records
        assert records, "a change without records would never be confirmed"
        self._rewrites.appended(partition, records_bytes(records))
        is_asking, is_taken, begun = True, True, self._begin(change, told)

        def ended(reason: Unwritten | None) -> None:
            nonlocal is_taken
            if is_asking and reason is not None and reason is not Unwritten.LATE:
                is_taken = False
                self.in_flight -= 1
                change.refuse()
                self._portions.begin(_say(told, reason))
            else:
                begun(reason)

        self._journal.append(partition, records, ended, writer)
        is_asking = False
        return is_taken

    def note(self, partition: int, change: Change) -> JournalDone:
        """Begin a change that is in the log already: a marker has made it.

        Returns what is to be called as a journal calls `done`.
        """
        self._rewrites.appended(partition, MARKER_BYTES)
        return self._begin(change, nobody)

    def _begin(self, change: Change, told: Told) -> JournalDone:
        self.in_flight += 1
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
            yield TO_TELL + len(change.records) // POSITIONS

        return ended


def _say(told: Told, reason: Unwritten) -> Steps:
    told(reason)
    yield TO_TELL


def nobody(_: Unwritten | None) -> None:
    """Nobody waits for this: a marker, of which others are told, or what follows by itself."""
