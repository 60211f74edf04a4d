"""Members that come and go: thesis 4, and our own claims on learners."""

from dataclasses import replace

import pytest

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import EntryKind
from penstock.raft.errors import (
    ChangeRefused,
)
from penstock.raft.ids import Term
from penstock.raft.messages import LearnerHello, LearnerWelcome, VoteResponse
from penstock.raft.ready import NO_PEER, Role
from tests.raft.group import CONFIG, Group, address, led, voters
from tests.raft.single import Single, append, entries, entry, vote_request

# -- 4 membership


def test_a_learner_that_caught_up_becomes_a_voter_and_counts_from_then_on() -> None:
    """Thesis 4.1, 4.2.1."""
    group = led(1, learners=(2,))
    assert group[2].role.value == "learner"
    group[1].add_voter(PeerId(2), address(2))
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
    group[1].remove_voter(PeerId(3))
    with pytest.raises(ChangeRefused, match="not committed yet"):
        group[1].remove_voter(PeerId(2))


def test_no_change_before_the_first_commit_of_the_leaders_term() -> None:
    """Correction of thesis 4.1 on raft-dev, 2015: two leaders, majorities that share nobody."""
    single = Single(terms=[1]).elected()
    with pytest.raises(ChangeRefused, match="only just been elected"):
        single.raft.remove_voter(PeerId(3))
    single.acknowledge(2, 2).acknowledge(3, 2)
    assert single.raft.remove_voter(PeerId(3)) == 3


def test_who_is_no_learner_or_far_behind_or_silent_does_not_become_a_voter() -> None:
    """Thesis 4.2.1: availability gaps."""
    config = replace(CONFIG, learner_lag_entries_max=2, entries_bytes_max=1024)
    group = led(1, learners=(2,), config=config)
    with pytest.raises(ChangeRefused, match="not connected as a learner"):
        group[1].add_voter(PeerId(7), address(7))
    group.isolate(2)
    for _ in range(3):
        group.propose(b"x")
    with pytest.raises(ChangeRefused, match="3 entries behind"):
        group[1].add_voter(PeerId(2), address(2))
    group.heal()
    group.tick(config.heartbeat_ticks)
    group.isolate(2)
    group.tick(config.election_ticks_max)
    with pytest.raises(ChangeRefused, match="not heard lately"):
        group[1].add_voter(PeerId(2), address(2))


def test_changes_that_change_nothing_or_leave_no_majority_are_refused() -> None:
    """Thesis 4.1; ours: an operator must not stop the group by a removal."""
    group = led(1, 2, 3)
    with pytest.raises(ChangeRefused, match="votes already"):
        group[1].add_voter(PeerId(2), address(2))
    with pytest.raises(ChangeRefused, match=r"^peer 9 does not vote; voters are 1, 2, 3$"):
        group[1].remove_voter(PeerId(9))
    group.crash(3)
    group.tick(CONFIG.election_ticks_max)
    with pytest.raises(ChangeRefused, match="the group would stop"):
        group[1].remove_voter(PeerId(2))
    group[1].remove_voter(PeerId(3))
    alone = led(1)
    with pytest.raises(ChangeRefused):
        alone[1].remove_voter(PeerId(1))


def test_a_voter_can_get_another_address() -> None:
    """Ours: addresses stand in the configuration."""
    group = led(1, 2, 3)
    group[1].add_voter(PeerId(3), "elsewhere:9093")
    group.settle()
    assert dict(group[2].peers_to_dial) == {1: address(1), 3: "elsewhere:9093"}


def test_a_leader_that_removes_itself_does_not_count_itself_and_leaves_after_the_commit() -> None:
    """Thesis 4.2.2."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].remove_voter(PeerId(1))
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
    group[1].remove_voter(PeerId(1))
    group.settle()
    group.restart(1)
    group.heal()
    group.tick(3 * CONFIG.election_ticks_max)
    assert (group[2].role, group[1].role) == (Role.LEADER, Role.LEARNER)
    assert group[2].configuration == voters(2)


def test_who_is_removed_hears_of_it_before_it_would_campaign() -> None:
    """Ours: it is fed on, so that nobody has to tell its votes from those of a voter."""
    group = led(1, 2, 3)
    group[1].remove_voter(PeerId(3))
    group.settle()
    group.tick(2 * CONFIG.heartbeat_ticks)
    assert (group[3].role, group[3].configuration) == (Role.LEARNER, voters(1, 2))


def test_who_was_removed_while_away_hears_of_it_and_disturbs_nobody() -> None:
    """Thesis 4.2.3: disruptive servers."""
    group = led(1, 2, 3)
    group.isolate(3)
    group[1].remove_voter(PeerId(3))
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
    group[1].transfer(PeerId(2))
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


def test_where_the_log_and_a_welcome_name_a_voter_the_log_says_where_it_is() -> None:
    """Ours: a welcome is heard once, the log goes on."""
    elsewhere = Configuration.of({PeerId(2): "elsewhere:9093", PeerId(5): "five:9093"})
    welcome = LearnerWelcome(
        sender=PeerId(2),
        term=Term(1),
        leader_id=PeerId(2),
        voters=elsewhere.voters,
        directories=elsewhere.directories,
    )
    single = Single(own_id=4, voter_ids=[2, 3], term=1).step(welcome)
    assert dict(single.raft.peers_to_dial) == {2: address(2), 3: address(3), 5: "five:9093"}


def test_a_learner_that_hears_of_no_leader_for_long_knows_none_and_asks_all_voters() -> None:
    """Ours: its broker must not go on asking a dead controller."""
    single = Single(own_id=4, voter_ids=[1, 2, 3]).step(append(1, 1))
    single.tick(CONFIG.election_ticks_max - 1)
    assert single.raft.leader_id == 1
    single.tick()
    assert single.raft.leader_id == NO_PEER
    single.tick(CONFIG.learner_hello_ticks)
    single.sent.clear()
    single.tick(CONFIG.heartbeat_ticks)
    assert {to for to, message in single.sent if isinstance(message, LearnerHello)} == {1, 2, 3}


def test_learners_are_bounded() -> None:
    """Ours."""
    group = Group([1], [2, 3, 4], config=replace(CONFIG, learners_max=2))
    group.elect(1)
    group.tick(CONFIG.learner_hello_ticks)
    assert len(group[1].progress) == 2
