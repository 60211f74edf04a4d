"""Voters are known by their directories: founding, lost directories, votes that come back.

Source: KIP-853, KIP-1186; ADR 0027.
"""

from typing import Any

import pytest

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import EntryKind
from penstock.raft.errors import ChangeRefused, TransferRefused
from penstock.raft.ids import DirectoryId, RaftIndex, Term
from penstock.raft.messages import (
    AppendResponse,
    InstallSnapshot,
    LearnerWelcome,
    VoteResponse,
    configuration_of,
)
from penstock.raft.ready import NO_PEER, Role, Snapshot
from tests.raft.group import CONFIG, Disk, Group, address, voters
from tests.raft.single import Single, granted, hello, success, vote_request

A_WHILE = 12 * CONFIG.election_ticks_max
IDS = (PeerId(1), PeerId(2), PeerId(3))


def directory(peer_id: int) -> str:
    return f"first-{peer_id}"


def empty(*peer_ids: int, group: Group | None = None) -> Group:
    """Members of one group with empty disks; those not named do not run yet."""
    group = group or Group(())
    group.first_voters = voters(*IDS).voters
    for peer_id in peer_ids:
        group.start(peer_id, Disk(Configuration(), directory(peer_id)))
    return group


def founded() -> Group:
    group = empty(*IDS)
    group.tick(A_WHILE)
    assert group.leader.leadership.is_leader
    return group


def others(group: Group) -> list[PeerId]:
    return [peer_id for peer_id in IDS if peer_id != group.leader.leader_id]


def leaders(group: Group) -> list[int]:
    return [p for p, member in group.members.items() if member.raft.role is Role.LEADER]


def configurations(group: Group, peer_id: int) -> list[Configuration]:
    entries = group.members[peer_id].applied_entries
    return [
        Configuration.decode(entry.payload)
        for entry in entries
        if entry.kind is EntryKind.CONFIGURATION
    ]


# -- founding


def test_empty_directories_of_all_first_voters_found_one_group() -> None:
    group = founded()
    for peer_id in IDS:
        configuration = group[peer_id].configuration
        assert configuration.addresses == voters(*IDS).addresses
        assert [configuration.directory_of(one) for one in IDS] == [directory(p) for p in IDS]
    group.propose(b"first")
    group.tick(CONFIG.heartbeat_ticks)
    assert all(member.applied == [b"first"] for member in group.members.values())


def test_a_group_is_founded_only_when_every_first_voter_has_said_that_it_is_new() -> None:
    group = empty(1, 2)
    group.tick(A_WHILE)
    assert leaders(group) == []
    assert group[1].awaited_founders == (3,)
    empty(3, group=group)
    group.tick(A_WHILE)
    assert len(leaders(group)) == 1
    assert not group[1].awaited_founders


def test_a_word_that_is_old_founds_nothing() -> None:
    group = empty(1)
    for peer_id in (2, 3):
        group.disks[peer_id] = Disk(Configuration())
        group[1].step(hello(peer_id, directory_id="d", is_new=True))
    group[1]._core.ticks += CONFIG.election_ticks_max + 1
    group.tick(A_WHILE)
    assert group[1].last_index == 0


def test_who_is_welcomed_to_a_group_founds_none_though_it_has_the_word_of_all() -> None:
    # The words were spoken before the group of an earlier directory reached those who spoke.
    group = empty(1)
    for peer_id in (2, 3):
        group[1].step(hello(peer_id, directory_id="d", is_new=True))
    group[1].step(
        LearnerWelcome(
            sender=PeerId(2), term=Term(0), leader_id=NO_PEER, voters=voters(*IDS).voters
        )
    )
    group.tick(A_WHILE)
    assert group[1].last_index == 0


def test_a_founder_that_crashes_before_its_entry_is_durable_founds_again() -> None:
    group = empty(*IDS)
    while group[1].last_index == 0:
        for member in group.members.values():
            member.raft.tick()
            member.collect()
        wire, group.wire = group.wire, []
        for to, message in wire:
            group.deliver(to, message)
    group.crash(1)
    assert group.disks[1].entries == []
    group.tick(CONFIG.election_ticks_max)
    group.restart(1)
    group.tick(A_WHILE)
    assert group.leader.leadership.is_leader
    assert configurations(group, 2) == configurations(group, 1)


