"""Answers that tell of hundreds of members: made in slices, and the same as short ones."""

from contextlib import ExitStack, closing
from typing import Any

import pytest

from penstock.groups.classic.roll import TOLD_AT_ONCE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.live_node import LiveNode, RawClient

COUNT = 3 * TOLD_AT_ONCE
EACH = 50
"""Joins of one connection, which has a bound for requests that wait."""
METADATA_BYTES = 3_000


def join(group: str, number: int, member_id: str = "") -> dict[str, Any]:
    metadata = number.to_bytes(2, "big") * (METADATA_BYTES // 2)
    return {
        "group_id": group,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }


def joined(node: LiveNode, group: str) -> list[Any]:
    """Have a group of `COUNT` members, who are told its generation; in the order of joining."""
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(node.connect())) for _ in range(COUNT // EACH)]
        for number in range(COUNT):
            clients[number // EACH].send(ApiKey.JOIN_GROUP, 3, join(group, number))
        return [clients[number // EACH].receive(ApiKey.JOIN_GROUP, 3) for number in range(COUNT)]


@pytest.mark.parametrize("again", [False, True])
def test_the_leader_hears_of_hundreds_of_members(
    node: LiveNode, client: RawClient, again: bool
) -> None:
    # The leader who asks a second time, as one whose answer got lost, hears the same.
    answers = joined(node, "g")
    (leader,) = [answer for answer in answers if answer.members]
    told = leader
    if again:
        fields = join("g", answers.index(leader), leader.member_id)
        told = client.ask(ApiKey.JOIN_GROUP, 3, fields)
    metadata = {member.member_id: bytes(member.metadata) for member in told.members}
    assert metadata == {
        one.member_id: join("g", number)["protocols"][0]["metadata"]
        for number, one in enumerate(answers)
    }


def test_large_groups_are_described_whole(node: LiveNode, client: RawClient) -> None:
    ids = [{one.member_id for one in joined(node, group)} for group in ("a", "b")]
    fields = {"groups": ["a", "none", "b", "a"], "include_authorized_operations": False}
    told = client.ask(ApiKey.DESCRIBE_GROUPS, 5, fields).groups
    assert [one.group_id for one in told] == ["a", "none", "b"]
    assert [{each.member_id for each in one.members} for one in told] == [ids[0], set(), ids[1]]
    assert [len(one.members) for one in told] == [COUNT, 0, COUNT]


def test_assignments_that_make_no_record_are_refused_and_the_group_goes_on(
    node: LiveNode, client: RawClient
) -> None:
    answers = joined(node, "g")
    (leader,) = [answer for answer in answers if answer.members]
    fields = {
        "group_id": "g",
        "generation_id": leader.generation_id,
        "member_id": leader.member_id,
        "assignments": [
            {"member_id": answer.member_id, "assignment": bytes(1_000)} for answer in answers
        ],
    }
    error = client.ask(ApiKey.SYNC_GROUP, 2, fields).error_code
    assert error == ErrorCode.MESSAGE_TOO_LARGE
    fields["assignments"] = []
    assert client.ask(ApiKey.SYNC_GROUP, 2, fields).error_code == ErrorCode.REBALANCE_IN_PROGRESS
