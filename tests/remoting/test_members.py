"""Heartbeats, members of groups, what consumers want."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.errors import MalformedBody
from penstock.remoting.heartbeat import (
    GROUPS_MAX,
    SUBSCRIPTIONS_MAX,
    ConsumerGroup,
    Heartbeat,
    Subscription,
    read_heartbeat,
)
from penstock.remoting.members import (
    EXPIRY_MS,
    LEAVE_TOGETHER,
    LOOKED_AT,
    GroupMembers,
    TooManyMembers,
)


def beat(client_id: str, *groups: str, topic: str = "t") -> Heartbeat:
    """A heartbeat of a consumer of these groups."""
    subscriptions = (Subscription(topic),)
    return Heartbeat(
        client_id, tuple(ConsumerGroup(one, subscriptions=subscriptions) for one in groups)
    )


def test_a_heartbeat_is_read() -> None:
    body = {
        "clientID": "10.0.0.1@7",
        "consumerDataSet": [
            {
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
                "consumeType": "CONSUME_PASSIVELY",
                "groupName": "g",
                "messageModel": "CLUSTERING",
                "subscriptionDataSet": [
                    {
                        "classFilterMode": False,
                        "codeSet": [97],
                        "expressionType": "TAG",
                        "subString": "a",
                        "subVersion": 1,
                        "tagsSet": ["a"],
                        "topic": "t",
                    }
                ],
                "unitMode": False,
            }
        ],
        "producerDataSet": [{"groupName": "p"}],
    }
    heartbeat = read_heartbeat(json.dumps(body).encode())
    assert heartbeat.client_id == "10.0.0.1@7"
    assert heartbeat.consumers == (
        ConsumerGroup(
            "g",
            consume_from_where="CONSUME_FROM_FIRST_OFFSET",
            subscriptions=(Subscription("t", "a", "TAG", 1),),
        ),
    )
    assert [one.group_name for one in heartbeat.producers] == ["p"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"clientID": ""}',
        b'{"clientID": "\xff"}',
        b'{"clientID": 7}',
        b'{"clientID": "c", "x": ' + b"[" * 100_000,
        json.dumps({"clientID": "c" * 256}).encode(),
        json.dumps({"clientID": "c", "producerDataSet": [{"groupName": ""}]}).encode(),
        json.dumps(
            {"clientID": "c", "producerDataSet": [{"groupName": "g"}] * (GROUPS_MAX + 1)}
        ).encode(),
        json.dumps(
            {
                "clientID": "c",
                "consumerDataSet": [
                    {
                        "groupName": "g",
                        "subscriptionDataSet": [{"topic": "t"}] * (SUBSCRIPTIONS_MAX + 1),
                    }
                ],
            }
        ).encode(),
    ],
)
def test_other_bodies_are_malformed(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        read_heartbeat(body)


@given(st.binary(max_size=60))
def test_any_body_is_a_heartbeat_or_malformed(body: bytes) -> None:
    try:
        heartbeat = read_heartbeat(body)
    except MalformedBody:
        return
    assert heartbeat.client_id


def test_a_first_heartbeat_changes_a_group_and_the_next_ones_do_not() -> None:
    members: GroupMembers[str] = GroupMembers()
    assert members.note(beat("a", "g", "h"), "one", 0) == ["g", "h"]
    assert members.note(beat("a", "g", "h"), "one", 1) == []
    assert members.note(beat("b", "g"), "two", 2) == ["g"]
    assert members.client_ids("g") == ["a", "b"]
    assert members.connections("g") == ["one", "two"]
    assert members.count == 3


def test_another_subscription_changes_a_group() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g"), "one", 0)
    assert members.note(beat("a", "g", topic="other"), "one", 1) == ["g"]


def test_a_member_ends_with_its_connection_unless_it_has_a_newer_one() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g"), "one", 0)
    members.note(beat("b", "g"), "two", 0)
    members.note(beat("a", "g"), "three", 1)
    assert members.closed("one") == []
    assert members.closed("two") == ["g"]
    assert members.client_ids("g") == ["a"]
    assert members.closed("three") == ["g"]
    assert (members.client_ids("g"), members.count) == ([], 0)


def test_a_silent_member_ends() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g"), "one", 0)
    members.note(beat("b", "g"), "two", 5)
    assert members.expire(EXPIRY_MS - 1) == []
    assert members.expire(EXPIRY_MS) == ["g"]
    assert members.client_ids("g") == ["b"]


def test_a_client_may_say_that_it_leaves() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g", "h"), "one", 0)
    assert members.leave("a", "g", "two") == [], "that is another client's connection"
    assert members.leave("a", "g", "one") == ["g"]
    assert members.leave("a", "g", "one") == []
    assert (members.client_ids("g"), members.client_ids("h")) == ([], ["a"])


def test_members_have_a_largest_number() -> None:
    members: GroupMembers[str] = GroupMembers(memberships_max=2)
    members.note(beat("a", "g", "h"), "one", 0)
    with pytest.raises(TooManyMembers):
        members.note(beat("b", "g"), "two", 0)
    assert members.note(beat("a", "g", "h"), "one", 1) == [], "those that are there go on"
    members.leave("a", "h", "one")
    assert members.note(beat("b", "g"), "two", 0) == ["g"]


def test_a_user_leaves_room_for_members_of_others() -> None:
    members: GroupMembers[str] = GroupMembers(memberships_max=4)
    members.note(beat("a", "f", "g", "h"), "one", 0, "alice")
    with pytest.raises(TooManyMembers):
        members.note(beat("b", "g"), "two", 0, "alice")
    members.note(beat("b", "g"), "two", 0, "bob")
    assert members.note(beat("a", "f", "g", "h"), "one", 1, "alice") == [], "who is there goes on"
    members.closed("two")
    members.note(beat("a", "g"), "three", 1, "bob")
    assert members.note(beat("b", "g"), "one", 1, "alice") == ["g"], "bob has taken one over"
    members.closed("one")
    members.closed("three")
    assert (members.count, members.bytes_now) == (0, 0)


def test_a_user_leaves_memory_for_members_of_others() -> None:
    members: GroupMembers[str] = GroupMembers(bytes_max=1 << 30)
    members.note(beat("a", "g"), "one", 0, "alice")
    members.bytes_max = members.bytes_now * 4
    members.note(beat("b", "g"), "two", 0, "alice")
    members.note(beat("c", "g"), "two", 0, "alice")
    with pytest.raises(TooManyMembers):
        members.note(beat("d", "g"), "two", 0, "alice")
    members.note(beat("d", "g"), "two", 0, "bob")
    with pytest.raises(TooManyMembers):
        members.note(beat("e", "g"), "two", 0, "bob")


def test_what_a_member_wants_is_found_by_the_connection_that_it_was_last_heard_on() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g", topic="first"), "one", 0)
    members.note(beat("b", "g", topic="second"), "two", 0)
    assert members.subscription("one", "g", "first") == Subscription("first")
    assert members.subscription("two", "g", "second") == Subscription("second")
    assert members.subscription("one", "g", "second") is None, "another topic"
    assert members.subscription("one", "h", "first") is None, "another group"
    members.note(beat("a", "g", topic="first"), "three", 1)
    assert members.subscription("one", "g", "first") is None, "it is heard elsewhere"
    assert members.subscription("three", "g", "first") == Subscription("first")
    members.closed("three")
    assert members.subscription("three", "g", "first") is None
    members.leave("b", "g", "two")
    assert members.subscription("two", "g", "second") is None


def test_of_two_members_on_one_connection_the_one_that_was_heard_last_is_asked() -> None:
    members: GroupMembers[str] = GroupMembers()
    members.note(beat("a", "g", topic="first"), "one", 0)
    members.note(beat("b", "g", topic="second"), "one", 0)
    assert members.subscription("one", "g", "second") == Subscription("second")
    members.leave("a", "g", "one")
    assert members.subscription("one", "g", "second") == Subscription("second")
    members.leave("b", "g", "one")
    assert members.subscription("one", "g", "second") is None


def test_members_of_a_connection_leave_some_at_a_time() -> None:
    members: GroupMembers[str] = GroupMembers()
    names = [f"g{one}" for one in range(LEAVE_TOGETHER + 1)]
    members.note(beat("a", *names), "one", 0)
    members.note(beat("b", "g0"), "two", 0)
    assert members.closed("one") == names[:LEAVE_TOGETHER]
    assert members.is_heard("one")
    assert members.closed("one") == names[LEAVE_TOGETHER:]
    assert not members.is_heard("one")
    assert members.closed("one") == []
    assert (members.count, members.client_ids("g0")) == (1, ["b"])


def test_silent_members_are_found_some_at_a_time() -> None:
    members: GroupMembers[str] = GroupMembers(bytes_max=1 << 30)
    names = [f"g{one}" for one in range(LOOKED_AT + 1)]
    members.note(beat("a", *names), "one", 0)
    assert members.expire(EXPIRY_MS - 1) == []
    members.note(beat("a", names[0]), "one", 1)
    assert members.expire(EXPIRY_MS) == [names[-1], *names[1:-2]]
    assert members.expire(EXPIRY_MS) == [names[-2]]
    assert members.client_ids(names[0]) == ["a"]
    assert members.expire(EXPIRY_MS + 1) == [names[0]]
    assert (members.count, members.bytes_now) == (0, 0)
