"""The configurations that the log holds, each with the index from which it is in force.

A configuration is in force as soon as its entry is in the log, committed or not; when the entry is
truncated, the one before it is in force again.

Source: Raft paper 6, Raft thesis 4.1.
"""

from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex


class ConfigurationHistory:
    """Never empty: the first one comes from the snapshot or from the first start."""

    def __init__(self, index: RaftIndex, configuration: Configuration) -> None:
        self._known = [(index, configuration)]

    @property
    def latest(self) -> Configuration:
        """The configuration in force."""
        return self._known[-1][1]

    @property
    def latest_index(self) -> RaftIndex:
        """Index of the entry that holds the latest configuration."""
        return self._known[-1][0]

    def at(self, index: RaftIndex) -> Configuration:
        """Return the configuration that was in force at `index`, not older than the oldest."""
        return next((c for since, c in reversed(self._known) if since <= index), self._known[0][1])

    def note(self, entry: Entry) -> None:
        """Take over an appended entry if it holds a configuration."""
        if entry.kind is EntryKind.CONFIGURATION:
            assert entry.index > self.latest_index, (entry.index, self.latest_index)
            self._known.append((entry.index, Configuration.decode(entry.payload)))

    def truncate(self, last_index: RaftIndex) -> None:
        """Forget what came after `last_index`, which is kept."""
        while len(self._known) > 1 and self.latest_index > last_index:
            self._known.pop()

    def compact(self, index: RaftIndex) -> None:
        """Forget what was replaced before or at `index`."""
        while len(self._known) > 1 and self._known[1][0] <= index:
            self._known.pop(0)
