"""The Raft driver: disks that fail, members that come and go, and a network that loses things."""

import pytest

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    MetadataPolicyViolation,
    MetadataQueueFull,
    NotActiveController,
)
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.controller.replicated_log import MachineIndex
from penstock.raft.errors import ChangeRefused, TransferRefused
from penstock.raft.ready import Role
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.config import RaftLogConfig
from penstock.runtime.raft.raft_log import RaftLog
from tests.raft.single import vote_request
from tests.runtime.raft_harness import RaftCluster, RaftMember

LOG = "metadata/raft.log"

Outcomes = list[int | MetadataError]


def one_voter(config: RaftLogConfig | None = None) -> tuple[RaftCluster, RaftMember]:
    cluster = RaftCluster(1, config=config)
    cluster.start()
    return cluster, cluster.leader()


def three(*, seed: int = 1) -> RaftCluster:
    cluster = RaftCluster(3, seed=seed)
    cluster.start()
    return cluster


def log_of(member: RaftMember) -> RaftLog:
    assert member.log is not None
    return member.log


def add(cluster: RaftCluster, member: RaftMember, *payloads: bytes) -> Outcomes:
    outcomes: Outcomes = []
    for payload in payloads:
        log_of(member).propose(payload, outcomes.append)
    cluster.run(1_000)
    return outcomes


# --- one voter: the standard that the log on one disk has set ------------------------------------


def test_voter_alone_has_everything_applied_when_it_is_started() -> None:
    cluster, member = one_voter()
    add(cluster, member, b"a", b"b")
    member.crash()
    member.start()
    assert member.machine.state == [b"a", b"b"]
    assert not member.leads


def test_voter_alone_leads_in_a_moment() -> None:
    cluster = RaftCluster(1)
    cluster.start()
    cluster.wait(lambda: cluster.member(1).leads, within_ms=100)


def test_proposals_of_one_turn_share_one_sync() -> None:
    cluster, member = one_voter()
    cluster.run(1_000)
    before = member.disk.syncs
    assert len(add(cluster, member, *[b"x"] * 100)) == 100
    assert member.disk.syncs == before + 1


def test_full_disk_refuses_and_takes_again_when_there_is_room() -> None:
    cluster, member = one_voter()
    add(cluster, member, b"a")
    member.disk.room = member.disk.files[LOG].size()
    (refused,) = add(cluster, member, b"b" * (1 << 20))
    assert isinstance(refused, MetadataLogFull)
    member.disk.room = 1 << 40
    assert add(cluster, member, b"c") == [2]
    assert member.machine.state == [b"a", b"c"]
    member.crash()
    member.start()
    assert member.machine.state == [b"a", b"c"]


@pytest.mark.parametrize("fault", ["fail_sync", "fail_write"])
def test_failed_disk_fences_for_good(fault: str) -> None:
    cluster, member = one_voter()
    add(cluster, member, b"a")
    setattr(member.disk, fault, True)
    assert isinstance(add(cluster, member, b"b")[0], MetadataLogFenced)
    setattr(member.disk, fault, False)
    assert isinstance(add(cluster, member, b"c")[0], MetadataLogFenced)
    assert member.machine.state == [b"a"]
    assert [type(one) for one in member.fenced] == [MetadataLogFenced]
    assert not member.leads
    member.crash()
    member.start()
    assert member.machine.state == [b"a"]


def test_log_wants_a_snapshot_after_enough_bytes() -> None:
    cluster, member = one_voter(RaftLogConfig(snapshot_after_bytes=2000))
    log = log_of(member)
    add(cluster, member, b"x" * 1000)
    assert not log.wants_snapshot
    add(cluster, member, b"x" * 1000)
    assert log.wants_snapshot
    size = member.disk.files[LOG].size()
    log.trim(2, b"y" * 5000)
    assert not log.wants_snapshot
    cluster.run(1_000)
    assert member.disk.files[LOG].size() < size
    add(cluster, member, b"x" * 3000)
    assert not log.wants_snapshot, "not before as much is appended as the snapshot takes"
    add(cluster, member, b"x" * 3000)
    assert log.wants_snapshot


def test_snapshot_on_a_full_disk_is_put_off() -> None:
    cluster, member = one_voter()
    add(cluster, member, b"a", b"b")
    member.disk.room = 50
    log_of(member).trim(MachineIndex(2), b"x" * 100)
    cluster.run(1_000)
    member.disk.room = 1 << 40
    assert add(cluster, member, b"c") == [3]
    member.crash()
    member.start()
    assert member.machine.events == ["apply 1", "apply 2", "apply 3"]


