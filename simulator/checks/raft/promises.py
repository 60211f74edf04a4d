"""Checks the guarantees of a Raft group over all members: figure 3 of the paper, and more.

    one leader for each term; one vote of each directory in a term; terms on a disk never fall
    entries with the same index and term are equal, and so are those before them (log matching)
    committed entries never change, are on a majority's disks, and in every later leader's log
    entries are applied in order without gaps, and a snapshot covers exactly the applied ones
    no member states, and no leader assumes, that a disk has what it does not have
    a read sees all entries that were committed when it was requested

Source: Raft paper, figure 3; Raft thesis 6.4; docs/adr/0027 (a directory has a vote, not a peer).
What a single member may do with its messages is checked by recount.py.
"""

from collections.abc import Callable, Iterable, Iterator

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import NO_DIRECTORY, NO_INDEX, NO_TERM, DirectoryId, RaftIndex, Term
from penstock.raft.messages import AppendResponse, Message, VoteRequest, VoteResponse
from penstock.raft.raft import Raft
from penstock.raft.ready import NO_PEER, HardState, Role, Snapshot

Found = Callable[[str], None]
Seat = tuple[PeerId, DirectoryId]
"""(peer id, directory id)."""


class Store:
    """A member's disk: what is durable, and what is only written."""

    is_unreadable = False

    def __init__(self, peer_id: PeerId, directory_id: DirectoryId = NO_DIRECTORY) -> None:
        self.seat: Seat = peer_id, directory_id
        self.name = f"{peer_id}@{directory_id}"
        self.directory_id = directory_id
        self.state = HardState()
        self.cached: HardState | None = None
        """Written without a sync; only what is known to be agreed on may be told so."""
        self.snapshot = Snapshot(configuration=Configuration())
        self.entries: dict[RaftIndex, Entry] = {}
        """By index, those behind the snapshot."""
        self._held: dict[Term, RaftIndex] = {}
        """Term -> the last entry that it held while that was its term."""

    @property
    def last_index(self) -> RaftIndex:
        """The last entry, or the one that the snapshot ends with."""
        return max(self.entries, default=self.snapshot.index)

    def note_written(self) -> None:
        """Note what it holds, each time that it has been written to."""
        term = (self.cached or self.state).term
        self._held[term] = max(self.last_index, self._held.get(term, NO_INDEX))

    def held_in(self, term: Term) -> RaftIndex:
        """Return the last entry that it held while its term was `term`."""
        return self._held.get(term, NO_INDEX)

    @property
    def is_named(self) -> bool:
        """Whether it was begun with a directory id."""
        return bool(self.directory_id)

    @property
    def is_empty(self) -> bool:
        """Whether it has no log."""
        return not self.entries and not self.snapshot.index

    def has_now(self, index: RaftIndex, term: Term) -> bool:
        """Whether the entry, or a snapshot that includes it, is durable."""
        if index <= self.snapshot.index:
            return index < self.snapshot.index or term == self.snapshot.term
        return index in self.entries and self.entries[index].term == term

    def keep(self, snapshot: Snapshot) -> None:
        """Replace entries by the snapshot that includes them."""
        self.snapshot = snapshot
        self.entries = {at: entry for at, entry in self.entries.items() if at > snapshot.index}


def state_at(index: RaftIndex, term: Term) -> bytes:
    """Return what a snapshot up to an entry holds: enough of it for several messages."""
    return f"all up to entry {index} of term {term}; ".encode() * (1 + index % 3)


