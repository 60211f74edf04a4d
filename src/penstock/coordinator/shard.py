"""What a kind of coordinator says of itself: how its records become state, and the other way.

A shard is all of one kind on one node, such as consumer groups. Its state is kept by partition of
its internal topic, comes in and goes all at once, and is what the confirmed records of that
partition say, in their order: loading it anew gives what is live. Beside it a shard may have what
is not in the log, such as who has asked and waits; that ends with the partition.

Long work is a generator of steps (portions.py). Each step is short, and looks anew at whatever may
have changed since the one before it.

Source: Kafka, CoordinatorShard and CoordinatorLoader.
"""

from collections.abc import Generator, Iterator
from typing import Protocol, TypeVar

from penstock.coordinator.portions import Steps
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unread import UnreadRecords

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)


class Loader(Protocol[S_co]):
    """Makes the state of one partition of its records. Nobody sees it before it is shown."""

    def load(self, record: UnreadRecord) -> None:
        """Take the next record, in log order; a value of None is a tombstone.

        What it can not read it gives to the `UnreadRecords` that it was made with.
        """

    def leave_in_log(self, reason: str) -> None:
        """Note a batch whose records count only by what stands elsewhere: it stays in the log."""

    def make(self) -> Generator[int, None, S_co]:
        """Make the state, in portions; returns it. It may be left off between two steps."""

    def discard(self) -> Steps:
        """Let go what was made so far, in portions."""


class Shard(Protocol[S, K_contra]):
    """See the module. `S` is the state of a partition, `K` names a deadline."""

    def new_loader(self, partition: int, unread: UnreadRecords) -> Loader[S]:
        """Return what takes the records of a partition that is being loaded."""

    def show(self, partition: int, state: S) -> None:
        """Answer by this state from now on, all at once."""

    def begin(self, partition: int, state: S) -> Steps:
        """Begin what its shown state owes, such as the sessions of members, in portions."""

    def hide(self, partition: int) -> S | None:
        """Answer by the partition's state no more, all at once; None: there was none."""

    def let_go(self, state: S) -> Steps:
        """Tell whoever waits that this is over, and give up deadlines, in portions."""

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """Yield what a rewrite must write, some at a time, each as the journal has it then.

        Changes under way count. Between two lists anything may happen.
        """

    def on_due(self, key: K_contra) -> None:
        """Do what is due. What the deadline is of may be gone."""
