"""What every message goes through before a role sees it: terms, votes, hellos.

A message of a later term makes any member a follower, one of an earlier term is dropped. Exceptions
are messages that must not disturb a leader (pre-votes, vote requests while a leader is heard) and
those without a term of their own (a learner's hello). A term too high to come from elections is
refused.

Source: Raft paper 5.1; Raft thesis 4.2.3, 9.6; etcd's raft for answering an old leader.
"""

from penstock.base.invariant import invariant
from penstock.raft.core import Core
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import NO_INDEX, NO_TERM
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    LearnerHello,
    LearnerWelcome,
    Message,
    VoteRequest,
    VoteResponse,
    configuration_of,
)
from penstock.raft.ready import NO_PEER
from penstock.raft.roles import votes
from penstock.raft.roles.current import Roles
from penstock.raft.roles.follower import Follower
from penstock.raft.roles.leader import Leader

TERMS_AHEAD_MAX = 1 << 28
"""A term further above the current one is invalid: it would take eight years with an election each
second. All members would keep a garbled term on disk, and the next one may overflow its field."""


def take(core: Core, roles: Roles, message: Message) -> None:
    """Take a message. Raises InvalidMessage if no correct peer can have sent it."""
    if message.sender == core.own_id:
        raise InvalidMessage(f"peer {message.sender} has our own id: every member needs its own")
    if not 0 <= message.term <= core.term + TERMS_AHEAD_MAX:
        raise InvalidMessage(
            f"peer {message.sender} is in term {message.term}, this member in {core.term}"
        )
    if isinstance(message, VoteRequest):
        _take_vote_request(core, roles, message)
        return
    if message.term > core.term:
        _take_later_term(roles, message)
    elif message.term < core.term:
        if _is_too_old(core, message):
            return
    elif isinstance(message, AppendEntries | InstallSnapshot):
        _meet_leader(core, roles, message)
    match message:
        case LearnerHello():
            _take_hello(core, roles, message)
        case LearnerWelcome():
            _take_welcome(core, message)
        case _:
            roles.current.step(message)


def _take_vote_request(core: Core, roles: Roles, request: VoteRequest) -> None:
    is_leader = isinstance(roles.current, Leader)
    is_kept = votes.is_kept_by_promise(core, request, is_leader=is_leader)
    if isinstance(roles.current, Leader):
        roles.current.on_non_voter(request)
    elif not core.configuration.is_voter(request.sender, request.directory_id):
        # It was removed and does not know it: tell it which member has the rest of the log.
        core.send(request.sender, _welcome(core))
    if request.term > core.term and not is_kept and not request.is_pre_vote:
        roles.follow(request.term, NO_PEER)
    has_voted = votes.answer(core, request, is_kept=is_kept)
    if has_voted and isinstance(roles.current, Follower):
        roles.current.voted()


def _take_later_term(roles: Roles, message: Message) -> None:
    if isinstance(message, VoteResponse) and message.is_pre_vote and message.is_granted:
        return  # It has the term that we asked about; no member is in that term yet.
    from_leader = isinstance(message, AppendEntries | InstallSnapshot)
    roles.follow(message.term, message.sender if from_leader else NO_PEER)


def _is_too_old(core: Core, message: Message) -> bool:
    if isinstance(message, AppendEntries | InstallSnapshot):
        # Without an answer, a leader that needs us for its majority would never learn of the later
        # term, and we, who must not disturb it by votes, would never get entries.
        core.send(message.sender, _later_term(core))
    return not isinstance(message, LearnerHello | LearnerWelcome)


def _later_term(core: Core) -> AppendResponse:
    return AppendResponse(
        sender=core.own_id,
        term=core.term,
        round=0,
        is_success=False,
        match_index=NO_INDEX,
        rejected_index=NO_INDEX,
        hint_index=NO_INDEX,
        hint_term=NO_TERM,
        directory_id=core.own_directory,
    )


def _meet_leader(core: Core, roles: Roles, message: AppendEntries | InstallSnapshot) -> None:
    is_leader = isinstance(roles.current, Leader)
    if is_leader and message.sender not in core.configuration.voter_ids:
        raise InvalidMessage(f"peer {message.sender} is no voter but claims to lead")
    invariant(
        not isinstance(roles.current, Leader),
        "two leaders in one term",
        term=core.term,
        other=message.sender,
    )
    if not isinstance(roles.current, Follower):
        roles.follow(core.term, message.sender)


def _take_hello(core: Core, roles: Roles, hello: LearnerHello) -> None:
    if isinstance(roles.current, Leader):
        roles.current.on_non_voter(hello)
    elif not core.configuration.is_voter(hello.sender, hello.directory_id):
        core.learners.note(hello.sender, core.ticks, hello.directory_id)
    core.founding.note_hello(hello)
    core.send(hello.sender, _welcome(core))


def _welcome(core: Core) -> LearnerWelcome:
    return LearnerWelcome(
        sender=core.own_id,
        term=core.term,
        leader_id=core.leader_id,
        voters=core.configuration.voters,
        directories=core.configuration.directories,
    )


def _take_welcome(core: Core, welcome: LearnerWelcome) -> None:
    if not welcome.voters:
        return  # the sender knows no group either
    core.founding.give_up()
    core.hearsay_voters = welcome.voters
    if welcome.term != core.term or core.leader_id != NO_PEER:
        return
    is_voter = configuration_of(welcome).is_voter(core.own_id, core.own_directory)
    if welcome.leader_id in {NO_PEER, core.own_id} or is_voter:
        return
    core.leader_id = welcome.leader_id
    core.say_hello(welcome.leader_id)
