"""Groups whose consumers get the messages of a message group one after another."""

import pytest
from rocketmq.grpc_protocol import definition_pb2 as definition

from harness.waiting import wait_until
from penstock.controller.commands.command import AlterConfigs, ConfigEdit, ResourceEdits
from penstock.controller.metadata.records import ResourceType
from tests.grpc.receiving import OK, Member, send
from tests.grpc.served import Caller, message
from tests.live_node import UNTIL_SECONDS, LiveNode

PARTITIONS = 1
GROUP = "in-order"


def configure(node: LiveNode, group: str, key: str, value: str) -> None:
    edits = ResourceEdits(
        resource_type=ResourceType.GROUP,
        resource_name=group,
        edits=(ConfigEdit(key=key, operation=0, value=value),),
    )
    (outcome,) = node.submit(AlterConfigs(resources=(edits,)))
    assert outcome.error is None


@pytest.fixture(scope="module", autouse=True)
def ordered(node: LiveNode) -> None:
    configure(node, GROUP, "rmq.pop.ordered", "true")


@pytest.fixture
def first(caller: Caller) -> Member:
    return Member(caller, group=GROUP)


@pytest.fixture
def second(caller: Caller) -> Member:
    return Member(caller, "two@2", group=GROUP)


def sent(caller: Caller, topic: str, *bodies: str) -> None:
    """Messages of the group that is their first letter."""
    for body in bodies:
        one = message(topic, body.encode(), message_group=body[0], message_type=definition.FIFO)
        assert caller.send(one).status.code == OK


def test_consumers_are_told_that_their_group_keeps_the_order(node, caller, first, one) -> None:
    with first.settled() as told:
        assert told.settings.subscription.fifo
    with one.settled() as told:
        assert not told.settings.subscription.fifo


def test_of_each_message_group_one_is_out_and_the_next_comes_when_that_is_over(
    caller, first, second, topic
) -> None:
    sent(caller, topic, "a1", "a2", "b1", "a3", "b2")
    got = first.receive(topic)
    assert got.bodies == ["a1", "b1"]
    assert second.receive(topic, 0).messages == [], "both groups are busy"
    assert first.ack(topic, got.handles[1]).status.code == OK
    again = second.receive(topic)
    assert again.bodies == ["b2"]
    assert first.ack(topic, got.handles[0]).status.code == OK
    third = first.receive(topic)
    assert third.bodies == ["a2"]
    assert first.ack(topic, *third.handles).status.code == OK
    assert second.receive(topic).bodies == ["a3"]


def test_who_waits_gets_the_next_one_as_soon_as_it_may(caller, first, second, topic) -> None:
    sent(caller, topic, "a1", "a2")
    got = first.receive(topic)
    waiting = second.begin(topic)
    assert first.ack(topic, *got.handles).status.code == OK
    bodies = [one.message.body for one in waiting if one.HasField("message")]
    assert bodies == [b"a2"]


def test_one_that_fails_comes_again_before_those_behind_it(caller, first, second, topic) -> None:
    sent(caller, topic, "a1", "a2")
    (handle,) = first.receive(topic).handles
    assert first.change(topic, handle, 0).status.code == OK
    (again,) = second.receive(topic).messages
    assert (again.body, again.system_properties.delivery_attempt) == (b"a1", 2)


def test_one_that_waits_for_its_next_attempt_keeps_its_group_and_no_other(
    caller, first, second, topic
) -> None:
    sent(caller, topic, "a1", "a2", "b1")
    got = first.receive(topic)
    assert first.change(topic, got.handles[0], 600).status.code == OK
    assert first.ack(topic, got.handles[1]).status.code == OK
    sent(caller, topic, "b2")
    assert second.receive(topic).bodies == ["b2"]
    assert second.receive(topic, 0).messages == []


def test_one_that_is_given_up_lets_the_next_one_come(caller, first, topic) -> None:
    sent(caller, topic, "a1", "a2")
    (handle,) = first.receive(topic).handles
    assert first.forward(topic, handle).status.code == OK
    assert first.receive(topic).bodies == ["a2"]
    reader = Member(caller, group="undertaker")
    assert wait_until(lambda: "a1" in reader.receive(f"rmq.dlq.{GROUP}").bodies, UNTIL_SECONDS)


def test_messages_without_a_group_wait_for_nobody(caller, first, topic) -> None:
    send(caller, topic, "x", "y", "z")
    assert first.receive(topic).bodies == ["x", "y", "z"]