def test_failed_rename_fences_and_loses_nothing() -> None:
    cluster, member = one_voter()
    add(cluster, member, b"a")
    member.disk.fail_rename = True
    log_of(member).trim(MachineIndex(1), b"a")
    cluster.run(1_000)
    assert isinstance(add(cluster, member, b"b")[0], MetadataLogFenced)
    member.disk.fail_rename = False
    member.crash()
    member.start()
    assert member.machine.state == [b"a"]


def test_queue_of_proposals_is_bounded() -> None:
    cluster, member = one_voter(RaftLogConfig(proposals_max=10))
    outcomes = add(cluster, member, *[b"x"] * 15)
    assert sum(isinstance(outcome, MetadataQueueFull) for outcome in outcomes) == 5
    assert len(member.machine.state) == 10


def test_entry_that_is_too_large_is_refused_alone() -> None:
    cluster, member = one_voter()
    outcomes = add(cluster, member, b"x" * (ENTRY_BYTES_MAX + 1), b"a")
    assert [type(outcome) for outcome in outcomes] == [int, MetadataPolicyViolation] or [
        type(outcome) for outcome in outcomes
    ] == [MetadataPolicyViolation, int]
    assert member.machine.state == [b"a"]


def test_closing_within_apply_stops_there() -> None:
    cluster, member = one_voter()
    log = log_of(member)
    apply = member.machine.apply

    def closing(index: int, payload: bytes) -> None:
        apply(index, payload)
        log.close()

    member.machine.apply = closing  # type: ignore[method-assign, assignment]
    outcomes = add(cluster, member, b"a", b"b")
    assert member.machine.state == [b"a"]
    assert all(isinstance(outcome, MetadataLogFenced) for outcome in outcomes)
    assert len(outcomes) == 2


# --- three voters --------------------------------------------------------------------------------


def test_follower_with_a_full_disk_stops_nobody_and_catches_up() -> None:
    cluster = three()
    leader = cluster.leader()
    follower = next(member for member in cluster.members.values() if member is not leader)
    follower.disk.room = 10
    assert add(cluster, leader, b"a", b"b") == [1, 2]
    assert follower.machine.state == []
    follower.disk.room = 1 << 40
    cluster.run(2_000)
    assert follower.machine.state == [b"a", b"b"]
    assert follower.fenced == []


def test_leader_with_a_failed_disk_makes_way() -> None:
    cluster = three()
    old = cluster.leader()
    old.disk.fail_sync = True
    (outcome,) = add(cluster, old, b"a")
    assert isinstance(outcome, MetadataLogFenced)
    new = cluster.leader()
    assert new is not old
    cluster.run(1_000)
    assert new.machine.state in ([], [b"a"]), "its fate was open"
    assert add(cluster, new, b"b")[0] == len(new.machine.state)


def test_leader_with_a_hung_disk_makes_way_and_says_so() -> None:
    cluster = three()
    old = cluster.leader()
    add(cluster, old, b"a")
    old.process.is_disk_slow = True
    outcomes: Outcomes = []
    log_of(old).propose(b"open", outcomes.append)
    cluster.run(6_000)
    new = cluster.leader()
    assert new is not old
    assert not old.leads
    assert [type(outcome) for outcome in outcomes] == [NotActiveController]
    assert add(cluster, new, b"b")[0] == len(new.machine.state)
    old.process.is_disk_slow = False
    cluster.run(20_000)
    assert old.machine.state == new.machine.state


def test_a_vote_that_its_disk_has_not_taken_yet_elects_nobody() -> None:
    """It could be forgotten, and given to another candidate of the same term."""
    cluster = three()
    old = cluster.leader()
    cluster.run(2_000)
    others = [member for member in cluster.members.values() if member is not old]
    others[0].process.is_disk_slow = True
    old.crash()
    cluster.run(5_000)
    assert Role.LEADER not in {log_of(member)._core.role for member in others}, "it takes both"
    others[0].process.is_disk_slow = False
    assert cluster.leader() in others


def test_closed_connection_to_the_leader_elects_another_soon() -> None:
    cluster = three()
    cluster.leader()
    cluster.run(2_000)
    cluster.leader().crash()
    began_ms = cluster.loop.now_ms
    cluster.leader()
    assert cluster.loop.now_ms - began_ms < 300


def test_silent_leader_is_replaced_within_two_election_timeouts() -> None:
    cluster = three()
    old = cluster.leader()
    cluster.run(2_000)
    cluster.network.cut_off.add(old.member_id)
    began_ms = cluster.loop.now_ms
    cluster.leader()
    assert cluster.loop.now_ms - began_ms < 2 * 800


