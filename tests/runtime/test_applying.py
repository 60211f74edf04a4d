"""How much of the metadata log a turn of the loop applies: a portion, however much there is."""

import pytest

from penstock.controller.replicated_log import MachineIndex
from penstock.runtime.raft.applying import BYTES_OF_ONE, PORTION
from penstock.runtime.raft.raft_log import RaftLog
from tests.runtime.raft_harness import RaftCluster, RaftMember

COUNT = 5 * PORTION


class Turns:
    """Counts what a member's machine applies in each turn of the loop."""

    def __init__(self, cluster: RaftCluster, member: RaftMember) -> None:
        self.by_turn: dict[int, int] = {}
        apply = member.machine.apply

        def counted(index: int, payload: bytes) -> None:
            turn = cluster.loop.turns
            self.by_turn[turn] = self.by_turn.get(turn, 0) + 1
            apply(index, payload)

        member.machine.apply = counted  # type: ignore[method-assign,assignment]


def log_of(member: RaftMember) -> RaftLog:
    assert member.log is not None
    return member.log


def add(cluster: RaftCluster, member: RaftMember, payload: bytes, count: int) -> None:
    outcomes: list[object] = []
    for _ in range(count):
        log_of(member).propose(payload, outcomes.append)
    cluster.wait(lambda: len(outcomes) == count)
    assert all(isinstance(outcome, int) for outcome in outcomes)


def fallen_behind(payload: bytes, count: int) -> tuple[RaftCluster, RaftMember]:
    """Return a group with a member that was cut off while the others agreed on so many entries."""
    cluster = RaftCluster(3)
    cluster.start()
    leader = cluster.leader()
    behind = next(one for one in cluster.members.values() if one is not leader)
    cluster.network.cut_off.add(behind.member_id)
    add(cluster, leader, payload, count)
    return cluster, behind


@pytest.mark.parametrize(
    ("payload", "count", "in_a_turn"),
    [(b"x", COUNT, PORTION), (bytes(10 * BYTES_OF_ONE), COUNT // 10, PORTION // 11 + 1)],
)
def test_a_member_that_was_cut_off_applies_some_entries_in_each_turn(
    payload: bytes, count: int, in_a_turn: int
) -> None:
    # All that one write made durable was applied at once, while nobody was served.
    cluster, behind = fallen_behind(payload, count)
    turns = Turns(cluster, behind)
    cluster.network.cut_off.clear()
    cluster.wait(lambda: log_of(behind).applied_index == count)
    assert behind.machine.state == [payload] * count
    assert max(turns.by_turn.values()) <= in_a_turn


def test_a_leader_applies_its_own_entries_in_portions_and_answers_each() -> None:
    cluster = RaftCluster(3)
    cluster.start()
    leader = cluster.leader()
    turns = Turns(cluster, leader)
    add(cluster, leader, b"x", COUNT)
    assert sum(turns.by_turn.values()) == COUNT
    assert max(turns.by_turn.values()) <= PORTION


def test_a_start_applies_everything_before_it_returns() -> None:
    cluster = RaftCluster(1)
    cluster.start()
    member = cluster.leader()
    add(cluster, member, b"x", COUNT)
    member.crash()
    member.start()
    assert len(member.machine.state) == COUNT


def test_a_snapshot_that_is_asked_for_amid_a_portion_is_taken_after_it() -> None:
    cluster, behind = fallen_behind(b"x", COUNT)
    log, apply = log_of(behind), behind.machine.apply

    def applied(index: int, payload: bytes) -> None:
        apply(index, payload)
        if index == PORTION // 2:
            log.trim(MachineIndex(index - 1), b",".join(behind.machine.state[:-1]))

    behind.machine.apply = applied  # type: ignore[method-assign,assignment]
    cluster.network.cut_off.clear()
    cluster.wait(lambda: log.applied_index == COUNT)
    cluster.run(1_000)
    assert log.status().snapshot_index > 0
    behind.crash()
    behind.start()
    cluster.wait(lambda: behind.machine.state == [b"x"] * COUNT)
