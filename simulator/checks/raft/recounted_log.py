"""An independent model of one member's Raft log: how each call may change it.

    entries from a leader    appended as in 5.3: a conflict truncates, an equal entry does not; the
                             commit index is the leader's, up to the last entry that is equal here
    a snapshot               replaces the log, with the voters that it carries
    a leader's own entries   appended at the end, of its own term
    anything else            no change, but a leader may commit more

The commit index never falls. The voters are those of the last configuration in the log; a leader
changes one at a time, when the previous change and an entry of its own term are committed.

Source: Raft paper 5.3, 6; Raft thesis 4.1; docs/adr/0027 (a vacant seat). Counted without any of
the core's own rules.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import AppendEntries, InstallSnapshot, Message, configuration_of
from penstock.raft.ready import Snapshot

EVERYTHING_BYTES = 1 << 40

Silent = Callable[[Configuration], frozenset[int]]
"""Tells which voters have not answered lately."""


class Ends(NamedTuple):
    """How a log ends, and how far it is agreed on."""

    last: RaftIndex
    last_term: Term
    agreed: RaftIndex


class LogCount:
    """See the module. The checking methods yield findings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        log = core.log
        self._voters = [(log.snapshot.index, log.snapshot.configuration)]
        """(index, voters from there on), the first one at or below what is agreed on."""
        self._snapshots = {log.snapshot.index: log.snapshot.configuration}
        self._removed: set[PeerId] = set()
        """Peers whose removal an operator has requested."""
        self._note(log.first_index)
        self._ends = self._now()

    @property
    def voters(self) -> Configuration:
        """Those that count."""
        return self._voters[-1][1]

    @property
    def agreed(self) -> RaftIndex:
        """What was agreed on at the last look."""
        return self._ends.agreed

    def has_seat(self, peer_id: PeerId, directory_id: str) -> bool:
        """Whether it votes so by the last voters in the log, or by those that are agreed on."""
        seat = peer_id, directory_id
        return seat in seats_of(self.voters) | seats_of(self._at(self.agreed))

    def _now(self) -> Ends:
        log = self._core.log
        return Ends(log.last_index, log.last_term, log.commit_index)

    def expected(self, message: Message) -> Ends:
        """Return what a message may make of the log, before it is taken; a snapshot says it all."""
        before, known = self._ends, self._core.log.term
        if isinstance(message, InstallSnapshot) and message.term >= self._core.term:
            at, is_news = message.snapshot_index, message.snapshot_index > before.agreed
            is_equal = is_news and known(at) == message.snapshot_term  # it is here already
            return before._replace(agreed=at) if is_equal else before
        if not isinstance(message, AppendEntries) or message.term < self._core.term:
            return before
        previous, entries = message.previous_index, message.entries
        if previous < before.agreed or known(previous) != message.previous_term:
            return before
        reached = RaftIndex(previous + len(entries))
        agreed = max(before.agreed, min(message.commit_index, reached))
        is_cut = any(known(entry.index) not in {None, entry.term} for entry in entries)
        if reached < before.last and not is_cut:
            return before._replace(agreed=agreed)
        return Ends(reached, entries[-1].term if entries else message.previous_term, agreed)

    def look_at_message(
        self, message: Message, expected: Ends, snapshot: Snapshot
    ) -> Iterator[str]:
        """Look after a message; `snapshot` is the one that stood for the beginning before it."""
        if isinstance(message, InstallSnapshot) and self._core.log.snapshot is not snapshot:
            yield from self._look_at_installed(message)
        elif isinstance(message, AppendEntries | InstallSnapshot):
            now = self._now()
            if now != expected:
                yield f"{_text(message)} makes {now} of {self._ends}, and not {expected}"
            self._take(message.entries if isinstance(message, AppendEntries) else ())
            self._ends = now

    def _look_at_installed(self, message: InstallSnapshot) -> Iterator[str]:
        index, before = message.snapshot_index, self._ends
        expected = Ends(index, message.snapshot_term, index)
        if self._now() != expected or index <= before.agreed:
            yield f"a snapshot up to {index} makes {self._now()} of {before}"
        self._voters = [(index, configuration_of(message))]
        self._snapshots[index] = self.voters
        self._ends = self._now()

    def _take(self, entries: tuple[Entry, ...]) -> None:
        """Follow the voters that a leader's entries bring."""
        term = self._core.log.term
        kept = [change for change in self._voters if change[0] <= self._core.log.last_index]
        for entry in entries:
            if term(entry.index) == entry.term:
                kept = [one for one in kept if one[0] != entry.index or one == self._voters[0]]
                if entry.kind is EntryKind.CONFIGURATION and entry.index > kept[0][0]:
                    kept.append((entry.index, Configuration.decode(entry.payload)))
        self._voters = sorted(kept, key=lambda one: one[0])  # a late message repeats an old one

    def look(self, *, is_leader: bool, silent: Silent) -> Iterator[str]:
        """Look after anything; `is_leader` before or after it, `silent`: voters not heard."""
        log, before, now = self._core.log, self._ends, self._now()
        if now.agreed < before.agreed or now.last < before.last:
            yield f"{now} follows {before}"
        if now.agreed > before.agreed and not is_leader:
            yield f"{now} follows {before}, and no leader has said so"
        if now.last > before.last:
            for entry in log.entries_from(RaftIndex(before.last + 1), EVERYTHING_BYTES):
                if entry.term != self._core.term:
                    yield f"its own entry {entry.index} is of term {entry.term}"
                if is_leader and entry.kind is EntryKind.CONFIGURATION:
                    yield from self._look_at_change(entry, silent)
            self._note(RaftIndex(before.last + 1))
        if self._core.configuration != self.voters:
            yield (
                f"voters are {self._core.configuration}, and by the log {self.voters}"
                f" since entry {self._voters[-1][0]}"
            )
        self._ends = now

    def _note(self, first: RaftIndex) -> None:
        log = self._core.log
        if first <= log.last_index:
            self._voters += [
                (entry.index, Configuration.decode(entry.payload))
                for entry in log.entries_from(first, EVERYTHING_BYTES)
                if entry.kind is EntryKind.CONFIGURATION
            ]

    def asked_to_remove(self, peer_id: PeerId) -> None:
        """An operator wants this peer to vote no more."""
        self._removed.add(peer_id)

    def _look_at_change(self, entry: Entry, silent: Silent) -> Iterator[str]:
        since, before = self._voters[-1]
        after = Configuration.decode(entry.payload)
        log = self._core.log
        if since > self.agreed or log.term(self.agreed) != self._core.term:
            yield (
                f"changes the voters by entry {entry.index} of term {self._core.term}: those of"
                f" {since} are in force, agreed is {self.agreed} of term {log.term(self.agreed)}"
            )
        changed = seats_of(before) ^ seats_of(after)
        if len(changed) > 1:
            yield f"changes the voters {sorted(changed)} at once by entry {entry.index}"
        for peer_id, _ in sorted(changed & seats_of(before)):
            is_vacant = peer_id in dict(after.vacant)
            if not is_vacant and peer_id not in self._removed:
                yield f"entry {entry.index} takes the seat of {peer_id}, which nobody asked for"
            if is_vacant and peer_id not in silent(before):
                yield f"entry {entry.index} takes the vote of {peer_id}, which answers"

    def look_at_compacted(
        self, index: RaftIndex, term: Term | None, made: Snapshot
    ) -> Iterator[str]:
        """Look at a snapshot that was made of the entries up to `index`, the last of `term`."""
        voters = self._at(index)
        if (made.index, made.term, made.configuration) != (index, term, voters):
            yield (
                f"the snapshot up to ({index}, {term}) with {voters} is said to be up to"
                f" ({made.index}, {made.term}) with {made.configuration}"
            )
        self._snapshots[index] = voters
        self._voters = [(index, voters), *(change for change in self._voters if change[0] > index)]

    def _at(self, index: RaftIndex) -> Configuration:
        return [some for since, some in self._voters if since <= index][-1]

    def look_at_sent(self, chunk: InstallSnapshot) -> Iterator[str]:
        """Check a part of a snapshot that is sent to another member."""
        voters = self._snapshots.get(chunk.snapshot_index)
        if voters is not None and configuration_of(chunk) != voters:
            yield f"sends the snapshot up to {chunk.snapshot_index} with other voters than {voters}"


def seats_of(configuration: Configuration) -> frozenset[tuple[int, str]]:
    """Return the voters with their directory ids."""
    ids = configuration.voter_ids
    return frozenset((peer_id, configuration.directory_of(peer_id)) for peer_id in ids)


def _text(message: AppendEntries | InstallSnapshot) -> str:
    if isinstance(message, InstallSnapshot):
        return f"a part of a snapshot up to {message.snapshot_index}"
    last = message.previous_index + len(message.entries)
    return f"({message.previous_index}, {last}] of term {message.term}"