def test_status_shows_every_member_as_the_leader_sees_it() -> None:
    cluster = three()
    leader = cluster.leader()
    cluster.start(7)
    add(cluster, leader, b"a")
    status = log_of(leader).status()
    assert (status.role, status.leader_id) == ("leader", leader.member_id)
    assert [(peer.peer_id, peer.is_voter) for peer in status.peers] == [
        (1, True), (2, True), (3, True), (7, False),
    ]  # fmt: skip
    assert {peer.lag_entries for peer in status.peers} == {0}
    assert all(0 <= peer.silent_ms <= 200 for peer in status.peers)
    learner = log_of(cluster.member(7)).status()
    assert (learner.role, learner.leader_id) == ("learner", leader.member_id)
    assert {peer.match_index for peer in learner.peers} == {-1}


def test_leadership_is_handed_over_on_request() -> None:
    cluster = three()
    old = cluster.leader()
    to = old.member_id % 3 + 1
    outcomes: list[PlatformError | None] = []
    log_of(old).voters.transfer(PeerId(to), outcomes.append)
    cluster.run(1_000)
    assert outcomes == [None]
    assert cluster.leader().member_id == to


def test_transfer_that_can_not_be_says_why() -> None:
    cluster = three()
    leader = cluster.leader()
    outcomes: list[PlatformError | None] = []
    log_of(leader).voters.transfer(PeerId(9), outcomes.append)
    other = cluster.member(leader.member_id % 3 + 1)
    log_of(other).voters.transfer(leader.member_id, outcomes.append)
    cluster.run(100)
    assert {type(outcome) for outcome in outcomes} == {TransferRefused, NotActiveController}
    other.crash()
    log_of(leader).voters.transfer(other.member_id, outcomes.append)
    cluster.run(5_000)
    assert isinstance(outcomes[2], TransferRefused)
    assert add(cluster, cluster.leader(), b"a") == [1]


def test_learner_becomes_a_voter_and_counts() -> None:
    cluster = three()
    leader = cluster.leader()
    cluster.start(4)
    add(cluster, leader, b"a")
    outcomes: list[PlatformError | None] = []
    log_of(leader).voters.add_voter(PeerId(4), "host-4:9093", outcomes.append)
    cluster.run(1_000)
    assert outcomes == [None]
    assert log_of(cluster.member(4)).is_voter
    for other in (1, 2, 3):
        if other != leader.member_id:
            cluster.member(other).crash()
            break
    cluster.run(2_000)
    assert add(cluster, cluster.leader(), b"b") == [2]
    assert cluster.member(4).machine.state == [b"a", b"b"]


def test_removed_voter_becomes_a_learner_and_disturbs_nobody() -> None:
    cluster = three()
    leader = cluster.leader()
    gone = leader.member_id % 3 + 1
    outcomes: list[PlatformError | None] = []
    log_of(leader).voters.remove_voter(PeerId(gone), outcomes.append)
    cluster.run(1_000)
    assert outcomes == [None]
    term = log_of(leader).leadership.term
    cluster.run(5_000)
    assert log_of(leader).leadership.term == term
    assert not log_of(cluster.member(gone)).is_voter
    assert len(log_of(leader).status().peers) == 3
    add(cluster, leader, b"a")
    assert cluster.member(gone).machine.state == [b"a"]


def test_leader_that_removes_itself_makes_way() -> None:
    cluster = three()
    old = cluster.leader()
    outcomes: list[PlatformError | None] = []
    log_of(old).voters.remove_voter(old.member_id, outcomes.append)
    cluster.run(3_000)
    assert outcomes == [None]
    new = cluster.leader()
    assert new is not old
    assert add(cluster, new, b"a") == [1]


def test_who_asked_for_a_change_of_members_hears_that_it_may_happen_under_the_next_leader() -> None:
    cluster = three()
    cluster.start(4)
    cluster.run(1_000)
    old = cluster.leader()
    outcomes: list[PlatformError | None] = []
    cluster.network.cut_off.add(old.member_id)
    log_of(old).voters.add_voter(PeerId(4), "host-4:9093", outcomes.append)
    new = cluster.leader()
    assert new is not old
    cluster.network.cut_off.clear()
    cluster.wait(lambda: not old.leads)
    cluster.run(100)
    assert [type(outcome) for outcome in outcomes] == [LeadershipLost], "it may be committed yet"


