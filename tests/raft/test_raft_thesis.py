"""Claims of the Raft thesis beyond the paper, and our own on closed connections and bounds."""

from dataclasses import replace

import pytest

from penstock.base.ids import PeerId
from penstock.raft.core import HURRIED_CAMPAIGNS_MAX
from penstock.raft.entry import EntryKind
from penstock.raft.errors import (
    InvalidMessage,
    ProposalDropped,
    ProposalQueueFull,
    ProposalTooLarge,
    ReadRefused,
    TransferRefused,
)
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.messages import AppendEntries, Message, TimeoutNow, VoteRequest, VoteResponse
from penstock.raft.ready import NO_PEER, HardState, Role
from penstock.raft.roles.progress import Progress
from tests.raft.group import CONFIG, Group, Member, led
from tests.raft.single import Single, append, entries, entry, granted, success, vote_request

# -- disks that are slow


def test_a_vote_of_an_earlier_term_that_becomes_durable_late_is_none_in_this_term() -> None:
    """Raft 5.2: the disk is slow, and the member is a candidate again meanwhile."""
    single = Single(term=1).tick(CONFIG.election_ticks_min)
    single.raft.step(granted(2, 2, is_pre_vote=True))
    readies = [single.raft.ready()]
    single.raft.step(vote_request(3, 3, (9, 9)))
    readies.append(single.raft.ready())
    while single.raft.role is Role.FOLLOWER:
        single.raft.tick()
    single.raft.step(granted(2, 4, is_pre_vote=True))
    readies.append(single.raft.ready())
    assert [ready and ready.hard_state for ready in readies] == [
        HardState(term=Term(2), voted_for=PeerId(1)),
        HardState(term=Term(3), voted_for=PeerId(3)),
        HardState(term=Term(4), voted_for=PeerId(1)),
    ]
    single.raft.step(granted(2, 4))
    for ready in readies:
        assert single.raft.role is Role.CANDIDATE
        assert ready is not None
        single.raft.advance(ready)
    assert single.raft.role is Role.LEADER


# -- 3.10 leadership transfer


def test_a_transfer_makes_the_named_voter_the_next_leader_within_no_tick() -> None:
    """Thesis 3.10."""
    group = led(1, 2, 3)
    group[1].transfer(PeerId(3))
    group.settle()
    assert (group[3].role, group[3].term) == (Role.LEADER, 2)
    assert group.members[3].leaderships[-1].is_leader


def test_a_transfer_first_brings_the_successor_level() -> None:
    """Thesis 3.10."""
    group = led(1, 2, 3)
    group.isolate(3)
    group.propose(b"x")
    group[1].transfer(PeerId(3))
    group.settle()
    assert group[1].role is Role.LEADER
    group.heal()
    group.tick(CONFIG.heartbeat_ticks)
    assert group[3].role is Role.LEADER
    assert group.members[3].applied == [b"x"]


def test_a_successor_that_did_not_hear_is_asked_again_by_the_next_transfer() -> None:
    """Thesis 3.10."""
    single = Single(terms=[1]).elected()
    single.acknowledge(2, 2)
    asked = []
    for _ in range(2):
        single.raft.transfer(PeerId(2))
        asked += single.work().take(TimeoutNow)
        for _ in range(CONFIG.election_ticks_min):
            single.acknowledge(2, 2)
            single.tick()
    assert [one.term for one in asked] == [single.raft.term] * 2


