"""The journal of a coordinator that is tried on a copy: confirmed when, and in the order, that a
walk says.

    append ─► log ─► (under way) ─► confirmed, perhaps late, perhaps out of order
        └─► refused at once: nothing is in the log
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.coordinator.journal import JournalDone
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import RECORD_OVERHEAD_BYTES, JournalRecord
from penstock.coordinator.unwritten import Unwritten
from simulator.checks.groups.log import Entry, Reading, group_named, read_log


@dataclass(slots=True, eq=False)
class Write:
    """One write. `group`: whose it is; a later one of the same name is another."""

    group: object
    entries: list[Entry]
    done: JournalDone
    is_confirmed: bool = False


class PaperJournal:
    """See the module: a Journal of groups."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.log: list[Entry] = list(entries)
        self.is_prompt = True
        self.refuses: Unwritten | None = None
        self.appended_bytes = 0
        self.writes: list[Write] = []
        """In the order of the log, from the first on that is under way."""
        self.group_of: Callable[[str], object] = str
        """Tells one group of a name from the next."""
        self.last: Write | None = None
        """What was appended last."""
        self._settled = read_log(entries)

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        """As in Journal. All records of one write are of one group; none are of transactions."""
        assert writer is None, writer
        entries = [(record[0] or b"", record[1]) for record in records]
        self.appended_bytes += size_of(entries)
        if self.refuses is not None:
            done(self.refuses)
            return
        self.log += entries
        self.last = write = Write(self.group_of(group_named(entries[0][0])), entries, done)
        self.writes.append(write)
        if self.is_prompt:
            self.confirm(write)

    def confirm(self, write: Write) -> None:
        """Confirm the write; the end of a group is confirmed after everything that it removes."""
        if write.is_confirmed:
            return
        if any(value is None for _, value in write.entries):
            before = self.writes[: self.writes.index(write)]
            for one in [one for one in before if one.group is write.group]:
                if not one.is_confirmed:
                    self._told(one)
        self._told(write)

    def _told(self, write: Write) -> None:
        write.is_confirmed = True
        write.done(None)
        while self.writes and self.writes[0].is_confirmed:
            for entry in self.writes.pop(0).entries:
                self._settled.take(entry)

    @property
    def under_way(self) -> list[Write]:
        """What is not confirmed yet."""
        return [write for write in self.writes if not write.is_confirmed]

    def state(self, *, with_all: bool = False) -> Reading:
        """Return what is confirmed, or with what is under way."""
        return self._with([write for write in self.writes if write.is_confirmed or with_all])

    def _with(self, writes: Sequence[Write]) -> Reading:
        settled = self._settled
        reading = Reading(dict(settled.positions), dict(settled.groups), dict(settled.unknown))
        for write in writes:
            for entry in write.entries:
                reading.take(entry)
        return reading

    def lose_mastership(self, kept: int) -> list[Write]:
        """Forget what is under way but for the first writes, which stay in the log.

        Only what lies behind everything that is confirmed can be lost. Returns who is to hear.
        """
        waiting = self.under_way
        while self.writes and not self.writes[-1].is_confirmed and len(self.writes) > kept:
            lost = self.writes.pop()
            del self.log[len(self.log) - len(lost.entries) :]
        self.writes.clear()
        self._settled = read_log(self.log)
        return waiting

    def add(self, entries: Sequence[Entry]) -> None:
        """Put in what another version has written."""
        assert not self.writes
        self.log += entries
        self._settled = read_log(self.log)

    def cut(self, start: int) -> None:
        """Let the log begin later."""
        assert not self.writes
        del self.log[:start]
        self._settled = read_log(self.log)


def size_of(entries: Sequence[Entry]) -> int:
    """Return about how many bytes these take, as rewrites count them."""
    return sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in entries)