def test_two_of_three_empty_directories_wait_for_the_one_with_the_log() -> None:
    group = founded()
    group.propose(b"kept")
    kept = others(group)[0]
    for peer_id in IDS:
        if peer_id != kept:
            group.wipe(peer_id, f"second-{peer_id}")
            group.start(peer_id)
    group.tick(A_WHILE)
    assert leaders(group) == []
    assert {group[p].role for p in IDS if p != kept} == {Role.LEARNER}


def test_empty_directories_found_nothing_while_the_one_with_the_log_is_down() -> None:
    group = founded()
    group.crash(3)
    for peer_id in (1, 2):
        group.wipe(peer_id, f"second-{peer_id}")
        group.start(peer_id)
    group.tick(A_WHILE)
    assert leaders(group) == []
    assert group[1].awaited_founders == (3,)


# -- a directory that was lost


def test_a_voter_with_an_empty_directory_does_not_elect_a_log_without_what_was_committed() -> None:
    group = founded()
    old = group.leader.leader_id
    wiped, behind = others(group)
    group.isolate(behind)
    group.propose(b"committed by two")
    group.crash(old)
    group.wipe(wiped, "second")
    group.heal()
    group.start(wiped)
    group.tick(A_WHILE)
    assert leaders(group) == []
    group.restart(old)
    group.tick(A_WHILE)
    assert all(member.applied == [b"committed by two"] for member in group.members.values())


def test_a_voter_with_an_empty_directory_gets_its_vote_back_in_two_steps() -> None:
    group = founded()
    wiped = others(group)[0]
    group.wipe(wiped, "second")
    group.start(wiped)
    group.tick(A_WHILE)
    first, vacancy, last = configurations(group, group.leader.leader_id)
    assert first.directory_of(wiped) == directory(wiped)
    assert (vacancy.has(wiped), dict(vacancy.vacant)) == (False, {wiped: address(wiped)})
    assert last.is_voter(wiped, DirectoryId("second"))
    assert last.addresses == first.addresses
    assert last.vacant == ()
    assert group[wiped].role is Role.FOLLOWER


def test_the_next_leader_fills_the_seat_that_the_last_one_made_vacant() -> None:
    group = founded()
    wiped, next_one = others(group)
    group.wipe(wiped, "second")
    group.start(wiped)
    for _ in range(A_WHILE):
        if group[next_one].configuration.vacant:
            break
        group.tick()
    assert group[next_one].configuration.vacant == ((wiped, address(wiped)),)
    group.wipe(wiped, "third")
    group.tick(CONFIG.heartbeat_ticks)
    group.leader.transfer(next_one)
    group.tick(CONFIG.election_ticks_min)
    assert group.leader.leader_id == next_one
    group.start(wiped)
    group.tick(A_WHILE)
    assert group.leader.configuration.is_voter(wiped, DirectoryId("third"))


def test_what_an_empty_directory_acknowledges_does_not_commit() -> None:
    group = founded()
    wiped, cut = others(group)
    leader = group.leader
    group.wipe(wiped, "second")
    group.start(wiped)
    group.isolate(cut)
    index = leader.propose(b"on one voter's disk")
    group.tick(CONFIG.election_ticks_min, only=[leader.leader_id])
    assert group.disks[wiped].term(index) is not None, "it is fed all the same"
    assert leader.commit_index < index


def test_a_leader_that_only_an_empty_directory_answers_steps_down() -> None:
    group = founded()
    wiped, cut = others(group)
    leader = group.leader
    group.wipe(wiped, "second")
    group.start(wiped)
    group.isolate(cut)
    group.tick(2 * CONFIG.election_ticks_max)
    assert leader.role is not Role.LEADER


def test_a_read_is_not_confirmed_by_an_empty_directory() -> None:
    group = founded()
    wiped, cut = others(group)
    leader_id = group.leader.leader_id
    group.wipe(wiped, "second")
    group.start(wiped)
    group.isolate(cut)
    group.tick(CONFIG.heartbeat_ticks)
    group.leader.read_index(7)
    group.tick(CONFIG.heartbeat_ticks)
    assert group.members[leader_id].reads == []