def test_proposals_are_dropped_during_a_transfer_which_is_given_up_in_time() -> None:
    """Thesis 3.10: if it does not complete after about an election timeout, it is aborted."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].transfer(PeerId(3))
    with pytest.raises(ProposalDropped) as dropped:
        group[1].propose(b"x")
    assert dropped.value.leader_id == 3
    group.tick(CONFIG.election_ticks_min)
    group.propose(b"x")
    assert group.members[2].applied == [b"x"]


@pytest.mark.parametrize("to", [1, 4, 9])
def test_a_transfer_to_itself_a_learner_or_a_stranger_is_refused(to: int) -> None:
    """Thesis 3.10."""
    group = led(1, 2, 3, learners=(4,))
    why = (
        "^1 is the leader already$" if to == 1 else f"^peer {to} does not vote; voters are 1, 2, 3$"
    )
    with pytest.raises(TransferRefused, match=why):
        group[1].transfer(PeerId(to))


# -- 6.2 check quorum, 6.4 reads


def test_a_leader_that_hears_no_majority_steps_down() -> None:
    """Thesis 6.2."""
    group = led(1, 2, 3)
    group.isolate(1)
    group.tick(CONFIG.election_ticks_max - CONFIG.heartbeat_ticks, only=[1])
    assert group[1].leader_id == 1
    group.tick(CONFIG.heartbeat_ticks, only=[1])
    assert (group[1].role, group[1].leader_id) == (Role.FOLLOWER, NO_PEER)


def test_a_leader_with_a_majority_stays_although_a_minority_is_silent() -> None:
    """Thesis 6.2."""
    group = led(1, 2, 3)
    group.isolate(3)
    group.tick(5 * CONFIG.election_ticks_max)
    assert (group[1].role, group[1].term) == (Role.LEADER, 1)


def test_reads_asked_for_in_one_turn_share_one_round() -> None:
    """Thesis 6.4."""
    single = Single().elected().acknowledge(2, 1).acknowledge(3, 1)
    single.take(object)
    for context in range(3):
        single.raft.read_index(context)
    assert len(single.work().take(AppendEntries)) == 2
    single.acknowledge(3, 1)
    assert [read.context for r in single.readies for read in r.reads] == [0, 1, 2]


def test_reads_are_the_leaders_and_bounded() -> None:
    """Thesis 6.4."""
    with pytest.raises(ReadRefused):
        Single().raft.read_index(1)
    single = Single(config=replace(CONFIG, reads_max=2)).elected()
    single.raft.read_index(1)
    single.raft.read_index(2)
    with pytest.raises(ReadRefused, match="too many"):
        single.raft.read_index(3)


# -- 9.6 pre-vote


def test_who_was_cut_off_does_not_depose_the_leader_when_it_comes_back() -> None:
    """Thesis 9.6."""
    group = led(1, 2, 3)
    group.isolate(3)
    group.tick(10 * CONFIG.election_ticks_max)
    assert group[3].term == 1
    group.heal()
    group.tick(2 * CONFIG.election_ticks_max)
    assert (group[1].role, group[1].term) == (Role.LEADER, 1)


def test_an_answer_to_an_earlier_round_of_pre_votes_does_not_count_in_a_later_one() -> None:
    """Thesis 9.6: it was given before the term began that has failed since."""
    member = Single(term=1).tick(20)
    member.step(granted(2, 2, is_pre_vote=True))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 2)
    member.tick(20)
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 2)
    member.step(granted(3, 2, is_pre_vote=True))
    assert (member.raft.role, member.raft.term) == (Role.PRE_CANDIDATE, 2)
    member.step(granted(3, 3, is_pre_vote=True))
    assert (member.raft.role, member.raft.term) == (Role.CANDIDATE, 3)


def test_a_pre_vote_promises_nothing() -> None:
    """Thesis 9.6."""
    single = Single(term=1)
    for candidate in (2, 3):
        request = vote_request(candidate, 2, is_pre_vote=True)
        assert single.step(request).one(VoteResponse).is_granted
    assert single.raft.term == 1
    assert all(ready.hard_state is None for ready in single.readies)


def test_a_member_with_a_later_term_is_fed_although_it_may_not_disturb_by_votes() -> None:
    """Thesis 9.6, 6.2 together: the leader hears of the term and a new one is elected."""
    group = led(1, 2, 3)
    group.crash(3)
    group.disks[3].hard_state = replace(group.disks[3].hard_state, term=Term(7))
    group.restart(3)
    group.tick(4 * CONFIG.election_ticks_max)
    assert group.leader.term > 7
    group.propose(b"x")
    assert group.members[3].applied == [b"x"]


# -- single voters


def test_a_single_voter_leads_after_one_tick_and_commits_by_its_own_disk() -> None:
    """Ours: a node alone starts without waiting."""
    group = Group([1])
    group.tick()
    assert group[1].leadership.is_leader
    group.propose(b"x")
    assert group.members[1].applied == [b"x"]


def test_a_single_voter_with_a_slow_disk_waits_for_it_in_the_same_term() -> None:
    """Ours: time spent on the own vote's sync is no reason for another election."""
    single = Single(voter_ids=[1])
    single.raft.tick()
    ready = single.raft.ready()
    for _ in range(5 * CONFIG.election_ticks_max):
        single.raft.tick()
    assert ready is not None
    single.raft.advance(ready)
    single.work()
    assert (single.raft.role, single.raft.term) == (Role.LEADER, 1)


# -- closed connections


