"""Claims of the Raft thesis beyond the paper, and our own on learners and closed connections."""

from dataclasses import replace

import pytest

from penstock.raft.config import RaftConfig
from penstock.raft.entry import EntryKind
from penstock.raft.errors import (
    ChangeRefused,
    InvalidMessage,
    ProposalDropped,
    ProposalQueueFull,
    ProposalTooLarge,
    ReadRefused,
    TransferRefused,
)
from penstock.raft.messages import AppendEntries, LearnerWelcome, TimeoutNow, VoteResponse
from penstock.raft.ready import NO_PEER, Role
from tests.raft.group import CONFIG, Group, Member, address, voters
from tests.raft.single import Single, append, entries, entry, success, vote_request

LEASES = replace(CONFIG, lease_reads=True, lease_margin_ticks=2)


def led(*voter_ids: int, learners: tuple[int, ...] = (), config: RaftConfig = CONFIG) -> Group:
    """A group led by its first voter, with learners that are caught up."""
    group = Group(voter_ids, learners, config=config)
    group.elect(voter_ids[0])
    group.tick(2 * config.learner_hello_ticks if learners else 1)
    assert group.leader.leader_id == voter_ids[0]
    return group


# -- 3.10 leadership transfer


def test_a_transfer_makes_the_named_voter_the_next_leader_within_no_tick() -> None:
    """Thesis 3.10."""
    group = led(1, 2, 3)
    group[1].transfer(3)
    group.settle()
    assert (group[3].role, group[3].term) == (Role.LEADER, 2)
    assert group.members[3].leaderships[-1].is_leader


def test_a_transfer_first_brings_the_successor_level() -> None:
    """Thesis 3.10."""
    group = led(1, 2, 3)
    group.isolate(3)
    group.propose(b"x")
    group[1].transfer(3)
    group.settle()
    assert group[1].role is Role.LEADER
    group.heal()
    group.tick(CONFIG.heartbeat_ticks)
    assert group[3].role is Role.LEADER
    assert group.members[3].applied == [b"x"]