def test_two_processes_under_one_id_do_not_evict_each_other() -> None:
    group = founded()
    leader, twin = group.leader, others(group)[0]
    for _ in range(A_WHILE):
        leader.step(hello(twin, leader.term, directory_id="twin"))
        has_all = success(twin, leader.term, leader.last_index, 0)
        leader.step(type(has_all)(**{**_fields(has_all), "directory_id": "twin"}))
        group.tick()
    assert leader.configuration.is_voter(twin, DirectoryId(directory(twin)))


def test_a_voter_is_not_readmitted_while_no_majority_would_be_left() -> None:
    group = Group((1, 2, 3, 4, 5))
    group.elect(1)
    group.crash(4)
    group.crash(5)
    group.wipe(3, "second")
    group.start(3)
    group.tick(A_WHILE)
    assert [group[peer_id].configuration.voter_ids for peer_id in (1, 2)] == [(1, 2, 3, 4, 5)] * 2
    assert leaders(group) == []
    group.restart(4)
    group.tick(A_WHILE)
    assert group.leader.configuration.is_voter(PeerId(3), DirectoryId("second"))


def test_a_member_from_before_there_were_directory_ids_votes_and_an_empty_directory_does_not() -> (
    None
):
    group = Group(IDS)
    group.elect(1)
    group.wipe(2, "second")
    group.start(2)
    group.crash(3)
    group.tick(A_WHILE)
    assert leaders(group) == []
    group.restart(3)
    group.tick(A_WHILE)
    configuration = group.leader.configuration
    assert [configuration.directory_of(p) for p in IDS] == ["", "second", ""]


def test_a_snapshot_brings_the_directories_to_an_empty_one() -> None:
    group = founded()
    wiped = others(group)[0]
    for number in range(5):
        group.propose(b"%d" % number)
    group.tick(CONFIG.heartbeat_ticks)
    leader = group.members[group.leader.leader_id]
    leader.compact()
    leader.raft._core.log._entries.clear()
    leader.raft._core.log._base_index = leader.raft._core.log.snapshot.index
    leader.raft._core.log._base_term = leader.raft._core.log.snapshot.term
    group.wipe(wiped, "second")
    group.start(wiped)
    group.tick(A_WHILE)
    assert group[wiped].configuration.is_voter(wiped, DirectoryId("second"))
    assert group.disks[wiped].snapshot.configuration.directory_of(wiped) == directory(wiped)
    assert group.members[wiped].applied == leader.applied


# -- what operators ask for


def manual() -> tuple[Group, PeerId]:
    """A group in which voter 2 or 3 lost its directory, and nobody readmits it."""
    group = founded()
    wiped = others(group)[0]
    for member in group.members.values():
        object.__setattr__(member.raft._core.config, "readmits_voters", False)
    group.wipe(wiped, "second")
    group.start(wiped)
    group.tick(A_WHILE)
    assert group.leader.configuration.directory_of(wiped) == directory(wiped)
    assert group[wiped].role is Role.LEARNER
    return group, wiped


@pytest.fixture(autouse=True)
def _config_as_before() -> object:
    yield
    object.__setattr__(CONFIG, "readmits_voters", True)


def test_a_voter_that_runs_with_another_directory_is_removed_before_it_is_added() -> None:
    group, wiped = manual()
    with pytest.raises(ChangeRefused, match="remove it, then add it again"):
        group.leader.add_voter(wiped, address(wiped))
    group.leader.remove_voter(wiped, DirectoryId(directory(wiped)))
    group.tick(CONFIG.learner_hello_ticks)
    group.leader.add_voter(wiped, address(wiped), DirectoryId("second"))
    group.tick(CONFIG.heartbeat_ticks)
    assert group.leader.configuration.is_voter(wiped, DirectoryId("second"))


def test_a_change_that_names_another_directory_is_refused() -> None:
    group, wiped = manual()
    with pytest.raises(ChangeRefused, match=f"votes with directory {directory(wiped)}, not second"):
        group.leader.remove_voter(wiped, DirectoryId("second"))
    group.leader.remove_voter(wiped)
    group.tick(CONFIG.learner_hello_ticks)
    with pytest.raises(ChangeRefused, match="runs with directory second, not third"):
        group.leader.add_voter(wiped, address(wiped), DirectoryId("third"))