def test_a_closed_connection_to_the_leader_makes_for_a_quick_election() -> None:
    """Ours: a killed process closes its connections; nobody waits for an election timeout."""
    config = replace(CONFIG, election_ticks_min=1000, election_ticks_max=2000)
    group = Group([1, 2, 3], config=config)
    group.tick(2000, only=[1])
    assert group[1].role is Role.LEADER
    group.crash(1)
    for peer_id in (2, 3):
        group[peer_id].peer_lost(PeerId(1))
    group.tick(6 * config.lost_leader_ticks_max)
    assert group.leader.term == 2


def test_who_notices_the_closed_connection_first_asks_again_until_the_others_do() -> None:
    """Ours."""
    config = replace(CONFIG, election_ticks_min=1000, election_ticks_max=2000)
    group = Group([1, 2, 3], config=config)
    group.tick(2000, only=[1])
    group.crash(1)
    group[2].peer_lost(PeerId(1))
    group.tick(config.lost_leader_ticks_max)
    assert group[2].role is not Role.LEADER
    group[3].peer_lost(PeerId(1))
    group.tick(6 * config.lost_leader_ticks_max)
    assert group.leader.term == 2


def test_hurried_campaigns_are_bounded() -> None:
    """Ours: a voter that is left alone does not ask several times a second for ever."""
    single = Single(term=1).step(append(2, 1))
    single.raft.peer_lost(PeerId(2))
    single.take(object)
    single.tick(20 * CONFIG.election_ticks_min)
    asked = len(single.take(VoteRequest)) // 2
    assert asked <= HURRIED_CAMPAIGNS_MAX + 20
    single.tick(20 * CONFIG.election_ticks_min)
    assert len(single.take(VoteRequest)) // 2 == 20


def test_a_closed_connection_while_the_leader_lives_changes_nothing() -> None:
    """Ours: a pre-vote is refused by those who still hear it."""
    group = led(1, 2, 3)
    group[2].peer_lost(PeerId(1))
    group.tick(3 * CONFIG.election_ticks_max)
    assert (group[1].role, group[1].term) == (Role.LEADER, 1)


def test_who_hears_the_leader_again_after_a_closed_connection_is_in_no_hurry_any_more() -> None:
    """Ours: the short wait was for a leader that is dead."""
    single = Single(term=1).step(append(2, 1))
    single.raft.peer_lost(PeerId(2))
    single.step(append(2, 1)).take(object)
    single.tick(CONFIG.election_ticks_min - 1)
    assert single.take(VoteRequest) == []
    single.tick()
    assert len(single.take(VoteRequest)) == 2


# -- bounds and bad input


def test_proposals_are_bounded() -> None:
    """Ours."""
    config = replace(CONFIG, entry_bytes_max=1024, uncommitted_bytes_max=4096)
    single = Single(config=config).elected()
    with pytest.raises(ProposalTooLarge):
        single.raft.propose(b"x" * 1025)
    for _ in range(3):
        single.raft.propose(b"x" * 1024)
    with pytest.raises(ProposalQueueFull):
        single.raft.propose(b"x" * 1024)
    single.work().acknowledge(2, single.raft.last_index)
    single.raft.propose(b"x" * 1024)


def test_what_earlier_terms_left_uncommitted_takes_room_until_it_is_committed() -> None:
    """Ours: it is in memory as well."""
    config = replace(CONFIG, entry_bytes_max=1024, uncommitted_bytes_max=4096)
    single = Single(config=config)
    single.step(append(2, 1, new=[entry(index, 1, b"x" * 1024) for index in (1, 2, 3)])).work()
    single.raft.step(TimeoutNow(sender=PeerId(2), term=Term(1)))
    single.work().raft.step(granted(3, 2))
    assert single.raft.role is Role.LEADER
    with pytest.raises(ProposalQueueFull):
        single.raft.propose(b"x" * 1024)
    single.work().acknowledge(2, single.raft.last_index)
    for _ in range(3):
        single.raft.propose(b"x" * 1024)
    with pytest.raises(ProposalQueueFull):
        single.raft.propose(b"x" * 1024)


def test_what_was_committed_before_the_election_and_is_applied_later_takes_no_room() -> None:
    """Ours: only proposals that wait for their commit are bounded."""
    config = replace(CONFIG, entry_bytes_max=1024, uncommitted_bytes_max=4096, apply_bytes_max=1024)
    single = Single(config=config)
    news = [entry(index, 1, b"x" * 1024) for index in (1, 2, 3)]
    single.raft.step(append(2, 1, new=news, commit_index=3))
    _ready(single)
    single.raft.step(TimeoutNow(sender=PeerId(2), term=Term(1)))
    _ready(single)
    single.raft.step(granted(3, 2))
    assert (single.raft.role, single.raft.applied_index) == (Role.LEADER, 1)
    single.work().acknowledge(2, single.raft.last_index)
    for _ in range(3):
        single.raft.propose(b"x" * 1024)


