"""Check: what controllers state in Raft messages is true on their disks when they send it.

    statement                        must hold
    voter: you, or I, have my vote   its disk has the term and the vote, and no other vote of it
    leader: I lead term T            it alone; votes of a majority for it are durable
    leader: committed up to N        entry N is durable on a majority's disks (kept_entries.py)
    member: equal up to entry N      its disk has entry N, and the leader has the same one
    any: this read is up to date     entries committed before the request are known here

Pre-votes are not kept on disk and not checked here.

Source: Raft paper 5.2, 5.3, figure 2; Raft thesis 6.4 (reads).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from penstock.base.ids import ControllerEpoch, PeerId
from penstock.controller.replicated_log import ProposalDone
from penstock.raft.ids import Term
from penstock.raft.messages import AppendEntries, AppendResponse, VoteRequest, VoteResponse
from penstock.runtime.raft.raft_log import RaftLog
from simulator.checks.kept_entries import KeptEntries
from simulator.checks.raft.disks import RaftDisks, is_unreadable, may_hold_anything
from simulator.checks.raft.known import applied_index, term_of, voters_of
from simulator.kernel.process import current_process
from simulator.run.server import Server

Found = Callable[[str], None]


class RaftTalk:
    """See the module. One for all controllers of a run."""

    def __init__(
        self,
        disks: RaftDisks,
        kept: KeptEntries,
        servers: Mapping[str, Server],
        found: Found,
    ) -> None:
        """`servers` by host, as they are whenever something is said."""
        self._disks = disks
        self._kept = kept
        self._servers = servers
        self._found = found
        self._votes: dict[tuple[str, str, int], int] = {}
        """(voter's host, its directory, term) -> candidate."""
        self._leaders: dict[int, str] = {}
        """Term -> leader."""
        self._voters: list[frozenset[int]] = []
        """The last two groups of voters: a change is agreed on by the old one or the new one."""
        self._agreed = 0
        """The last entry that any member has committed."""

    def heard(self, host: str, to: PeerId, message: object) -> None:
        """Look at one message."""
        sender = self._servers[host]
        match message:
            case VoteRequest(is_pre_vote=False):
                self._vote(sender, PeerId(sender.host.process_id), message)
            case VoteResponse(is_granted=True, is_pre_vote=False):
                self._vote(sender, to, message)
            case AppendResponse(is_success=True):
                self._equal(sender, to, message)
            case AppendEntries():
                self._agreed = max(self._agreed, message.commit_index)
                self._leads(sender, message)
                if wrong := self._kept.look(sender, self._servers.values()):
                    self._found(wrong)
            case _:
                pass

    def _vote(self, voter: Server, to: PeerId, message: VoteRequest | VoteResponse) -> None:
        term = message.term
        first = self._votes.setdefault((voter.name, message.directory_id, term), to)
        if first != to:
            self._found(f"{voter.name} votes for {to} in term {term}, after it did for {first}")
        if is_unreadable(voter):
            return
        state = self._disks.state(voter)
        if state.term < term or (state.term == term and state.voted_for != to):
            self._found(f"{voter.name} votes for {to} in term {term}, and has {state} on its disk")

    def _leads(self, leader: Server, message: AppendEntries) -> None:
        term, log = message.term, _log(leader)
        if log is None:
            return
        is_new = term not in self._leaders
        first = self._leaders.setdefault(term, leader.name)
        if first != leader.name:
            self._found(f"{leader.name} leads term {term}, and {first} does")
        voters = voters_of(log)
        if voters and voters not in self._voters[-1:]:
            self._voters = [*self._voters[-1:], voters]
        if not is_new:
            return
        own_id = PeerId(leader.host.process_id)
        holders = {
            controller.host.process_id
            for controller in self._controllers()
            if self._is_for(controller, own_id, term)
        }
        groups = [one for one in (voters, *self._voters) if one]
        if not any(2 * len(holders & some) > len(some) for some in groups):
            self._found(
                f"{leader.name} leads term {term} by durable votes of {sorted(holders)} alone,"
                f" of {sorted(voters)}"
            )

    def _controllers(self) -> Iterable[Server]:
        return (server for server in self._servers.values() if server.host.is_controller)

    def _is_for(self, voter: Server, leader_id: PeerId, term: Term) -> bool:
        if may_hold_anything(voter):
            return True
        state = self._disks.state(voter)
        return state.term > term or (state.term == term and state.voted_for == leader_id)

    def _equal(self, member: Server, to: PeerId, message: AppendResponse) -> None:
        index, log = message.match_index, _log(member)
        if log is None or not index:
            return
        if is_unreadable(member):
            return
        if message.term < term_of(log):
            self._was_equal(member, to, message)
            return
        term = log.term_at(index)
        if term is None:
            return
        if not self._disks.has_now(member, index, term):
            self._found(f"{member.name} tells {to} of entry {index}, which its disk has not")
        leader = next(
            (controller for controller in self._controllers() if controller.host.process_id == to),
            None,
        )
        theirs = None if leader is None else _log(leader)
        if theirs is None or not theirs.leadership.is_leader:
            return
        is_of_that_term = theirs.leadership.term == ControllerEpoch(message.term)
        if is_of_that_term and theirs.term_at(index) not in {None, term}:
            self._found(
                f"{member.name} calls entry {index} equal to that of {to}: terms {term} and"
                f" {theirs.term_at(index)}"
            )

    def _was_equal(self, member: Server, to: PeerId, message: AppendResponse) -> None:
        """An answer to the leader of an earlier term: its log may have been cut since, or be now.

        Until a later term is on its disk, so is what it states.
        """
        is_of_its_term = self._disks.state(member).term <= message.term
        if is_of_its_term and self._disks.last_index(member) < message.match_index:
            self._found(
                f"{member.name} tells {to} of entry {message.match_index} in term {message.term},"
                " which its disk has not"
            )

    # --- reads ---------------------------------------------------------------------------------

    @contextmanager
    def reads(self) -> Iterator[None]:
        """Look at every question whether a controller leads, as long as this lasts."""
        ask = RaftLog.confirm

        def confirm(log: RaftLog, done: ProposalDone) -> None:
            agreed, host = self._agreed, current_process().host

            def answered(outcome: object) -> None:
                known = applied_index(log)
                if isinstance(outcome, int) and known < agreed:
                    self._found(
                        f"{host} answers a read by entry {known}, and {agreed} was agreed on"
                        " before it was asked"
                    )
                done(outcome)  # type: ignore[arg-type]  # what confirm gives it

            ask(log, answered)

        RaftLog.confirm = confirm  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            RaftLog.confirm = ask  # type: ignore[method-assign]


def _log(server: Server) -> RaftLog | None:
    """Return the open Raft log of a controller that runs."""
    node = server.node
    if node is None or not node.plane.is_open or not isinstance(node.plane.log, RaftLog):
        return None
    return node.plane.log
