"""Share groups on a live node, in plain requests: members, administrators, deletion."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.kafka.sharing import ACCEPT, Member, Range, ranges, set_group
from tests.kafka.test_produce_fetch import batch, create, produce
from tests.live_node import LiveNode, RawClient

OK = ErrorCode.NONE


@pytest.fixture
def topic(node: LiveNode, client: RawClient) -> bytes:
    set_group(node, "share.auto.offset.reset", "earliest")
    topic_id = create(node, "t")
    find = {"key_type": 0, "coordinator_keys": ["g"]}
    (found,) = client.ask(ApiKey.FIND_COORDINATOR, 6, find).coordinators
    assert found.error_code == OK
    return topic_id


def beat(client: RawClient, epoch: int, topics: Sequence[str] | None = None) -> Any:
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": epoch,
        "subscribed_topic_names": topics,
    }
    return client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields)


def joined(client: RawClient) -> int:
    answer = beat(client, 0, ["t"])
    assert answer.error_code == OK
    return int(answer.member_epoch)


def offsets(client: RawClient, topics: Any = None, version: int = 1) -> Any:
    asked = {"groups": [{"group_id": "g", "topics": topics}]}
    (group,) = client.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, asked).groups
    return group


def partition(group: Any) -> Any:
    ((found,),) = [one.partitions for one in group.topics]
    return found


def alter(client: RawClient, offset: int, number: int = 0, topic: str = "t") -> Any:
    partitions = [{"partition_index": number, "start_offset": offset}]
    topics = [{"topic_name": topic, "partitions": partitions}]
    fields = {"group_id": "g", "topics": topics}
    return client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, fields)


def delete_offsets(client: RawClient, *names: str) -> Any:
    fields = {"group_id": "g", "topics": [{"topic_name": name} for name in names]}
    return client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, fields)


def delete_group(client: RawClient) -> ErrorCode:
    (result,) = client.ask(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}).results
    return ErrorCode(result.error_code)


def test_a_member_joins_is_described_and_leaves(client: RawClient, topic: bytes) -> None:
    answer = beat(client, 0, ["t"])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (OK, "m", 1)
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id.bytes, assigned.partitions) == (topic, (0,))
    asked = {"group_ids": ["g", "none"], "include_authorized_operations": False}
    group, none = client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, asked).groups
    assert none.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (group.group_state, group.assignor_name, group.group_epoch) == ("Stable", "simple", 1)
    (member,) = group.members
    assert (member.member_id, member.subscribed_topic_names) == ("m", ("t",))
    assert [one.topic_name for one in member.assignment.topic_partitions] == ["t"]
    listed = client.ask(ApiKey.LIST_GROUPS, 5, {"states_filter": [], "types_filter": ["share"]})
    assert [(one.group_id, one.group_type) for one in listed.groups] == [("g", "share")]
    assert beat(client, -1).error_code == OK
    assert beat(client, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_tell_where_a_share_is_and_how_much_is_left(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b", b"c"))
    joined(client)
    found = partition(offsets(client))
    assert (found.start_offset, found.lag, found.error_code) == (-1, -1, OK)
    member = Member(client, topic)
    assert ranges(member.open(0)) == [Range(0, 2, 1)]
    assert member.say(0, 0, ACCEPT) == OK
    found = partition(offsets(client))
    assert (found.start_offset, found.lag) == (1, 2)
    assert partition(offsets(client, version=0)).start_offset == 1
    named = [{"topic_name": "t", "partitions": [0, 7]}, {"topic_name": "x", "partitions": [0]}]
    known, unknown = offsets(client, named).topics
    codes = [one.error_code for one in (*known.partitions, *unknown.partitions)]
    assert codes == [OK, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2]


def test_what_a_member_that_leaves_held_comes_to_the_next_one(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a"))
    joined(client)
    assert ranges(Member(client, topic, name="m").open(0)) == [Range(0, 0, 1)]
    assert beat(client, -1).error_code == OK
    other = Member(client, topic, name="other")
    got = ranges(other.open(0, max_wait=datetime.timedelta(seconds=5)))
    assert got == [Range(0, 0, 2)]


def test_only_an_empty_group_is_moved_also_back_and_its_offsets_are_deleted(
    client: RawClient, topic: bytes
) -> None:
    produce(client, "t", batch(b"a", b"b"))
    assert delete_offsets(client, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    joined(client)
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 1, ACCEPT) == OK
    assert alter(client, 0).error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(client, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete_group(client) == ErrorCode.NON_EMPTY_GROUP
    beat(client, -1)
    answer = alter(client, 0)
    assert (answer.error_code, partition(_of(answer)).error_code) == (OK, OK)
    assert partition(offsets(client)).start_offset == 0
    for bad in (alter(client, 0, 9), alter(client, 0, 0, "x")):
        assert partition(_of(bad)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    done, unknown = delete_offsets(client, "t", "x").responses
    assert (done.error_code, unknown.error_code) == (OK, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert offsets(client).topics == ()
    (again,) = delete_offsets(client, "t").responses
    assert again.error_message == "There is no offset information to delete."


def test_a_group_may_have_its_place_before_its_first_member(
    client: RawClient, topic: bytes
) -> None:
    """As in Kafka; franz-go's TestShareGroupOffsetsAdmin asks for it."""
    produce(client, "t", batch(b"a", b"b", b"c"))
    answer = alter(client, 1)
    assert (answer.error_code, partition(_of(answer)).error_code) == (OK, OK)
    assert partition(offsets(client)).start_offset == 1
    joined(client)
    assert ranges(Member(client, topic).open(0)) == [Range(1, 2, 1)]


def test_a_group_is_not_made_for_a_topic_that_is_not_there(client: RawClient) -> None:
    unknown = alter(client, 0, 0, "x")
    assert partition(_of(unknown)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert offsets(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def _of(answer: Any) -> Any:
    class Group:
        topics = answer.responses

    return Group


def test_a_group_that_is_deleted_leaves_no_share(client: RawClient, topic: bytes) -> None:
    produce(client, "t", batch(b"a"))
    joined(client)
    member = Member(client, topic)
    member.open(0)
    assert member.say(0, 0, ACCEPT) == OK
    beat(client, -1)
    assert delete_group(client) == OK
    assert offsets(client).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    joined(client)
    assert partition(offsets(client)).start_offset == -1
    assert ranges(Member(client, topic, name="n").open(0)) == [Range(0, 0, 1)]
