"""A journal of one partition that confirms, tells late and loses when a test says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.coordinator.journal import JournalDone
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord, UnreadRecord
from penstock.coordinator.unwritten import Unwritten


@dataclass(slots=True, eq=False)
class Batch:
    """Records that were appended together."""

    records: list[UnreadRecord]
    done: JournalDone
    is_confirmed: bool = False
    is_late: bool = False
    writer: Writer | None = None
    is_commit: bool | None = None
    """Of a marker, which has no records."""


class HeldJournal:
    """See the module. The log confirms in its order, as a replicated one does."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.refuses: Unwritten | None = None

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        assert partition == 0
        if self.refuses is not None:
            done(self.refuses)
            return
        batch = Batch([UnreadRecord(*record) for record in records], done, writer=writer)
        self.batches.append(batch)

    def mark(self, writer: Writer, done: JournalDone, *, is_commit: bool) -> None:
        """Append a marker."""
        self.batches.append(Batch([], done, writer=writer, is_commit=is_commit))

    @property
    def under_way(self) -> list[Batch]:
        return [batch for batch in self.batches if not batch.is_confirmed]

    def confirm(self, count: int = 1_000) -> None:
        """Let the oldest batches under way be durable."""
        for batch in self.under_way[:count]:
            batch.is_confirmed = True
            batch.done(None)

    def tell_late(self) -> None:
        """Say of the oldest one under way that it takes long, once."""
        waiting = [one for one in self.under_way if not one.is_late]
        if waiting:
            waiting[0].is_late = True
            waiting[0].done(Unwritten.LATE)

    def lose(self, kept: int) -> list[Batch]:
        """Lose what is under way but for the first `kept`, which the next master confirms.

        Returns what was under way: nobody has been told yet.
        """
        waiting = self.under_way
        for lost in waiting[kept:]:
            self.batches.remove(lost)
        for batch in waiting[:kept]:
            batch.is_confirmed = True
        return waiting

    def log(self, *, with_all: bool = False) -> list[Batch]:
        """Return what is confirmed, or all that is in the log, oldest first."""
        return [batch for batch in self.batches if batch.is_confirmed or with_all]

    def records(self, *, with_all: bool = False) -> Iterator[UnreadRecord]:
        """Yield the records of these."""
        for batch in self.log(with_all=with_all):
            yield from batch.records

    def first_open(self) -> Batch | None:
        """Return the first batch of the transactions that no confirmed marker has ended."""
        open_since: dict[int, Batch] = {}
        for batch in self.batches:
            if batch.writer is None:
                continue
            if batch.is_commit is None:
                open_since.setdefault(batch.writer.producer_id, batch)
            elif batch.is_confirmed:
                open_since.pop(batch.writer.producer_id, None)
        return min(open_since.values(), key=self.batches.index, default=None)

    def cut(self, first: Batch) -> None:
        """Let the log begin with this batch."""
        del self.batches[: self.batches.index(first)]

    def cut_off(self, gone: list[Batch]) -> None:
        """Let the log begin behind these batches, which are its first ones."""
        assert self.batches[: len(gone)] == gone
        del self.batches[: len(gone)]
