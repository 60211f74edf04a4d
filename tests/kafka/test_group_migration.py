"""A group goes from one protocol to the other and back on a running node, by raw requests."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.groups.migration.crew import given, named, said
from tests.kafka.gate_asks import ms, new_topic
from tests.live_node import LiveNode, RawClient, running_node

GROUP, TOPIC = "g", "t"
BOTH = {(TOPIC, 0), (TOPIC, 1)}
OK, BUSY = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def policy() -> str:
    return "bidirectional"


@pytest.fixture
def node(tmp_path: Path, policy: str) -> Iterator[LiveNode]:
    settings = (f"groups.migration_policy={policy}", "groups.initial_rebalance_delay_ms=0")
    with running_node(tmp_path, *settings) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        topic = new_topic(TOPIC) | {"num_partitions": 2}
        client.ask(ApiKey.CREATE_TOPICS, 5, {"topics": [topic], "timeout": ms(9_000)})
        fields = {"key_type": 0, "coordinator_keys": [GROUP]}
        wait_until(
            lambda: client.ask(ApiKey.FIND_COORDINATOR, 4, fields).coordinators[0].error_code == OK,
            UNTIL_SECONDS,
        )
        yield client


def join(client: RawClient, member_id: str = "", metadata: bytes = b"", **more: Any) -> Any:
    fields = {
        "group_id": GROUP,
        "member_id": member_id,
        "session_timeout": ms(30_000),
        "rebalance_timeout": ms(60_000),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata or said(TOPIC)}],
        **more,
    }
    return client.ask(ApiKey.JOIN_GROUP, 3, fields)


def sync(client: RawClient, joined: Any, assignment: bytes | None = None) -> Any:
    fields = {"group_id": GROUP, "generation_id": joined.generation_id}
    led = [] if assignment is None else [{"member_id": joined.member_id, "assignment": assignment}]
    fields |= {"member_id": joined.member_id, "assignments": led}
    return client.ask(ApiKey.SYNC_GROUP, 2, fields)


def beat(client: RawClient, joined: Any) -> ErrorCode:
    fields = {
        "group_id": GROUP,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    return client.ask(ApiKey.HEARTBEAT, 2, fields).error_code


def enter(client: RawClient, epoch: int = 0, **more: Any) -> Any:
    fields: dict[str, Any] = {"group_id": GROUP, "member_id": "new", "member_epoch": epoch}
    if not epoch:
        fields |= {
            "rebalance_timeout": ms(9_000),
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        }
    return client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, fields | more)


def stable(client: RawClient, assignment: bytes = b"", metadata: bytes = b"") -> Any:
    """A classic member that reads both partitions."""
    joined = join(client, metadata=metadata)
    assert (joined.error_code, joined.leader) == (OK, joined.member_id)
    assert sync(client, joined, assignment or given(BOTH)).error_code == OK
    return joined


def listed(client: RawClient) -> tuple[str, str]:
    fields: dict[str, Any] = {"states_filter": [], "types_filter": []}
    (found,) = client.ask(ApiKey.LIST_GROUPS, 5, fields).groups
    return found.group_type, found.group_state


def described(client: RawClient, version: int) -> Any:
    fields = {"group_ids": [GROUP], "include_authorized_operations": False}
    (group,) = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, version, fields).groups
    return group


def test_a_group_goes_there_and_back(client: RawClient) -> None:
    classic = stable(client)
    assert listed(client) == ("classic", "Stable")
    assert enter(client).error_code == OK
    assert listed(client) == ("consumer", "Reconciling")
    group = described(client, 1)
    types = {one.member_id: one.member_type for one in group.members}
    assert types == {classic.member_id: 0, "new": 1}
    assert described(client, 0).members
    (old,) = client.ask(
        ApiKey.DESCRIBE_GROUPS, 6, {"groups": [GROUP], "include_authorized_operations": False}
    ).groups
    assert old.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert beat(client, classic) == BUSY
    again = join(client, classic.member_id)
    assert (again.error_code, again.leader, list(again.members)) == (OK, "", [])
    assert again.generation_id == classic.generation_id + 1
    mine = named(sync(client, again).assignment)
    assert len(mine) == 1
    assert beat(client, again) == OK
    taken = enter(client, again.generation_id).assignment.topic_partitions
    assert mine | {(TOPIC, number) for one in taken for number in one.partitions} == BOTH
    assert listed(client) == ("consumer", "Stable")
    assert enter(client, -1).error_code == OK
    assert listed(client) == ("classic", "PreparingRebalance")
    assert beat(client, again) == BUSY
    back = join(client, classic.member_id)
    assert (back.error_code, back.leader) == (OK, classic.member_id)
    assert sync(client, back, given(BOTH)).error_code == OK
    assert listed(client) == ("classic", "Stable")


@pytest.mark.parametrize(
    ("assignment", "metadata", "reason"),
    [
        (given(BOTH)[:-4] + b"\x00\x00\x00\x01x", b"", "unsupported custom assignor"),
        (b"\x00", b"", "protocol is malformed"),
        (b"", b"\x00", "protocol is malformed"),
    ],
)
def test_a_group_that_can_not_be_converted_says_why(
    client: RawClient, assignment: bytes, metadata: bytes, reason: str
) -> None:
    classic = stable(client, assignment, metadata)
    answer = enter(client)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert reason in answer.error_message
    assert beat(client, classic) == OK


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_keeps_a_group_as_it_is(client: RawClient) -> None:
    classic = stable(client)
    answer = enter(client)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in answer.error_message
    assert beat(client, classic) == OK


@pytest.mark.parametrize("policy", ["upgrade"])
def test_a_policy_lets_classic_members_live_on(client: RawClient) -> None:
    classic = stable(client)
    enter(client)
    again = join(client, classic.member_id)
    assert enter(client, -1).error_code == OK
    assert beat(client, again) == BUSY
    last = join(client, again.member_id)
    assert named(sync(client, last).assignment) == BOTH
    assert listed(client) == ("consumer", "Stable")
    left = client.ask(ApiKey.LEAVE_GROUP, 2, {"group_id": GROUP, "member_id": last.member_id})
    assert left.error_code == OK
    # As in a classic group, the answer does not wait until the leave is durable.
    assert wait_until(lambda: beat(client, last) == ErrorCode.UNKNOWN_MEMBER_ID, UNTIL_SECONDS)


@pytest.mark.parametrize("policy", ["disabled"])
def test_a_classic_member_is_refused_where_conversions_are_disabled(client: RawClient) -> None:
    assert enter(client).error_code == OK
    assert join(client).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