def _ready(single: Single) -> None:
    """Do what is to be done now, and not what that brings."""
    ready = single.raft.ready()
    assert ready is not None
    single.raft.advance(ready)


def test_a_proposal_elsewhere_names_the_leader() -> None:
    """Raft 8: redirect to the leader."""
    group = led(1, 2, 3)
    with pytest.raises(ProposalDropped) as dropped:
        group[2].propose(b"x")
    assert dropped.value.leader_id == 1


def test_entries_under_way_to_one_peer_are_bounded() -> None:
    """Thesis 10.2.2."""
    config = replace(CONFIG, inflight_messages_max=2)
    single = Single(config=config).elected().acknowledge(2, 1)
    single.take(object)
    for _ in range(5):
        single.raft.propose(b"x")
        single.work()
    to_2 = [m for to, m in single.sent if to == 2 and isinstance(m, AppendEntries) and m.entries]
    assert len(to_2) == 2
    single.take(object)
    single.acknowledge(2, 3)
    (rest,) = [m for to, m in single.sent if to == 2 and isinstance(m, AppendEntries) and m.entries]
    assert len(rest.entries) == 3


def test_nothing_is_under_way_any_more_once_the_last_message_is_acknowledged() -> None:
    """Thesis 10.2.2."""
    progress = Progress(PeerId(2), next_index=RaftIndex(1), heard_tick=0)
    progress.replicate()
    progress.note_sent(RaftIndex(3), 100)
    progress.note_sent(RaftIndex(5), 50)
    progress.note_match(RaftIndex(4))
    assert list(progress.inflight) == [(5, 50)]
    assert progress.is_window_full(1, 1_000)
    progress.note_match(RaftIndex(5))
    assert (len(progress.inflight), progress.inflight_bytes) == (0, 0)
    assert not progress.is_window_full(1, 1_000)


def test_messages_that_no_correct_peer_sends_are_named_and_change_nothing() -> None:
    """Ours."""
    single = Single(terms=[1, 2], term=3)
    bad = [
        append(1, 3),
        append(2, 3, (2, 2), [entry(4, 3)]),
        append(2, 3, (2, 2), [entry(3, 4)]),
        append(2, 3, (2, 2), entries([3, 2], 3)),
        append(2, 3, (2, 2), [replace(entry(3, 3), kind=EntryKind.CONFIGURATION)]),
    ]
    for message in bad:
        with pytest.raises(InvalidMessage):
            single.raft.step(message)
    assert single.terms == [1, 2]
    leader = Single().elected()
    term = leader.raft.term
    for answer in (
        success(2, term, 99),
        success(2, term, 0, round_number=2**64 - 1),
        append(9, term),
    ):
        with pytest.raises(InvalidMessage):
            leader.raft.step(answer)


@pytest.mark.parametrize("term", [-1, 2 + (1 << 28), 2**63 - 1, 2**64 - 1])
def test_a_term_that_no_elections_lead_to_is_taken_from_nobody(term: int) -> None:
    """Ours: all would keep it on disk, and those after it fit no field: no group ever again."""
    single = Single(terms=[1])
    bad: list[Message] = [
        vote_request(2, term, (9, term)),
        replace(vote_request(2, term, (9, term)), is_pre_vote=True),
        granted(2, term),
        append(2, term),
        success(2, term, 0),
        TimeoutNow(sender=PeerId(2), term=Term(term)),
    ]
    for message in bad:
        with pytest.raises(InvalidMessage, match="peer 2 is in term"):
            single.raft.step(message)
    assert (single.raft.term, single.raft.role) == (1, Role.FOLLOWER)
    assert single.step(vote_request(2, 1 + (1 << 28), (9, 1))).raft.term == 1 + (1 << 28)


def test_a_late_order_to_campaign_is_ignored() -> None:
    """Thesis 3.10."""
    single = Single(term=5).step(TimeoutNow(sender=PeerId(2), term=Term(4)))
    assert single.raft.role is Role.FOLLOWER
    assert single.step(TimeoutNow(sender=PeerId(2), term=Term(5))).raft.term == 6


def test_a_snapshot_that_the_driver_takes_late_is_not_needed_any_more() -> None:
    """Ours."""
    group = led(1, 2, 3)
    group.propose(b"x")
    member: Member = group.members[1]
    index = member.raft.applied_index
    assert member.raft.compact(index, b"") is not None
    assert member.raft.compact(index, b"") is None
