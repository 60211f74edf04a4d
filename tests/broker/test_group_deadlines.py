"""Deadlines of groups are met when they are due, and not at the next round tick."""

import pytest

from penstock.broker.sets.housekeeping import DEADLINE_TICK_MIN_MS, Housekeeping
from penstock.groups.deadlines import DeadlineKey, DeadlineKind
from penstock.protocol.api_keys import ApiKey
from tests.broker.cluster import Cluster, Node
from tests.broker.test_group_ownership import GROUP, join, started


def members(node: Node) -> int:
    answer = node.ask(ApiKey.DESCRIBE_GROUPS, 0, {"groups": [GROUP]})
    return len(answer.groups[0].members)


def session_of_the_member(node: Node) -> DeadlineKey:
    answer = node.ask(ApiKey.DESCRIBE_GROUPS, 0, {"groups": [GROUP]})
    (member,) = answer.groups[0].members
    return DeadlineKey(DeadlineKind.SESSION, GROUP, member.member_id)


def member_of_a_stable_group(cluster: Cluster) -> Node:
    node = cluster.nodes[0]
    asked = join(node)
    cluster.world.advance(1_000)
    fields = {"group_id": GROUP, "member_id": asked.answer.member_id}
    fields |= {"generation_id": asked.answer.generation_id}
    given = [{"member_id": asked.answer.member_id, "assignment": b"all"}]
    synced = node.send(ApiKey.SYNC_GROUP, 2, fields | {"assignments": given})
    cluster.replicate()
    assert synced.answer.error_code == 0
    assert members(node) == 1
    return node


@pytest.mark.parametrize("offset_ms", [0, 1, 17, 50, 99])
def test_a_session_ends_when_it_is_over(offset_ms: int) -> None:
    cluster = started()
    housekeeping = Housekeeping(cluster.nodes[0].broker)
    housekeeping.start()
    cluster.world.advance(offset_ms)  # where the round ticks fall is not where sessions begin
    node = member_of_a_stable_group(cluster)
    due_ms = node.broker.groups.runtime.base.deadlines.at(session_of_the_member(node))
    assert due_ms is not None
    cluster.world.advance(due_ms - 1 - cluster.world.monotonic_ms())
    assert members(node) == 1
    cluster.world.advance(1 + DEADLINE_TICK_MIN_MS)
    assert members(node) == 0
    housekeeping.stop()


def test_a_stopped_housekeeping_ends_no_session() -> None:
    cluster = started()
    housekeeping = Housekeeping(cluster.nodes[0].broker)
    housekeeping.start()
    node = member_of_a_stable_group(cluster)
    cluster.world.advance(29_990)
    housekeeping.stop()
    cluster.world.advance(60_000)
    assert members(node) == 1
