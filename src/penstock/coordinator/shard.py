"""What a kind of coordinator implements: how its records become state, and the reverse.

A shard is all of one kind on one node, such as all consumer groups. Its state is kept by partition
of its internal topic and is shown and hidden all at once. It is what the confirmed records of that
partition say, in their order: loading it again gives the live state. A shard may also have state
that is not in the log, such as parked requests; that ends with the partition.

Long work is a generator of steps (portions.py). Each step is short, and checks again whatever may
have changed since the one before it.

Source: Kafka, CoordinatorShard and CoordinatorLoader.
"""

from collections.abc import Generator, Iterator
from typing import Protocol, TypeVar

from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.writes import Change

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class Loader(Protocol[S_co]):
    """Builds the state of one partition from its records. It is not visible before `show`."""

    def load(self, record: UnreadRecord) -> None:
        """Take the next record, in log order; a value of None is a tombstone.

        Records that it cannot read go to the `UnreadRecords` that it was created with.
        """

    def load_copy(self, record: UnreadRecord) -> None:
        """Take a record that a rewrite has copied: what is pending on its key stays pending."""

    def load_pending(self, writer: Writer, record: UnreadRecord) -> None:
        """Take a record of a transaction: it counts if, and when, that is committed."""

    def load_end(self, writer: Writer, *, is_commit: bool) -> None:
        """Take a marker; its transaction may have nothing here."""

    def leave_in_log(self, reason: str) -> None:
        """Note a batch that cannot be read: it stays in the log."""

    def make(self) -> Generator[int, None, S_co]:
        """Build the state in portions and return it. The caller may stop between two steps."""

    def discard(self) -> Steps:
        """Free what was built so far, in portions."""


class Shard(Protocol[S, K_contra]):
    """A kind of coordinator. `S` is the state of a partition, `K` the key of a deadline."""

    def new_loader(self, partition: int, unread: UnreadRecords) -> Loader[S]:
        """Return a loader for a partition that is being loaded."""

    def show(self, partition: int, state: S) -> None:
        """Answer requests from this state from now on."""

    def begin(self, partition: int, state: S) -> Steps:
        """Start what the shown state needs, such as members' sessions, in portions."""

    def hide(self, partition: int) -> S | None:
        """Stop answering from the partition's state, and return it; None if there was none."""

    def let_go(self, state: S) -> Steps:
        """Answer parked requests of a hidden state and cancel its deadlines, in portions."""

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """Yield the records of a rewrite, some at a time, each list as the journal has it then.

        Changes under way are included. Between two lists other writes may happen.
        """

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        """Return what a marker changes in a shown partition; it has no records.

        The marker was just appended. Its transaction may have nothing here.
        """

    def on_due(self, key: K_contra) -> None:
        """Handle a deadline. What it was set for may be gone."""
