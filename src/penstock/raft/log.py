"""The log in memory: the entries after the newest snapshot, and which are durable and applied.

    base (forgotten) < first ... applied <= applying ... commit ... last
                             stable <= handed ...                   last

    handed     given to the driver for its disk        stable     durable
    applying   given to the driver for its state       applied    in its state

Everything up to commit is final. Entries are given out for applying only when they are durable
here, so that no applied entry is lost in a restart. A few entries that a snapshot covers stay.

Invariant: applied <= applying <= min(commit, stable); stable <= handed <= last; commit <= last.
Source: Raft paper 5.3 (matching), 5.4.1 (up to date), 7 (compaction).
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

from penstock.base.invariant import invariant
from penstock.raft.entry import Entry
from penstock.raft.errors import CorruptRaftState
from penstock.raft.history import ConfigurationHistory
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import Snapshot


class RaftLog:
    """Indexes are inclusive and count from 1."""

    def __init__(
        self, snapshot: Snapshot, entries: Sequence[Entry], commit_index: RaftIndex
    ) -> None:
        """Start with what is durable. Raises CorruptRaftState if it does not fit together."""
        kept = [entry for entry in entries if entry.index > snapshot.index]
        self.snapshot = snapshot
        self.configurations = ConfigurationHistory(snapshot.index, snapshot.configuration)
        self._base_index = snapshot.index
        self._base_term = snapshot.term
        _check_start(snapshot, kept, commit_index)
        self._entries: list[Entry] = []
        self.append(kept)
        self._handed_index = self.stable_index = self.last_index
        self.commit_index = max(commit_index, snapshot.index)
        self._applying_index = self.applied_index = snapshot.index
        self._writes: deque[RaftIndex] = deque()
        self._snapshot_to_install: Snapshot | None = None

    # -- what it holds

    @property
    def first_index(self) -> RaftIndex:
        """The first entry that is still in memory."""
        return RaftIndex(self._base_index + 1)

    @property
    def last_index(self) -> RaftIndex:
        """The last entry, or the one that the snapshot covers if none follows it."""
        return self._entries[-1].index if self._entries else self._base_index

    @property
    def last_term(self) -> Term:
        """The term of the last entry."""
        return self._entries[-1].term if self._entries else self._base_term

    def term(self, index: RaftIndex) -> Term | None:
        """Return the term at `index`; None if it is forgotten or does not exist yet."""
        if index == self._base_index:
            return self._base_term
        if self.first_index <= index <= self.last_index:
            return self._entries[index - self.first_index].term
        return None

    def is_up_to_date(self, last_index: RaftIndex, last_term: Term) -> bool:
        """Whether a log that ends like this is at least as good as ours. Source: 5.4.1."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def last_not_after(self, index: RaftIndex, term: Term) -> RaftIndex:
        """Return the highest index up to `index` whose term is not above `term`.

        A log that has `term` at `index` cannot be equal to this one beyond it. Source: 5.3.
        """
        last: int = min(index, self.last_index)
        while last > self._base_index and self._entries[last - self.first_index].term > term:
            last -= 1
        return RaftIndex(max(last, 0))

    def entries_from(self, index: RaftIndex, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `index` on, at least one if there is one, up to `bytes_max`."""
        assert index >= self.first_index, (index, self.first_index)
        chosen: list[Entry] = []
        size = 0
        for position in range(index - self.first_index, len(self._entries)):
            entry = self._entries[position]
            size += entry.bytes_count
            if chosen and size > bytes_max:
                break
            chosen.append(entry)
        return tuple(chosen)

    def bytes_between(self, after_index: RaftIndex, last_index: RaftIndex) -> int:
        """Return the bytes of the entries after `after_index` up to `last_index` (inclusive)."""
        first = max(after_index + 1, self.first_index) - self.first_index
        return sum(e.bytes_count for e in self._entries[first : last_index - self._base_index])

    # -- changes

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries, which continue the log without a gap."""
        for entry in entries:
            assert entry.index == self.last_index + 1, (entry.index, self.last_index)
            self._entries.append(entry)
            self.configurations.note(entry)

    def merge(self, entries: Sequence[Entry]) -> None:
        """Take a leader's entries: equal ones stay, from the first conflict on ours are cut."""
        for position, entry in enumerate(entries):
            known = self.term(entry.index)
            if known == entry.term or entry.index <= self._base_index:
                continue
            if known is not None:
                self._truncate(RaftIndex(entry.index - 1))
            self.append(entries[position:])
            return

    def _truncate(self, last_index: RaftIndex) -> None:
        invariant(
            last_index >= self.commit_index,
            "a committed entry would be truncated",
            last_index=last_index,
            commit_index=self.commit_index,
        )
        del self._entries[last_index - self._base_index :]
        self.configurations.truncate(last_index)
        self._forget_writes_after(last_index)

    def _forget_writes_after(self, last_index: RaftIndex) -> None:
        # A write under way does not make the entries durable that replace its own meanwhile.
        self._writes = deque(min(written, last_index) for written in self._writes)
        self._handed_index = min(self._handed_index, last_index)
        self.stable_index = min(self.stable_index, last_index)

    def commit_to(self, index: RaftIndex) -> bool:
        """Note that everything up to `index` is final; return whether the commit index moved."""
        if index <= self.commit_index:
            return False
        invariant(index <= self.last_index, "committed beyond the log", index=index)
        self.commit_index = index
        return True

    def install(self, snapshot: Snapshot) -> None:
        """Replace the whole log by `snapshot`, which is newer than everything committed here."""
        assert snapshot.index > self.commit_index, (snapshot.index, self.commit_index)
        self._forget_writes_after(self.commit_index)
        self._entries.clear()
        self._base_index, self._base_term = snapshot.index, snapshot.term
        self.configurations = ConfigurationHistory(snapshot.index, snapshot.configuration)
        self.snapshot = self._snapshot_to_install = snapshot
        self.commit_index = snapshot.index

    def compact(self, snapshot: Snapshot, keep_bytes: int) -> None:
        """Replace entries by `snapshot`, whose index is applied; keep `keep_bytes` of the last."""
        assert self.snapshot.index < snapshot.index <= self.applied_index, snapshot.index
        self.snapshot = snapshot
        last: int = snapshot.index
        while last > self._base_index:
            keep_bytes -= self._entries[last - self.first_index].bytes_count
            if keep_bytes < 0:
                break
            last -= 1
        last_dropped = RaftIndex(last)
        base_term = self.term(last_dropped)
        assert base_term is not None
        del self._entries[: last_dropped - self._base_index]
        self._base_index, self._base_term = last_dropped, base_term
        self.configurations.compact(last_dropped)

    # -- giving out work

    def take_snapshot(self) -> Snapshot | None:
        """Return a snapshot that the driver must install, once."""
        snapshot, self._snapshot_to_install = self._snapshot_to_install, None
        if snapshot is not None:
            self._handed_index = self._applying_index = snapshot.index
        return snapshot

    def take_unwritten(self) -> tuple[Entry, ...]:
        """Return the entries that the driver must write, once."""
        entries = tuple(self._entries[self._handed_index - self._base_index :])
        self._handed_index = self.last_index
        return entries

    def note_write_begun(self) -> None:
        """Note that everything handed out goes to the disk as one write."""
        self._writes.append(self._handed_index)

    def note_write_done(self) -> None:
        """Note that the oldest write under way is durable."""
        self.stable_index = max(self.stable_index, self._writes.popleft())

    def take_committed(self, bytes_max: int) -> tuple[Entry, ...]:
        """Return committed and durable entries that the driver must apply, once."""
        last = min(self.commit_index, self.stable_index)
        if last <= self._applying_index:
            return ()
        entries = self.entries_from(RaftIndex(self._applying_index + 1), bytes_max)
        entries = entries[: last - self._applying_index]
        self._applying_index = entries[-1].index
        return entries

    def note_applied(self, index: RaftIndex) -> None:
        """Note that the driver's state machine has everything up to `index`."""
        invariant(index <= self._applying_index, "applied what was not given out", index=index)
        self.applied_index = max(self.applied_index, index)


def _check_start(snapshot: Snapshot, entries: Sequence[Entry], commit_index: RaftIndex) -> None:
    terms = [snapshot.term, *(entry.term for entry in entries)]
    indexes = [snapshot.index, *(entry.index for entry in entries)]
    if any(after != before + 1 for before, after in pairwise(indexes)):
        raise CorruptRaftState(f"entries behind the snapshot at {snapshot.index} have a gap")
    if any(after < before for before, after in pairwise(terms)):
        raise CorruptRaftState("terms of the entries go down")
    if commit_index > indexes[-1]:
        raise CorruptRaftState(
            f"entry {commit_index} was committed, but the log ends at {indexes[-1]}: the disk lost"
            " what it had confirmed; remove this member from the group and add it again"
        )
