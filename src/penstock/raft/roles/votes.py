"""Answering requests for votes, in any role.

A vote goes to the first candidate of a term whose log is not behind ours. A pre-vote changes
nothing here. While a leader was heard lately (or is this member itself) nobody gets a vote, unless
the leader asked for the election. A member whose directory is not the one that the candidate names
does not vote: it lost the record of its votes, and may have voted already.

Source: Raft paper 5.2 and 5.4.1; Raft thesis 3.10 (transfer), 4.2.3 (disruptive servers), 9.6.
"""

from penstock.base.invariant import invariant
from penstock.raft.core import Core
from penstock.raft.ids import Term
from penstock.raft.messages import VoteRequest, VoteResponse
from penstock.raft.ready import NO_PEER


def is_kept_by_promise(core: Core, request: VoteRequest, *, is_leader: bool) -> bool:
    """Whether to refuse this request at once because a leader was heard lately."""
    if request.is_transfer:
        return False
    return is_leader or core.ticks < core.promised_until_tick


def answer(core: Core, request: VoteRequest, *, is_kept: bool) -> bool:
    """Answer `request`, whose term is not above ours except for a pre-vote.

    Returns whether a vote (not a pre-vote) was given.
    """
    if is_kept or request.term < core.term or _is_for_another(core, request):
        _refuse(core, request)
        return False
    if not _may_vote(core, request):
        _refuse(core, request)
        return False
    if request.is_pre_vote:
        # With the term of the request: ours may be lower, and would look stale to the candidate.
        core.send(request.sender, _response(core, request, term=request.term, is_granted=True))
        return False
    assert request.term == core.term, (request.term, core.term)
    invariant(
        core.voted_for in {NO_PEER, request.sender},
        "a term has one vote",
        term=core.term,
        vote=request.sender,
    )
    core.voted_for = request.sender
    response = _response(core, request, term=core.term, is_granted=True)
    core.send_persisted(request.sender, response)
    return True


def _is_for_another(core: Core, request: VoteRequest) -> bool:
    """Whether the candidate wants the vote of a directory that this member lost (ADR 0027).

    Its own configuration does not matter: it may lack the entry that makes it a voter.
    """
    return request.voter_directory_id != core.own_directory


def _may_vote(core: Core, request: VoteRequest) -> bool:
    is_free = core.voted_for == NO_PEER and core.leader_id == NO_PEER
    is_later_pre_vote = request.is_pre_vote and request.term > core.term
    may = is_later_pre_vote or is_free or core.voted_for == request.sender
    return may and core.log.is_up_to_date(request.last_index, request.last_term)


def _refuse(core: Core, request: VoteRequest) -> None:
    core.send(request.sender, _response(core, request, term=core.term, is_granted=False))


def _response(core: Core, request: VoteRequest, *, term: Term, is_granted: bool) -> VoteResponse:
    return VoteResponse(
        sender=core.own_id,
        term=term,
        is_pre_vote=request.is_pre_vote,
        is_granted=is_granted,
        directory_id=core.own_directory,
    )
