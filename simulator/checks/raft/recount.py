"""An independent count of consensus: checks every call into a member's Raft core.

    message, tick, request ─► core ─► log, voters, role, answers ─► equal to a simple count?
                                └───► what it calls durable      ─► on the simulated disk?

`recounted_log` models how a log may change, `recounted_votes` which messages a decision needs. They
are given each call with the state before and after it. The member's disk is checked for the entries
that it calls durable, its term and vote, which never go back, and its directory id. A proposal must
be answered when its own entry was applied.

Properties of several members together (one history, one leader for each term) are checked in
agreed_entries, kept_entries and raft/talk.

Source: Raft paper, figure 2; raft/raft.py (the driver's duties).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.base.ids import PeerId
from penstock.controller.replicated_log import ProposalDone
from penstock.raft.core import Core
from penstock.raft.ids import RaftIndex
from penstock.raft.messages import InstallSnapshot, Message, VoteRequest, VoteResponse
from penstock.raft.raft import Raft
from penstock.raft.ready import NO_PEER, HardState, Ready, Role, Snapshot
from penstock.runtime.raft.raft_log import RaftLog
from simulator.checks.raft.disks import CountedDisk, RaftDisks, ServerDisk, is_unreadable
from simulator.checks.raft.known import applied_index
from simulator.checks.raft.recounted_log import LogCount
from simulator.checks.raft.recounted_votes import VoteCount
from simulator.kernel.process import current_process
from simulator.run.server import Server

Found = Callable[[str], None]


class MemberCount:
    """One member of one process."""

    def __init__(self, raft: Raft, disk: CountedDisk, found: Found) -> None:
        self.raft = raft
        self.core: Core = raft._core  # noqa: SLF001  what it consists of has no other door
        self._disk = disk
        self._found = found
        self._log = LogCount(self.core)
        self._votes = VoteCount(self.core)
        self._role, self._term = raft.role, raft.term
        self.look_at_disk()

    @property
    def _is_leader(self) -> bool:
        return self._role is Role.LEADER

    def _all_found(self, texts: Iterable[str]) -> None:
        for text in texts:
            self._found(f"{self._disk.name} {text}")

    # --- calls ---------------------------------------------------------------------------------

    def step(self, step: Callable[[], None], message: Message) -> None:
        """Take a message."""
        core, votes = self.core, self._votes
        expected, snapshot = self._log.expected(message), core.log.snapshot
        sent = len(core.messages), len(core.messages_persisted)
        was_leader, before = self._is_leader, (self._role, core.term, core.voted_for)
        votes.heard(message, is_leader=was_leader)
        step()
        if isinstance(message, VoteRequest):
            new = [*core.messages[sent[0] :], *core.messages_persisted[sent[1] :]]
            self._all_found(votes.look_at_answers(message, new, is_leader=was_leader))
            if message.is_pre_vote and before[1:] != (core.term, core.voted_for):
                self._found(f"{self._disk.name} goes by what {message.sender} would like to do")
        elif isinstance(message, VoteResponse) and before[1] == core.term:
            self._look_at_given_up(before[0])
        votes.followed(message)
        self._all_found(self._log.look_at_message(message, expected, snapshot))
        self.look()

    def _look_at_given_up(self, role: Role) -> None:
        """A candidate that an answer makes a follower in its term could not have won any more."""
        is_candidate = role in {Role.CANDIDATE, Role.PRE_CANDIDATE}
        if is_candidate and self.raft.role in {Role.FOLLOWER, Role.LEARNER}:
            is_pre_vote = role is Role.PRE_CANDIDATE
            self._all_found(self._votes.look_at_lost(self._log.voters, is_pre_vote=is_pre_vote))

    def tick(self, tick: Callable[[], None]) -> None:
        """Let time pass."""
        before, log = (self._role, self._term), self.core.log
        was_empty = not log.last_index
        tick()
        if was_empty and log.last_index:
            (entry,) = log.entries_from(RaftIndex(1), 0)
            self._all_found(self._votes.look_at_founded(entry, self._term))
        self.look()
        if self._is_leader and before == (self._role, self._term):
            self._all_found(self._votes.look_at_time(self._log.voters))

    def ready(self, ready: Callable[[], Ready | None]) -> Ready | None:
        """Give out work."""
        given = ready()
        self.look()
        if given is not None:
            self._all_found(self._votes.look_at_reads(self._log.voters, given))
            if given.committed and not self._has(last := given.committed[-1].index):
                self._found(f"{self._disk.name} is to apply entry {last}, which is not on its disk")
            for _, message in given.messages:
                if isinstance(message, InstallSnapshot):
                    self._all_found(self._log.look_at_sent(message))
        return given

    def compact(self, compact: Callable[[], Snapshot | None], index: RaftIndex) -> Snapshot | None:
        """Make a snapshot."""
        term = self.core.log.term(index)
        made = compact()
        if made is not None:
            self._all_found(self._log.look_at_compacted(index, term, made))
        return made

    def peer_lost(self, peer_id: PeerId) -> None:
        """Lose a connection."""
        is_led = self._role in {Role.FOLLOWER, Role.LEARNER} and peer_id == self.core.leader_id
        if is_led:
            self._votes.leader_lost()

    def asked(self, question: int) -> None:
        """Ask for a read."""
        self._votes.asked(question)

    def asked_to_add(self, peer_id: PeerId) -> None:
        """Take a voter: those of its log count from the next answer on, before it is sent."""

    def asked_to_remove(self, peer_id: PeerId) -> None:
        """Ask for a voter to be removed."""
        self._log.asked_to_remove(peer_id)

    # --- after each of them --------------------------------------------------------------------

    def look(self) -> None:
        """Look at what a call has made of role, term, log and voters."""
        votes, log, core = self._votes, self._log, self.core
        role, term = self.raft.role, core.term
        was_leader, is_new = self._is_leader, (role, term) != (self._role, self._term)
        begins = is_new and role in {Role.CANDIDATE, Role.PRE_CANDIDATE}
        if term > self._term:
            is_candidate = role is Role.CANDIDATE
            self._all_found(votes.look_at_term(log.voters, is_candidate=is_candidate))
        self._role, self._term = role, term
        if role is Role.LEADER and is_new:
            self._all_found(votes.look_at_leader(log.voters))
        agreed, voters = core.log.commit_index, log.voters
        if was_leader and agreed > log.agreed:
            is_own = self._has(agreed)
            self._all_found(votes.look_at_agreed(voters, agreed, is_own=is_own))
        is_leader = was_leader or role is Role.LEADER
        self._all_found(log.look(is_leader=is_leader, silent=votes.silent))
        if log.voters is not voters:
            votes.voters_changed()
        if begins and not log.has_seat(core.own_id, core.own_directory):
            self._found(f"{self._disk.name} campaigns without a seat in {log.voters}")

    def _has(self, index: RaftIndex) -> bool:
        term = self.core.log.term(index)
        if term is None or self._disk.is_unreadable:
            return True
        return self._disk.has_now(index, term)

    def look_at_disk(self) -> None:
        """What it calls durable is, in the directory that it votes with."""
        log, disk = self.core.log, self._disk
        if disk.is_unreadable:
            return
        is_beyond = log.stable_index > log.last_index
        if log.last_index and (is_beyond or not self._has(log.stable_index)):
            self._found(f"{disk.name} calls entry {log.stable_index} durable, which it is not")
        known = disk.directory_id
        if known != self.core.own_directory or (disk.is_named and not known):
            self._found(
                f"{disk.name} votes with directory {self.core.own_directory!r}, and its disk"
                f" says {known!r}"
            )


class RaftRecount:
    """See the module. One for all controllers of a run."""

    def __init__(self, disks: RaftDisks, servers: Mapping[str, Server], found: Found) -> None:
        self._disks = disks
        self._servers = servers
        self._found = found
        self._members: dict[Raft, MemberCount] = {}
        self._running: dict[str, MemberCount] = {}
        """Host -> the member of its last process."""
        self._on_disk: dict[MemberCount, Server] = {}
        self._states: dict[tuple[str, str], HardState] = {}
        """(host, directory) -> term and vote as they were on the disk."""

    def _member(self, raft: Raft) -> MemberCount:
        found = self._members.get(raft)
        if found is None:  # its first call is made by its own process, as it starts
            server = self._servers[current_process().host]
            found = MemberCount(raft, ServerDisk(server, self._disks), self._found)
            self._members[raft] = self._running[server.name] = found
            self._on_disk[found] = server
        return found

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count every call for as long as this lasts."""
        calls: dict[str, Callable[..., Any]] = {
            "step": lambda member, call, message: member.step(call, message),
            "tick": lambda member, call: member.tick(call),
            "ready": lambda member, call: member.ready(call),
            "compact": lambda member, call, index, *_: member.compact(call, index),
            "advance": lambda member, call, _: self._advance(member, call),
            "peer_lost": _noted(MemberCount.peer_lost),
            "read_index": _noted(MemberCount.asked),
            "add_voter": _noted(MemberCount.asked_to_add),
            "remove_voter": _noted(MemberCount.asked_to_remove),
        }
        before: dict[str, Any] = {name: getattr(Raft, name) for name in calls}
        propose = RaftLog.propose
        for name, count in calls.items():
            setattr(Raft, name, self._counted(before[name], count))
        RaftLog.propose = self._proposed(propose)  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            for name, call in before.items():
                setattr(Raft, name, call)
            RaftLog.propose = propose  # type: ignore[method-assign]

    def _counted(self, call: Callable[..., Any], count: Callable[..., Any]) -> Callable[..., Any]:
        def counted(raft: Raft, *arguments: Any) -> Any:
            if type(raft) is not Raft:  # a copy: whoever made it counts (trials/raft_group.py)
                return call(raft, *arguments)
            return count(self._member(raft), lambda: call(raft, *arguments), *arguments)

        return counted

    def _advance(self, member: MemberCount, advance: Callable[[], None]) -> None:
        advance()
        member.look()
        member.look_at_disk()
        self._look_at_state(member)

    def _look_at_state(self, member: MemberCount) -> None:
        """Term and vote on a disk never go back."""
        server = self._on_disk.get(member)
        if server is None or is_unreadable(server):
            return
        key, now = (server.name, member.core.own_directory), self._disks.state(server)
        before = self._states.get(key, now)
        is_other = before.voted_for not in {now.voted_for, NO_PEER}
        if now.term < before.term or (now.term == before.term and is_other):
            self._found(f"{server.name} has {now} on its disk, where {before} was")
        self._states[key] = now

    # --- proposals -----------------------------------------------------------------------------

    def _proposed(
        self, propose: Callable[[RaftLog, bytes, ProposalDone], None]
    ) -> Callable[[RaftLog, bytes, ProposalDone], None]:
        def proposed(log: RaftLog, payload: bytes, done: ProposalDone) -> None:
            host = current_process().host

            def answered(outcome: Any) -> None:
                if isinstance(outcome, int):
                    self._look_at_applied(host, applied_index(log), payload)
                done(outcome)

            propose(log, payload, answered)

        return proposed

    def _look_at_applied(self, host: str, index: RaftIndex, payload: bytes) -> None:
        if host not in self._running:  # what the world resets is closed in its name
            return
        log = self._running[host].core.log
        if not log.first_index <= index <= log.last_index:
            return
        (entry,) = log.entries_from(index, 0)
        if entry.payload != payload:
            self._found(f"{host} answers a proposal by entry {index}, which is another one")


def _noted(note: Callable[[MemberCount, Any], None]) -> Callable[..., Any]:
    """Return how a call is counted that changes nothing at once: its first argument is noted."""

    def counted(member: MemberCount, call: Callable[[], Any], first: Any, *_: Any) -> Any:
        note(member, first)
        result = call()
        member.look()
        return result

    return counted