def test_messages_that_are_not_wanted_hold_nobody(caller, first, topic) -> None:
    for number, tag in enumerate(["no", "no", "yes", "no", "yes"]):
        one = message(
            topic,
            b"%d" % number,
            message_group="a",
            message_type=definition.FIFO,
            tag=tag,
        )
        assert caller.send(one).status.code == OK
    wanted = definition.FilterExpression(type=definition.TAG, expression="yes")
    got = first.receive(topic, filter_expression=wanted)
    assert got.bodies == ["2"]
    assert first.ack(topic, *got.handles).status.code == OK
    assert first.receive(topic, filter_expression=wanted).bodies == ["4"]


def test_hundreds_behind_one_of_their_group_keep_no_other_group_waiting(
    caller, first, second, topic
) -> None:
    sent(caller, topic, "a0")
    (handle,) = first.receive(topic).handles
    batch = [
        message(topic, b"a%d" % n, message_group="a", message_type=definition.FIFO)
        for n in range(1, 101)
    ]
    for _ in range(5):
        assert caller.send(*batch).status.code == OK
    sent(caller, topic, "b1")
    assert second.receive(topic, 0).bodies == ["b1"], "also for who does not wait"
    assert first.ack(topic, handle).status.code == OK
    assert first.receive(topic).bodies == ["a1"]


def test_each_message_of_many_groups_comes_once_and_in_its_order(caller, first, topic) -> None:
    bodies = [f"{group}{n}" for n in range(12) for group in "abcdefg"]
    sent(caller, topic, *bodies)
    got: list[str] = []
    while len(got) < len(bodies):
        received = first.receive(topic)
        assert len({body[0] for body in received.bodies}) == len(received.bodies), "one of each"
        assert first.ack(topic, *received.handles).status.code == OK
        got += received.bodies
    for group in "abcdefg":
        assert [one for one in got if one[0] == group] == [f"{group}{n}" for n in range(12)]


def test_a_queue_in_which_the_group_has_begun_stays_as_it_is(node, caller, topic) -> None:
    member = Member(caller, group="late")
    sent(caller, topic, "a1")
    assert member.receive(topic).bodies == ["a1"]
    configure(node, "late", "rmq.pop.ordered", "true")
    sent(caller, topic, "a2")
    assert member.receive(topic).bodies == ["a2"]


def test_who_asks_again_with_the_same_attempt_id_gets_the_same_messages(
    caller, first, second, topic
) -> None:
    sent(caller, topic, "a1", "a2", "b1")
    got = first.receive(topic, attempt_id="one")
    again = first.receive(topic, 0, attempt_id="one")
    assert (again.bodies, again.handles) == (["a1", "b1"], got.handles)
    assert first.receive(topic, 0, attempt_id="two").messages == []
    assert second.receive(topic, 0, attempt_id="one").messages == [], "of another client"
    assert first.ack(topic, got.handles[0]).status.code == OK
    assert first.receive(topic, attempt_id="one").bodies == ["a2"], "it has had its answer"


def test_an_attempt_whose_messages_are_given_back_is_over(caller, first, second, topic) -> None:
    sent(caller, topic, "a1")
    (handle,) = first.receive(topic, attempt_id="one").handles
    assert first.change(topic, handle, 0).status.code == OK
    (again,) = first.receive(topic, attempt_id="one").messages
    assert again.system_properties.delivery_attempt == 2


def test_attempts_of_groups_without_order_are_not_kept(node, caller, topic) -> None:
    member = Member(caller, group="plain")
    sent(caller, topic, "a1")
    assert member.receive(topic, attempt_id="one").bodies == ["a1"]
    assert member.receive(topic, 0, attempt_id="one").messages == []


def test_an_attempt_id_has_a_bound(first, topic) -> None:
    assert first.receive(topic, 0, attempt_id="x" * 256).code == definition.BAD_REQUEST


def test_a_push_consumer_that_ends_gives_back_what_its_attempt_has(
    caller, first, second, topic
) -> None:
    sent(caller, topic, "a1", "a2")
    with first.settled():
        assert first.receive(topic, auto_renew=True, attempt_id="one").bodies == ["a1"]
        assert first.end().status.code == OK
        assert second.receive(topic).bodies == ["a1"]
        assert first.receive(topic, 0, attempt_id="one").messages == []