def test_proposals_are_dropped_during_a_transfer_which_is_given_up_in_time() -> None:
    """Thesis 3.10: if it does not complete after about an election timeout, it is aborted."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].transfer(3)
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
    with pytest.raises(TransferRefused):
        group[1].transfer(to)


# -- 4 membership


def test_a_learner_that_caught_up_becomes_a_voter_and_counts_from_then_on() -> None:
    """Thesis 4.1, 4.2.1."""
    group = led(1, learners=(2,))
    assert group[2].role.value == "learner"
    group[1].add_voter(2, address(2))
    group.settle()
    assert group[2].role.value == "follower"
    assert group[2].configuration == voters(1, 2)
    group.isolate(2)
    index = group.propose(b"x")
    assert group[1].commit_index < index
    group.heal()
    group.tick(CONFIG.heartbeat_ticks)
    assert group[1].commit_index == index


def test_a_configuration_is_in_force_as_soon_as_it_is_in_the_log_and_gone_when_truncated() -> None:
    """Thesis 4.1."""
    single = Single(term=1)
    change = replace(entry(1, 1), kind=EntryKind.CONFIGURATION, payload=voters(1, 2, 3, 4).encode())
    single.step(append(2, 1, new=[change]))
    assert single.raft.configuration == voters(1, 2, 3, 4)
    single.step(append(3, 2, new=entries([2])))
    assert single.raft.configuration == voters(1, 2, 3)


def test_only_one_change_at_a_time() -> None:
    """Thesis 4.1."""
    group = led(1, 2, 3)
    group.isolate(1)
    group[1].remove_voter(3)
    with pytest.raises(ChangeRefused, match="not committed yet"):
        group[1].remove_voter(2)


def test_no_change_before_the_first_commit_of_the_leaders_term() -> None:
    """Correction of thesis 4.1 on raft-dev, 2015: two leaders, majorities that share nobody."""
    single = Single(terms=[1]).elected()
    with pytest.raises(ChangeRefused, match="only just been elected"):
        single.raft.remove_voter(3)
    single.acknowledge(2, 2).acknowledge(3, 2)
    assert single.raft.remove_voter(3) == 3


def test_who_is_no_learner_or_far_behind_or_silent_does_not_become_a_voter() -> None:
    """Thesis 4.2.1: availability gaps."""
    config = replace(CONFIG, learner_lag_entries_max=2, entries_bytes_max=1024)
    group = led(1, learners=(2,), config=config)
    with pytest.raises(ChangeRefused, match="not connected as a learner"):
        group[1].add_voter(7, address(7))
    group.isolate(2)
    for _ in range(3):
        group.propose(b"x")
    with pytest.raises(ChangeRefused, match="3 entries behind"):
        group[1].add_voter(2, address(2))
    group.heal()
    group.tick(config.heartbeat_ticks)
    group.isolate(2)
    group.tick(config.election_ticks_max)
    with pytest.raises(ChangeRefused, match="not heard lately"):
        group[1].add_voter(2, address(2))


def test_changes_that_change_nothing_or_leave_no_majority_are_refused() -> None:
    """Thesis 4.1; ours: an operator must not stop the group by a removal."""
    group = led(1, 2, 3)
    with pytest.raises(ChangeRefused, match="votes already"):
        group[1].add_voter(2, address(2))
    with pytest.raises(ChangeRefused, match="does not vote"):
        group[1].remove_voter(9)
    group.crash(3)
    group.tick(CONFIG.election_ticks_max)
    with pytest.raises(ChangeRefused, match="the group would stop"):
        group[1].remove_voter(2)
    group[1].remove_voter(3)
    alone = led(1)
    with pytest.raises(ChangeRefused):
        alone[1].remove_voter(1)


def test_a_voter_can_get_another_address() -> None:
    """Ours: addresses stand in the configuration."""
    group = led(1, 2, 3)
    group[1].add_voter(3, "elsewhere:9093")
    group.settle()
    assert dict(group[2].peers_to_dial) == {1: address(1), 3: "elsewhere:9093"}


def test_a_leader_that_removes_itself_does_not_count_itself_and_leaves_after_the_commit() -> None:
    """Thesis 4.2.2."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].remove_voter(1)
    group.settle()
    assert (group[1].role, group[1].commit_index) == (Role.LEADER, 1)
    group.heal()
    group.tick(CONFIG.heartbeat_ticks)
    assert group[1].role is Role.LEARNER
    assert group.leader.leader_id in {2, 3}
    assert group.leader.configuration == voters(2, 3)


def test_who_alone_holds_its_own_removal_can_still_lead() -> None:
    """Thesis 4.2.2: it may be needed until the configuration is committed."""
    group = led(1, 2)
    group.isolate(1)
    group[1].remove_voter(1)
    group.settle()
    group.restart(1)
    group.heal()
    group.tick(3 * CONFIG.election_ticks_max)
    assert (group[2].role, group[1].role) == (Role.LEADER, Role.LEARNER)
    assert group[2].configuration == voters(2)


