"""An independent count of the votes, answers and signs of life that one member has received.

    begins a term          with pre-votes of a majority, or if the leader has asked it to
    gives up a candidacy   when too few voters are left that have not refused
    leads a term           with votes of a majority
    founds a group         in a new term, with answers of all first voters
    gives a vote           to nobody while it hears a leader, unless that leader asked for it
    stays leader           while a majority answers
    commits an entry       of its own term that a majority has reported to have, itself on its disk
    answers a read         when a majority has answered a message that was sent after the request

An answer counts if its directory has a vote in the configuration in force.

Source: Raft paper 5.2, 5.4.2; Raft thesis 4.2.3, 6.2, 6.4, 9.6; docs/adr/0027. Counted from the
messages that were delivered, without any of the core's own rules.
"""

from collections.abc import Iterable, Iterator
from itertools import count

from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    LearnerHello,
    Message,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.ready import Outgoing, Ready
from simulator.checks.raft.recounted_log import seats_of

LATE_TICKS = 2
"""Largest time between a sign of life and the tick that uses it."""

Seat = tuple[int, str]
"""(peer id, directory id)."""

_ANSWERS = AppendResponse | SnapshotResponse | VoteRequest | LearnerHello


class VoteCount:
    """See the module. The checking methods yield findings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._led_tick: int | None = None
        """When a leader was heard last; None where that binds no more."""
        self._granted: dict[tuple[int, bool], set[Seat]] = {}
        """(term, whether it is a pre-vote) -> voters that have granted it."""
        self._refused: dict[tuple[int, bool], set[Seat]] = {}
        """(term, whether it is a pre-vote) -> voters that have refused it."""
        self._new: dict[int, int] = {}
        """Peer -> tick at which it said last that it has no log and knows no group."""
        self._is_asked = False
        """Whether the leader has just asked it to campaign."""
        self._alive: dict[Seat, int] = {}
        """Tick of the last sign of life."""
        self._answered: dict[Seat, int] = {}
        """Tick of the last answer to entries."""
        self._since_tick = 0
        """When its leadership began, or its voters changed."""
        self._leads_since_tick = 0
        self._held: dict[Seat, int] = {}
        """Up to which entry, as was said in this leadership."""
        self._rounds: dict[Seat, int] = {}
        """The newest round that was answered in this leadership."""
        self._begun: dict[int, int] = {}
        """Round -> moment at which it was sent first."""
        self._asked: dict[int, int] = {}
        """Read request -> time of the request."""
        self._moments = count()

    # --- what comes in -------------------------------------------------------------------------

    def heard(self, message: Message, *, is_leader: bool) -> None:
        """Note a message before it is taken."""
        if isinstance(message, _ANSWERS):
            self._alive[message.sender, message.directory_id] = self._core.ticks
        match message:
            case VoteResponse(is_granted=True):
                seats = self._granted.setdefault((message.term, message.is_pre_vote), set())
                seats.add((message.sender, message.directory_id))
            case VoteResponse(is_granted=False):
                seats = self._refused.setdefault((message.term, message.is_pre_vote), set())
                seats.add((message.sender, message.directory_id))
            case LearnerHello(is_new=True):
                self._new[message.sender] = self._core.ticks
            case TimeoutNow():
                self._is_asked = message.term >= self._core.term
            case AppendResponse() if is_leader and message.term == self._core.term:
                seat = message.sender, message.directory_id
                self._answered[seat] = self._core.ticks
                self._rounds[seat] = max(message.round, self._rounds.get(seat, 0))
                if message.is_success:
                    self._held[seat] = max(message.match_index, self._held.get(seat, 0))
            case _:
                pass

    def followed(self, message: Message) -> None:
        """Note, after it was taken, that a message came from the leader of the term."""
        is_led = isinstance(message, AppendEntries | InstallSnapshot)
        if is_led and message.term == self._core.term:
            self._led_tick = self._core.ticks

    def leader_lost(self) -> None:
        """Its connection is gone: what was promised to it is void."""
        self._led_tick = None

    # --- votes ---------------------------------------------------------------------------------

    def look_at_answers(
        self, request: VoteRequest, sent: Iterable[Outgoing], *, is_leader: bool
    ) -> Iterator[str]:
        """Check an answer to a candidate."""
        given = [one.message for one in sent if isinstance(one.message, VoteResponse)]
        if request.is_transfer or not any(one.is_granted for one in given):
            return
        heard = None if self._led_tick is None else self._core.ticks - self._led_tick
        if is_leader or (heard is not None and heard < self._core.config.election_ticks_min):
            yield (
                f"gives {request.sender} its vote in term {request.term},"
                f" {'leading' if is_leader else f'{heard} ticks after it heard its leader'}"
            )

    def look_at_term(self, voters: Configuration, *, is_candidate: bool) -> Iterator[str]:
        """Look at a term that has begun here."""
        is_asked, self._is_asked = self._is_asked, False
        if is_candidate and not is_asked:
            yield from self._look_at_votes(voters, "stands in", is_pre_vote=True)

    def look_at_lost(self, voters: Configuration, *, is_pre_vote: bool) -> Iterator[str]:
        """Look at a candidacy that is given up because of an answer."""
        seats, term = seats_of(voters), self._core.term
        refused = self._refused.get((term, is_pre_vote), set())
        if 2 * len(seats - refused) > len(seats):
            yield f"gives up term {term}, and only {sorted(refused)} of {voters} have refused"

    def look_at_founded(self, entry: Entry, before: int) -> Iterator[str]:
        """Look at the first entry of a group that is founded here; `before`: the term until then.

        Somebody may have been elected in any term that was heard of; nobody in a new one.
        """
        oldest = self._core.ticks - self._core.config.election_ticks_max
        others = Configuration.decode(entry.payload).voter_ids
        stale = [p for p in others if p != self._core.own_id and self._new.get(p, -1) < oldest]
        if stale:
            yield f"founds a group, and {stale} have not said lately that they are new"
        if entry.term <= before:
            yield f"founds a group in term {entry.term}, which is none of its own"

    def look_at_leader(self, voters: Configuration) -> Iterator[str]:
        """Look at a leadership that begins here."""
        self._since_tick = self._leads_since_tick = self._core.ticks
        for known in (self._held, self._rounds, self._begun, self._asked, self._answered):
            known.clear()
        yield from self._look_at_votes(voters, "leads", is_pre_vote=False)

    def _look_at_votes(
        self, voters: Configuration, does: str, *, is_pre_vote: bool
    ) -> Iterator[str]:
        term = self._core.term
        granted = self._granted.get((term, is_pre_vote), set()) | {self._own}
        if not _is_majority(voters, granted):
            in_advance = " in advance" if is_pre_vote else ""
            yield (
                f"{does} term {term} with votes{in_advance} of {sorted(granted)} alone, of {voters}"
            )

    @property
    def _own(self) -> Seat:
        return self._core.own_id, self._core.own_directory

    # --- leading -------------------------------------------------------------------------------

    def voters_changed(self) -> None:
        """New voters have a while to answer."""
        self._since_tick = self._core.ticks

    def look_at_time(self, voters: Configuration) -> Iterator[str]:
        """Look at a leader that leads on after a tick."""
        oldest = self._core.ticks - self._core.config.election_ticks_max - LATE_TICKS
        alive = {seat for seat, tick in self._alive.items() if tick >= oldest} | {self._own}
        if self._since_tick < oldest and not _is_majority(voters, alive):
            yield f"leads term {self._core.term} on, and only {sorted(alive)} of {voters} answer"

    def silent(self, voters: Configuration) -> frozenset[int]:
        """Return the voters whose directory has not answered for an election."""
        patience, now = self._core.config.election_ticks_max, self._core.ticks
        return frozenset(
            seat[0]
            for seat in seats_of(voters)
            if now - self._answered.get(seat, self._leads_since_tick) >= patience
        )

    def look_at_agreed(
        self, voters: Configuration, index: RaftIndex, *, is_own: bool
    ) -> Iterator[str]:
        """Look at what a leader agrees on; `is_own`: its disk has it."""
        term = self._core.log.term(index)
        holders = {seat for seat, held in self._held.items() if held >= index}
        holders |= {self._own} if is_own else set()
        if term not in {None, self._core.term} or not _is_majority(voters, holders):
            yield (
                f"agrees on entry {index} of term {term} in term {self._core.term}, which"
                f" {sorted(holders)} of {voters} hold"
            )

    # --- reads ---------------------------------------------------------------------------------

    def asked(self, question: int) -> None:
        """Note a question of a read."""
        self._asked[question] = next(self._moments)

    def look_at_reads(self, voters: Configuration, ready: Ready) -> Iterator[str]:
        """Look at what a leader answers, and note the rounds that it begins."""
        moment, term = next(self._moments), self._core.term
        for read in ready.reads:
            asked = self._asked.pop(read.context, -1)
            seats = {s for s, one in self._rounds.items() if self._begun.get(one, -1) > asked}
            is_sure = self._core.log.term(read.read_index) in {None, term}
            if not is_sure or not _is_majority(voters, seats | {self._own}):
                yield (
                    f"answers a read by entry {read.read_index} in term {term}, and only"
                    f" {sorted(seats)} of {voters} have said since it was asked that it leads"
                )
        for _, message in ready.messages:
            if isinstance(message, AppendEntries) and message.term == term:
                self._begun.setdefault(message.round, moment)


def _is_majority(voters: Configuration, some: Iterable[Seat]) -> bool:
    seats = seats_of(voters)
    return 2 * len(seats.intersection(some)) > len(seats)