def test_unknown_process_does_not_become_a_voter() -> None:
    cluster = three()
    leader = cluster.leader()
    outcomes: list[PlatformError | None] = []
    log_of(leader).voters.add_voter(PeerId(9), "host-9:9093", outcomes.append)
    cluster.run(100)
    assert isinstance(outcomes[0], ChangeRefused)


def test_frame_of_another_sender_is_refused() -> None:
    cluster = three()
    leader = cluster.leader()
    message = vote_request(3, 99, (99, 99))
    frame = memoryview(b"".join(RAFT_CODEC.encode(message)))
    with pytest.raises(PlatformError, match="says that it is 3"):
        log_of(leader).on_frame(PeerId(2), frame)
    with pytest.raises(PlatformError):
        log_of(leader).on_frame(PeerId(2), memoryview(b"\x01\x01\xff"))
    cluster.run(100)
    assert leader.leads


# --- learners ------------------------------------------------------------------------------------


def test_learner_that_starts_alone_applies_what_it_knew_to_be_agreed() -> None:
    cluster = three()
    cluster.start(7)
    add(cluster, cluster.leader(), b"a", b"b", b"c")
    for member in cluster.members.values():
        member.crash(power=False)
    learner = cluster.member(7)
    learner.start()
    assert learner.machine.state == [b"a", b"b", b"c"]
    cluster.run(5_000)
    assert log_of(learner).leadership.leader_id == -1


def test_learner_follows_the_voters_to_where_they_have_moved() -> None:
    cluster = three()
    cluster.start(7)
    leader = cluster.leader()
    cluster.start(4)
    cluster.run(1_000)
    log_of(leader).voters.add_voter(PeerId(4), "host-4:9093", lambda _: None)
    cluster.run(1_000)
    assert cluster.network.members[7].dialled[PeerId(4)] == ("host-4", 9093)
    cluster.member(7).crash(power=False)
    cluster.start(7)
    assert 4 in cluster.network.members[7].dialled


# --- everything at once --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_nothing_answered_is_lost_whatever_happens(seed: int) -> None:
    """Crashes, lost power, cuts, loss, delay; in the end all hold what was answered, in order."""
    cluster = RaftCluster(3, seed=seed, config=RaftLogConfig(snapshot_after_bytes=500))
    cluster.start(1, 2, 3, 7)
    random, answered = cluster.random, dict[int, bytes]()
    cluster.network.loss, cluster.network.jitter_ms = 0.05, 15
    number = 0
    for _ in range(60):
        for member in cluster.members.values():
            if not member.leads:
                continue
            for _ in range(random.randrange(4)):
                number += 1
                propose(log_of(member), b"%d" % number, answered)
            snapshot_if_wanted(member)
        cluster.run(random.randrange(600))
        disturb(cluster)
    cluster.network.cut_off.clear()
    cluster.network.loss = 0
    for member in cluster.members.values():
        if member.log is None:
            member.start()
    cluster.run(10_000)
    states = [member.machine.state for member in cluster.members.values()]
    assert states[1:] == states[:-1]
    assert {index: states[0][index - 1] for index in answered} == answered
    assert len(set(states[0])) == len(states[0]), "each at most once"
    assert answered


def propose(log: RaftLog, payload: bytes, answered: dict[int, bytes]) -> None:
    def done(outcome: int | MetadataError) -> None:
        if isinstance(outcome, int):
            assert outcome not in answered
            answered[outcome] = payload

    log.propose(payload, done)


def snapshot_if_wanted(member: RaftMember) -> None:
    log = log_of(member)
    if log.wants_snapshot and log.applied_index:
        log.trim(log.applied_index, member.machine.snapshot())


def disturb(cluster: RaftCluster) -> None:
    random = cluster.random
    member = cluster.member(random.choice((1, 2, 3, 7)))
    what = random.randrange(7)
    if what == 0 and member.log is not None:
        member.crash(power=random.random() < 0.5)
    elif what in {1, 2} and member.log is None:
        member.start()
    elif what == 3:
        cluster.network.cut_off = {member.member_id}
    elif what == 4:
        cluster.network.cut_off.clear()
    elif member.leads:
        change_members(log_of(member), random.randrange(3), random.choice((1, 2, 3)))


def change_members(log: RaftLog, what: int, whom: int) -> None:
    if what == 0:
        log.voters.transfer(PeerId(whom), lambda _: None)
    elif what == 1:
        log.voters.remove_voter(PeerId(whom), lambda _: None)
    else:
        log.voters.add_voter(PeerId(whom), f"host-{whom}:9093", lambda _: None)