def test_who_was_removed_while_away_hears_of_it_and_disturbs_nobody() -> None:
    """Thesis 4.2.3: disruptive servers."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].remove_voter(3)
    group.settle()
    group.tick(CONFIG.learner_timeout_ticks)
    group.heal()
    group.tick(3 * CONFIG.election_ticks_max)
    assert group[3].role is Role.LEARNER
    assert {raft.term for raft in (group[1], group[2], group[3])} == {1}


def test_nobody_gets_a_vote_while_a_leader_is_heard() -> None:
    """Thesis 4.2.3."""
    single = Single(term=1).step(append(2, 1))
    single.take(object)
    for is_pre_vote in (True, False):
        answer = single.step(vote_request(3, 5, (9, 9), is_pre_vote=is_pre_vote)).one(VoteResponse)
        assert not answer.is_granted
    assert single.raft.term == 1
    single.tick(CONFIG.election_ticks_min - 1)
    assert not single.step(vote_request(3, 5, (9, 9))).one(VoteResponse).is_granted
    transfer = vote_request(3, 5, (9, 9), is_transfer=True)
    assert single.step(transfer).one(VoteResponse).is_granted


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


def test_a_lease_lasts_from_the_sending_of_the_round_that_a_majority_answered() -> None:
    """Thesis 6.4.1."""
    single = Single(config=LEASES).elected()
    assert not single.raft.is_lease_valid()
    single.acknowledge(2, 1)
    valid = []
    while single.raft.role is Role.LEADER:
        valid.append(single.raft.is_lease_valid())
        single.tick()
    assert valid.index(False) == LEASES.election_ticks_min - LEASES.lease_margin_ticks
    assert not any(valid[valid.index(False) :])


def test_a_transfer_ends_leases_for_the_rest_of_the_term() -> None:
    """Thesis 6.4.1: the successor is obeyed in spite of the promises, perhaps much later."""
    group = led(1, 2, 3, config=LEASES)
    assert group[1].is_lease_valid()
    group[1].transfer(2)
    group.members[1].collect()
    assert not group[1].is_lease_valid()
    group.isolate(2)
    group.settle()
    group.heal()
    group.tick(CONFIG.election_ticks_min)
    assert group[1].role is Role.LEADER
    assert not group[1].is_lease_valid()


def test_with_leases_a_restarted_voter_keeps_the_promises_it_can_not_remember() -> None:
    """Ours; thesis 6.4.1 rests on promises that are not on disk."""
    single = Single(config=LEASES)
    assert not single.step(vote_request(2, 1)).one(VoteResponse).is_granted
    single.tick(LEASES.election_ticks_min)
    assert single.step(vote_request(2, 9)).one(VoteResponse).is_granted


def test_without_leases_there_is_no_valid_lease() -> None:
    """Ours: a closed connection breaks the promise, so nothing may rest on it."""
    assert not led(1, 2, 3)[1].is_lease_valid()


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
    group.disks[3].hard_state = replace(group.disks[3].hard_state, term=7)
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


# -- learners


def test_a_learner_gets_everything_and_never_counts_or_campaigns() -> None:
    """Ours."""
    group = led(1, 2, learners=(3,))
    group.propose(b"x")
    assert group.members[3].applied == [b"x"]
    group.isolate(2)
    index = group.propose(b"y")
    assert group[1].commit_index < index
    group.crash(1)
    group.tick(5 * CONFIG.election_ticks_max)
    assert (group[3].role, group[3].term) == (Role.LEARNER, 1)


def test_a_new_leader_feeds_the_learners_at_once() -> None:
    """Ours: they said hello to every voter, so nobody waits for the next hello."""
    group = led(1, 2, 3, learners=(4,))
    group[1].transfer(2)
    group.settle()
    assert group[4].leader_id == 2
    assert group[4].commit_index == group[2].commit_index


def test_a_silent_learner_is_forgotten_and_fed_again_when_it_comes_back() -> None:
    """Ours."""
    group = led(1, 2, learners=(3,))
    group.crash(3)
    group.tick(CONFIG.learner_timeout_ticks + 1)
    assert [p.peer_id for p in group[1].progress] == [2]
    group.propose(b"x")
    group.restart(3)
    group.tick()
    assert group.members[3].applied == [b"x"]


def test_a_learner_that_lost_its_disk_is_fed_from_the_beginning() -> None:
    """Ours: it may; a voter that did must be removed and added again."""
    group = led(1, 2, learners=(3,))
    group.propose(b"x")
    del group.disks[3]
    group.restart(3)
    group.tick(CONFIG.heartbeat_ticks)
    assert group.members[3].applied == [b"x"]


def test_a_learner_that_starts_while_all_voters_are_gone_has_what_it_knew_as_committed() -> None:
    """Ours: a broker that starts without controllers has its last known roles."""
    group = led(1, learners=(2,))
    group.propose(b"x")
    group.crash(1)
    group.restart(2)
    group.settle()
    assert group.members[2].applied == [b"x"]


def test_a_learner_that_knows_one_voter_learns_of_the_others() -> None:
    """Ours: the welcome names the leader and where the voters are."""
    group = led(1, 2, 3)
    single = Single(own_id=4, voter_ids=[2]).tick()
    assert single.raft.role is Role.LEARNER
    group.settle()
    for message in [message for to, message in single.sent if to == 2]:
        group[2].step(message)
    ready = group[2].ready()
    assert ready is not None
    (welcome,) = [m for _, m in ready.messages if isinstance(m, LearnerWelcome)]
    single.step(welcome)
    assert welcome.leader_id == 1
    assert [peer_id for peer_id, _ in single.raft.peers_to_dial] == [1, 2, 3]


def test_learners_are_bounded() -> None:
    """Ours."""
    group = Group([1], [2, 3, 4], config=replace(CONFIG, learners_max=2))
    group.elect(1)
    group.tick(CONFIG.learner_hello_ticks)
    assert len(group[1].progress) == 2


# -- closed connections


def test_a_closed_connection_to_the_leader_makes_for_a_quick_election() -> None:
    """Ours: a killed process closes its connections; nobody waits for an election timeout."""
    config = replace(CONFIG, election_ticks_min=1000, election_ticks_max=2000)
    group = Group([1, 2, 3], config=config)
    group.tick(2000, only=[1])
    assert group[1].role is Role.LEADER
    group.crash(1)
    for peer_id in (2, 3):
        group[peer_id].peer_lost(1)
    group.tick(6 * config.lost_leader_ticks_max)
    assert group.leader.term == 2


def test_who_notices_the_closed_connection_first_asks_again_until_the_others_do() -> None:
    """Ours."""
    config = replace(CONFIG, election_ticks_min=1000, election_ticks_max=2000)
    group = Group([1, 2, 3], config=config)
    group.tick(2000, only=[1])
    group.crash(1)
    group[2].peer_lost(1)
    group.tick(config.lost_leader_ticks_max)
    assert group[2].role is not Role.LEADER
    group[3].peer_lost(1)
    group.tick(6 * config.lost_leader_ticks_max)
    assert group.leader.term == 2


def test_a_closed_connection_while_the_leader_lives_changes_nothing() -> None:
    """Ours: a pre-vote is refused by those who still hear it."""
    group = led(1, 2, 3)
    group[2].peer_lost(1)
    group.tick(3 * CONFIG.election_ticks_max)
    assert (group[1].role, group[1].term) == (Role.LEADER, 1)


def test_with_leases_a_closed_connection_shortens_nothing() -> None:
    """Ours: the lease rests on the whole timeout."""
    group = led(1, 2, 3, config=LEASES)
    group[2].peer_lost(1)
    assert group[2].leader_id == 1
    request = vote_request(3, 9, (9, 9))
    group[2].step(request)
    assert group[2].term == 1


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
    with pytest.raises(InvalidMessage):
        leader.raft.step(success(2, leader.raft.term, 99))


def test_a_late_order_to_campaign_is_ignored() -> None:
    """Thesis 3.10."""
    single = Single(term=5).step(TimeoutNow(sender=2, term=4))
    assert single.raft.role is Role.FOLLOWER
    assert single.step(TimeoutNow(sender=2, term=5)).raft.term == 6


def test_a_snapshot_that_the_driver_takes_late_is_not_needed_any_more() -> None:
    """Ours."""
    group = led(1, 2, 3)
    group.propose(b"x")
    member: Member = group.members[1]
    index = member.raft.applied_index
    assert member.raft.compact(index, b"") is not None
    assert member.raft.compact(index, b"") is None