class RaftPromises:
    """See the module. Every event of the group is reported to it."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._entries: dict[tuple[int, int], tuple[Entry, int | None]] = {}
        """(index, term) -> the entry, and the term of the one before it."""
        self._agreed: dict[RaftIndex, tuple[Term, Term]] = {}
        """Index -> (its term, term of the member that called it agreed on first)."""
        self._leaders: dict[int, Seat] = {}
        self._votes: dict[tuple[Seat, int], int] = {}
        self._asked: dict[int, int] = {}
        self.agreed = NO_INDEX
        """The last entry that any member has committed."""

    # --- what members have ---------------------------------------------------------------------

    def looked(self, raft: Raft, first: int) -> None:
        """Look at a log from `first` on."""
        log = raft._core.log  # noqa: SLF001  what it consists of has no other door
        if log.last_index < max(first, log.first_index):
            return
        for entry in log.entries_from(RaftIndex(max(first, log.first_index)), 1 << 40):
            before = log.term(RaftIndex(entry.index - 1))
            known = self._entries.setdefault((entry.index, entry.term), (entry, before))
            if known[0] != entry or before not in {None, known[1]}:
                self._found(f"entry {entry.index} of term {entry.term} is not the same everywhere")

    def forget_entries(self) -> None:
        """The one disk that had any is lost, and nobody was told: they never were."""
        assert not self.agreed, "what was agreed on is not forgotten"
        self._entries.clear()

    def agrees(self, raft: Raft, before: int, stores: Iterable[Store]) -> None:
        """Look at what a member has come to call agreed on since `before`."""
        log, last = raft._core.log, raft.commit_index  # noqa: SLF001
        for index in map(RaftIndex, range(max(before + 1, log.first_index), last + 1)):
            term = log.term(index)
            if term is None:
                continue
            known = self._agreed.setdefault(index, (term, raft.term))[0]
            if known != term:
                self._found(f"entry {index} is agreed on with term {term}, and with {known}")
        if last > self.agreed:
            self.agreed = last
            if raft.role is Role.LEADER:
                self._found_all(self._too_few(raft, stores))

    def _too_few(self, raft: Raft, stores: Iterable[Store]) -> Iterator[str]:
        """What a leader agrees on is durable with a majority; a disk counts as it was when lost."""
        index, voters = raft.commit_index, raft.configuration
        term = raft.term_at(index)
        having = {store.seat for store in stores if term is None or store.has_now(index, term)}
        seats = {(peer_id, voters.directory_of(peer_id)) for peer_id in voters.voter_ids}
        if 2 * len(having & seats) <= len(seats):
            yield f"entry {index} is agreed on by {sorted(seats)}, and only on {sorted(having)}"

    def leads(self, raft: Raft) -> None:
        """Look at a leader in the moment in which it becomes one."""
        seat, term = (raft._core.own_id, raft.own_directory), raft.term  # noqa: SLF001
        first = self._leaders.setdefault(term, seat)
        if first != seat:
            self._found(f"{seat} leads term {term}, which {first} has led")
        for index, (own, known_in) in self._agreed.items():
            known = raft.term_at(index)
            if known_in < term and index >= raft.first_index and known != own:
                self._found(f"{seat} leads term {term} without entry {index}, which is agreed on")
                return

    def believes(self, raft: Raft, stores: dict[Seat, Store]) -> None:
        """Look at what a leader counts on."""
        for one in raft.progress:
            store = stores.get((one.peer_id, one.directory_id))
            term = raft.term_at(one.match_index)
            is_asked = store is not None and store.state.term <= raft.term and one.match_index
            if store is not None and is_asked and term and not store.has_now(one.match_index, term):
                self._found(f"the leader takes {store.name} to have entry {one.match_index}")

    # --- what they say -------------------------------------------------------------------------

    def says(self, store: Store, to: PeerId, message: Message, *, work_term: Term) -> None:
        """Look at a message that leaves: a crash could not take back what it tells.

        `work_term`: the term that the work has written with which it leaves. A member answers in
        the term in which it was asked. By the time it is sent the leader of a later term may have
        cut the entries: the disk had them then, unless they came and went within one work. That
        misleads nobody, since a leader of the earlier term can agree only on what no later leader
        is without.
        """
        state, term = store.state, message.term
        match message:
            case AppendResponse(is_success=True, match_index=index) if index:
                is_cut_since = term < state.term
                had = store.held_in(term) if is_cut_since else store.last_index
                if index > had and not (is_cut_since and term < work_term):
                    self._found(f"{store.name} says that it has entry {index}, which it has not")
            case VoteRequest(is_pre_vote=False) | VoteResponse(is_granted=True, is_pre_vote=False):
                whom = message.sender if isinstance(message, VoteRequest) else to
                first = self._votes.setdefault((store.seat, term), whom)
                is_durable = state.term > term or (state.term, state.voted_for) == (term, whom)
                if first != whom or not is_durable:
                    self._found(
                        f"{store.name} votes for {whom} in term {term}, after it did for {first};"
                        f" its disk has {state}"
                    )
            case _:
                pass

    def writes(self, store: Store, state: HardState) -> None:
        """Look at a term and a vote that take the place of those on a disk."""
        before = store.state
        is_other = state.term == before.term and before.voted_for not in {NO_PEER, state.voted_for}
        if state.term < before.term or is_other:
            self._found(f"{store.name} writes {state} over {before}")

    # --- what they do with it ------------------------------------------------------------------

    def applies(self, store: Store, before: int, entries: Iterable[Entry]) -> int:
        """Look at entries that are applied behind `before`; return the last one."""
        for entry in entries:
            term = self._agreed.get(entry.index, (entry.term, NO_TERM))[0]
            if entry.index != before + 1 or term != entry.term:
                self._found(
                    f"{store.name} applies entry {entry.index} of term {entry.term} behind"
                    f" {before}, and what is agreed on is of term {term}"
                )
            before = entry.index
        return before

    def installs(self, store: Store, snapshot: Snapshot) -> None:
        """Check a snapshot of another member."""
        if snapshot.data != state_at(snapshot.index, snapshot.term):
            self._found(f"{store.name} installs as state up to {snapshot.index} {snapshot.data!r}")

    def asks(self, question: int) -> None:
        """Note that a read is requested now."""
        self._asked[question] = self.agreed

    def answers(self, store: Store, question: int, index: RaftIndex) -> None:
        """Look at the answer."""
        if index < self._asked[question]:
            self._found(f"{store.name} reads up to {index}, and {self._asked[question]} was agreed")

    def _found_all(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._found(text)