def test_a_voter_that_lost_its_directory_is_handed_nothing() -> None:
    group, wiped = manual()
    with pytest.raises(TransferRefused, match="lost the directory"):
        group.leader.transfer(wiped)


def test_no_voter_is_removed_that_is_needed_beside_one_that_lost_its_directory() -> None:
    group, wiped = manual()
    (other,) = (one for one in others(group) if one != wiped)
    with pytest.raises(ChangeRefused, match="only 1 of the voters that would be left answer"):
        group.leader.remove_voter(other)


def test_a_vacant_seat_can_be_removed() -> None:
    seats = voters(1, 2, 3).with_vacancy(PeerId(3))
    assert seats.voter_ids == (1, 2)
    assert seats.without_voter(PeerId(3)) == voters(1, 2)
    assert seats.with_voter(PeerId(3), "new:1", DirectoryId("second")).vacant == ()


# -- one member


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_vote_for_another_directory_is_refused(is_pre_vote: bool) -> None:
    single = Single()
    request = vote_request(2, 5, is_pre_vote=is_pre_vote)
    single.step(type(request)(**{**_fields(request), "voter_directory_id": "lost"}))
    assert not single.one(VoteResponse).is_granted


def _fields(message: object) -> dict[str, Any]:
    return {name: getattr(message, name) for name in message.__dataclass_fields__}  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_vote_from_another_directory_does_not_count(is_pre_vote: bool) -> None:
    single = Single().tick(CONFIG.election_ticks_max)
    assert single.raft.role is Role.PRE_CANDIDATE
    if not is_pre_vote:
        single.step(granted(2, single.raft.term + 1, is_pre_vote=True))
    role, term = single.raft.role, single.raft.term + is_pre_vote
    answer = granted(3, term, is_pre_vote=is_pre_vote)
    single.step(type(answer)(**{**_fields(answer), "directory_id": "second"}))
    assert single.raft.role is role
    single.step(answer)
    assert single.raft.role is not role


def test_an_acknowledgement_of_the_lost_directory_that_comes_late_is_of_that_directory() -> None:
    single = Single().elected()
    index = single.raft.propose(b"x")
    single.work()
    single.step(hello(3, single.raft.term, directory_id="second"))
    answer = success(3, single.raft.term, index)
    single.step(type(answer)(**{**_fields(answer), "directory_id": "second"}))
    assert single.raft.commit_index < index
    assert [p.is_voter for p in single.raft.progress if p.peer_id == 3] == [False]
    single.step(answer)
    assert single.raft.commit_index == index


def test_what_a_lost_directory_had_is_not_known_of_its_successor() -> None:
    single = Single().elected()
    index = single.raft.propose(b"x")
    single.work().step(success(3, single.raft.term, index))
    answer = success(3, single.raft.term, 0, 0)
    single.step(type(answer)(**{**_fields(answer), "directory_id": "second"}))
    assert [p.match_index for p in single.raft.progress if p.peer_id == 3] == [0]


def test_a_group_is_founded_in_a_term_that_nobody_was_in() -> None:
    group = empty(*IDS)
    group[3]._core.enter_term(Term(7))
    group.tick(A_WHILE)
    assert group.leader._core.log._entries[0].term > 7


def test_a_snapshot_brings_vacant_seats() -> None:
    seats = Configuration.of(
        {PeerId(1): "a", PeerId(2): "b"}, {PeerId(2): DirectoryId("second")}, {PeerId(3): "c"}
    )
    single = Single().elected()
    log = single.raft._core.log
    log.snapshot = Snapshot(index=RaftIndex(1), term=Term(1), configuration=seats, data=b"state")
    single.raft._roles.current._replicator.peers[PeerId(2)].send_snapshot(log.snapshot)  # type: ignore[union-attr]
    single.sent.clear()
    chunk = single.work().one(InstallSnapshot)
    assert configuration_of(chunk) == seats


def test_answers_name_the_own_directory() -> None:
    group = founded()
    group.wire.clear()
    group.leader.propose(b"x")
    group.members[group.leader.leader_id].collect()
    (to, message), *_ = group.wire
    group.members[to].raft.step(message)
    group.wire.clear()
    group.members[to].settle()
    answers = [one for _, one in group.wire if isinstance(one, AppendResponse)]
    assert [answer.directory_id for answer in answers] == [directory(to)]
