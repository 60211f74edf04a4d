"""What a node answers to clients that pop."""

import asyncio
from contextlib import closing
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from harness.waiting import wait_until
from penstock.base.ids import ReplicaSetId
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.turns import Pace
from penstock.controller.commands.command import DeleteTopics, TopicReference
from penstock.controller.errors import MetadataUnavailable
from penstock.node.pages.pop_metrics import pop_metrics
from penstock.remoting.front import RemotingFront
from penstock.remoting.later.places import Places, Use
from penstock.remoting.pop.popping import Part, Popping
from penstock.remoting.pop.pops import Pops
from penstock.remoting.pop.receipts import nonce_of
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.properties import read_properties
from penstock.shares.answers import Claim, Say
from penstock.shares.messages import Answer, Described
from penstock.shares.state import ShareKey
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.popping import (
    POP,
    SHORT_MS,
    Popped,
    ack,
    asked,
    change,
    change_of,
    forget_policies,
    join,
    pop,
    send,
    set_group,
)
from tests.remoting.served import SET, Remote, pull


def test_what_is_popped_and_acknowledged_does_not_come_again(
    remote: Remote, other: Remote, topic: str
) -> None:
    send(remote, topic, "a", "b", "c")
    popped = pop(remote, topic)
    assert popped.bodies == ["a", "b", "c"]
    assert [one.reconsume_times for one in popped.messages] == [0, 0, 0]
    regions = [read_properties(one.properties).get("MSG_REGION") for one in popped.messages]
    assert regions == ["DefaultRegion"] * 3, "clients trace the consumption of no others"
    assert pop(other, topic, pollTime=0).code is ResponseCode.POLLING_TIMEOUT, "invisible"
    for receipt in popped.receipts:
        assert ack(other, topic, receipt).code == ResponseCode.SUCCESS, "from any connection"
    assert pop(other, topic, pollTime=0).messages == []


def test_what_is_not_acknowledged_in_time_comes_again_and_tells_how_often(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, "a", "b")
    (first,) = pop(remote, topic, maxMsgNums=1).receipts
    (second,) = pop(remote, topic, maxMsgNums=1, invisibleTime=SHORT_MS).receipts
    assert ack(remote, topic, first).code == ResponseCode.SUCCESS
    again = pop(remote, topic)
    assert again.bodies == ["b"]
    assert [one.reconsume_times for one in again.messages] == [1]
    stale = ack(remote, topic, second)
    assert stale.code == ResponseCode.NO_MESSAGE
    assert "invalid receipt handle" in (stale.remark or "")
    assert ack(remote, topic, again.receipts[0]).code == ResponseCode.SUCCESS


def test_a_pop_waits_for_messages(remote: Remote, other: Remote, topic: str, pops: Pops) -> None:
    opaque = remote.send(POP, asked(topic))
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    send(other, topic, "late", queue=1)
    answer = remote.receive_answer()
    assert answer.opaque == opaque
    assert Popped(answer).bodies == ["late"]


def test_what_comes_back_while_another_pop_waits_for_its_turn_is_read_before_it_is_handed_out(
    node: LiveNode, remote: Remote, other: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was handed out unread: the connection of the other one ended with an internal error."""
    send(remote, topic, "a", "b")
    first = pop(remote, topic, maxMsgNums=1)
    assert first.bodies == ["a"]
    step = Pace.step
    came_back: list[bool] = []

    async def stepping(pace: Pace, count: int = 1) -> None:
        if count > 1 and not came_back:
            came_back.append(True)
            back = partial(change, remote, topic, first.receipts[0], 0)
            assert (await asyncio.to_thread(back)).code == ResponseCode.SUCCESS
        await step(pace, count)

    monkeypatch.setattr(Pace, "step", stepping)
    bodies = pop(other, topic).bodies
    bodies += [] if len(bodies) == 2 else pop(other, topic).bodies
    assert (sorted(bodies), came_back) == (["a", "b"], [True])
    assert "unhandled" not in node.call(lambda: dict(node.broker.stats.request_errors))


def test_each_group_pops_all_messages(remote: Remote, topic: str) -> None:
    send(remote, topic, "a")
    assert [pop(remote, topic, consumerGroup=group).bodies for group in "xy"] == [["a"], ["a"]]


def test_what_has_another_tag_is_not_popped_and_not_left_behind(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    send(remote, topic, "a", tag="red")
    send(remote, topic, *map(str, range(40)), tag="blue")
    send(remote, topic, "b", tag="red")
    popped = pop(remote, topic, exp="red", expType="TAG")
    assert popped.bodies == ["a", "b"]
    assert pop(remote, topic, pollTime=0).messages == [], "the others are done with"
    for receipt in popped.receipts:
        assert ack(remote, topic, receipt).code == ResponseCode.SUCCESS
    assert start_of(node, topic) == 42, "nothing is open"


def test_a_tag_that_one_client_does_not_want_is_left_with_the_client_that_has_it(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, "a", tag="blue")
    receipt = pop(remote, topic).receipts[0]
    send(remote, topic, "b", tag="red")
    assert pop(remote, topic, exp="red", expType="TAG").bodies == ["b"]
    assert change(remote, topic, receipt, 0).code == ResponseCode.SUCCESS, "it still has it"
    assert pop(remote, topic).bodies == ["a"]


def test_a_group_begins_at_the_end_if_its_client_says_so_and_at_its_position_if_it_has_one(
    remote: Remote, topic: str
) -> None:
    send(remote, topic, "a", "b", "c")
    opaque = remote.send(POP, asked(topic, consumerGroup="late", initMode=1, pollTime=3_000))
    assert Popped(remote.receive_answer()).messages == [], opaque
    position = {"consumerGroup": "before", "topic": topic, "queueId": 0, "bname": SET}
    told = remote.ask(RequestCode.UPDATE_CONSUMER_OFFSET, position | {"commitOffset": 2})
    assert told.code == ResponseCode.SUCCESS
    assert pop(remote, topic, consumerGroup="before").bodies == ["c"]
    send(remote, topic, "d")
    assert pop(remote, topic, consumerGroup="late", initMode=1).bodies == ["d"]


def test_one_queue_is_popped_if_the_client_names_it(remote: Remote, topic: str) -> None:
    send(remote, topic, "a", queue=0)
    send(remote, topic, "b", queue=1)
    assert pop(remote, topic, queueId=1).bodies == ["b"]
    assert pop(remote, topic, queueId=1, pollTime=0).messages == []
    assert pop(remote, topic, queueId=0).bodies == ["a"]


def test_no_more_are_popped_than_the_client_wants(remote: Remote, topic: str) -> None:
    send(remote, topic, "a", "b", "c")
    popped = pop(remote, topic, maxMsgNums=2)
    assert (popped.bodies, popped.fields["restNum"]) == (["a", "b"], "1")
    assert pop(remote, topic, maxMsgNums=2).bodies == ["c"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"order": "true"}, ResponseCode.SYSTEM_ERROR),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 9}, ResponseCode.TOPIC_NOT_EXIST),
        ({"consumerGroup": ""}, ResponseCode.SYSTEM_ERROR),
        ({"consumerGroup": "g" * 70_000}, ResponseCode.SYSTEM_ERROR),
        ({"exp": "a > 1", "expType": "NONE"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"invisibleTime": "soon"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_what_can_not_be_popped_is_refused(
    remote: Remote, topic: str, fields: dict[str, object], code: ResponseCode
) -> None:
    answer = remote.ask(POP, asked(topic) | fields)
    assert (ResponseCode(answer.code), bool(answer.remark)) == (code, True)


def test_pops_beyond_those_that_may_wait_are_told_so(
    remote: Remote, topic: str, pops: Pops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.remoting.handlers.pop.WAITING_MAX", 0)
    assert pop(remote, topic).code is ResponseCode.POLLING_FULL
    send(remote, topic, "a")
    assert pop(remote, topic).bodies == ["a"], "what is there is popped all the same"


def test_pops_of_clients_that_have_gone_wait_no_longer_and_take_nothing(
    served: tuple[LiveNode, str], remote: Remote, topic: str, pops: Pops
) -> None:
    with closing(Remote(served[1])) as gone:
        gone.send(POP, asked(topic, pollTime=30_000))
        assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    assert wait_until(lambda: pops.waiting == 0, UNTIL_SECONDS)
    send(remote, topic, "a")
    assert pop(remote, topic).bodies == ["a"]


def test_a_notification_waits_and_takes_nothing(
    remote: Remote, other: Remote, topic: str, pops: Pops
) -> None:
    fields = {"consumerGroup": "g", "topic": topic, "queueId": -1, "bornTime": 0, "bname": SET}
    none = remote.ask(RequestCode.NOTIFICATION, fields | {"pollTime": 0})
    assert none.fields == {"hasMsg": "false", "pollingFull": "false"}
    opaque = remote.send(RequestCode.NOTIFICATION, fields | {"pollTime": 30_000})
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    polling = other.ask(RequestCode.POLLING_INFO, fields)
    assert polling.fields == {"pollingNum": "1"}
    send(other, topic, "a")
    answer = remote.receive_answer()
    assert (answer.opaque, answer.fields["hasMsg"]) == (opaque, "true")
    assert pop(remote, topic).bodies == ["a"]


def test_a_client_may_hold_so_many_and_others_get_the_rest(
    remote: Remote, other: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = "penstock.broker.coordinators.share_policies"
    monkeypatch.setattr(f"{policies}.MEMBER_IN_FLIGHT_MAX", 2)
    forget_policies()
    try:
        send(remote, topic, "a", "b", "c")
        join(remote, "one")
        join(other, "two")
        assert pop(remote, topic).bodies == ["a", "b"]
        assert pop(remote, topic, pollTime=0).messages == [], "it holds as many as it may"
        assert pop(other, topic).bodies == ["c"]
    finally:
        monkeypatch.undo()
        forget_policies()


def test_what_is_popped_too_often_is_a_dead_letter_that_tells_where_it_came_from(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    group = f"dying-{topic}"
    set_group(node, group, "rmq.pop.deliveries.max", "2")
    send(remote, topic, "a", "b")
    for times in (0, 1):
        popped = pop(remote, topic, consumerGroup=group, maxMsgNums=1)
        assert [one.reconsume_times for one in popped.messages] == [times]
        receipt = popped.receipts[0]
        assert change_of(remote, group, topic, receipt, 0).code == ResponseCode.SUCCESS
    dead = f"%DLQ%{group}"
    asked_route = {"topic": dead}
    assert wait_until(
        lambda: remote.ask(105, asked_route).code == ResponseCode.SUCCESS, UNTIL_SECONDS
    )
    (letter,) = pull(remote, dead, queueId=0, sysFlag=2 | 4, suspendTimeoutMillis=30_000)
    properties = read_properties(letter.properties)
    assert (bytes(letter.body), properties["DLQ_ORIGIN_TOPIC"]) == (b"a", topic)
    assert pop(remote, topic, consumerGroup=group).bodies == ["b"], "and not the dead one"


def test_shares_of_popping_groups_are_share_groups_that_tools_know(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    send(remote, topic, "a")
    assert pop(remote, topic, consumerGroup=f"known-{topic}").bodies == ["a"]
    shared = node.call(lambda: node.broker.groups.shares.shared(f"rmq.pop.known-{topic}"))
    assert not isinstance(shared, int)
    assert [(one.name, set(one.numbers)) for one in shared.topics.values()] == [(topic, {0, 1})]


def test_messages_of_a_group_are_counted_by_what_became_of_them(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    group = f"counted-{topic}"
    send(remote, topic, "a", "b", "c")
    first = pop(remote, topic, consumerGroup=group).receipts
    assert ack(remote, topic, first[0], consumerGroup=group).code == ResponseCode.SUCCESS
    for receipt in first[1:]:
        assert change_of(remote, group, topic, receipt, 0).code == ResponseCode.SUCCESS
    assert pop(remote, topic, consumerGroup=group, maxMsgNums=1).bodies == ["b"]
    assert ack(remote, topic, first[1], consumerGroup=group).code == ResponseCode.NO_MESSAGE
    told = node.call(lambda: told_of(node, group))
    assert told == {
        "popped": 4,
        "again": 1,
        "acknowledged": 1,
        "renewed": 2,
        "refused": 1,
        "in_flight": 1,
        "ready": 1,
    }


def front_of(node: LiveNode) -> RemotingFront:
    front = node.node._rocketmq.remoting
    assert front is not None
    return front


def told_of(node: LiveNode, group: str) -> dict[str, float]:
    """What the page of metrics has of a group."""
    samples = [sample for metric in pop_metrics(front_of(node).desk) for sample in metric.samples]
    of_group = [one for one in samples if one.labels.get("group") == group]
    return {one.labels.get("outcome") or one.labels["state"]: one.value for one in of_group}


def test_who_deletes_the_share_group_lets_the_group_begin_anew(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    group = f"deleted-{topic}"
    send(remote, topic, "a")
    for receipt in pop(remote, topic, consumerGroup=group).receipts:
        assert ack(remote, topic, receipt, consumerGroup=group).code == ResponseCode.SUCCESS
    assert pop(remote, topic, consumerGroup=group, pollTime=0).messages == []
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}"})
    (deleted,) = admin.delete_consumer_groups([f"rmq.pop.{group}"]).values()
    assert deleted.result(UNTIL_SECONDS) is None
    assert pop(remote, topic, consumerGroup=group).bodies == ["a"]


def test_a_pop_that_waits_hears_that_its_topic_is_deleted(
    node: LiveNode, remote: Remote, topic: str, pops: Pops
) -> None:
    remote.send(POP, asked(topic, pollTime=30_000))
    assert wait_until(lambda: pops.waiting == 1, UNTIL_SECONDS)
    node.submit(DeleteTopics(topics=(TopicReference(name=topic),)))
    assert Popped(remote.receive_answer()).code is not ResponseCode.POLLING_TIMEOUT


def test_what_a_transaction_has_aborted_is_not_popped_and_holds_nothing_back(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    kafka = {"bootstrap.servers": f"127.0.0.1:{node.port}", "transactional.id": topic}
    producer = Producer(kafka)
    producer.init_transactions(UNTIL_SECONDS)
    for body, end in (("no", producer.abort_transaction), ("yes", producer.commit_transaction)):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, f"{body} {number}".encode(), partition=0)
        producer.flush(UNTIL_SECONDS)
        end(UNTIL_SECONDS)
    send(remote, topic, "later")
    bodies = [f"yes {number}" for number in range(3)]
    popped = pop(remote, topic, maxMsgNums=3)
    assert popped.bodies == bodies
    rest = pop(remote, topic)
    assert rest.bodies == ["later"]
    for receipt in [*popped.receipts, *rest.receipts]:
        assert ack(remote, topic, receipt).code == ResponseCode.SUCCESS
    assert start_of(node, topic) == rest.receipts[0].offset + 1, "nothing before it is open"


def test_the_marker_behind_the_last_message_is_over_with_it(
    node: LiveNode, remote: Remote, topic: str
) -> None:
    kafka = {"bootstrap.servers": f"127.0.0.1:{node.port}", "transactional.id": topic}
    producer = Producer(kafka)
    producer.init_transactions(UNTIL_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"a", partition=0)
    producer.commit_transaction(UNTIL_SECONDS)
    (receipt,) = pop(remote, topic).receipts
    assert ack(remote, topic, receipt).code == ResponseCode.SUCCESS
    assert start_of(node, topic) == 2


def test_what_comes_back_while_newer_messages_are_read_is_not_lost(
    node: LiveNode, remote: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(remote, topic, "a")
    (receipt,) = pop(remote, topic).receipts
    send(remote, topic, "b")
    key = key_of(node, topic)
    claim = Claim(0, 1, nonce_of(key, receipt.number))
    reading, reads, told = Popping._read, list[int](), list[Answer]()

    async def read(self: Popping, part: Part, offset: int) -> PartitionRead:
        found = await reading(self, part, offset)
        if not reads:
            node.broker.shares.say(key, Say.RELEASE, [claim], "", told.append, 0)
        reads.append(offset)
        return found

    monkeypatch.setattr(Popping, "_read", read)
    assert pop(remote, topic).bodies == ["a", "b"]
    assert reads == [1, 0]
    assert wait_until(lambda: len(told) == 1, UNTIL_SECONDS)


def test_a_message_that_dies_is_over_only_once_its_copy_is_confirmed(
    node: LiveNode, remote: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = f"copying-{topic}"
    set_group(node, group, "rmq.pop.deliveries.max", "1")
    monkeypatch.setattr("penstock.remoting.pop.letters.RECORDS_MAX", 1)
    places = HeldPlaces(front_of(node).places)
    monkeypatch.setattr(front_of(node).desk.letters, "_places", places)
    send(remote, topic, "a", "b")
    for receipt in pop(remote, topic, consumerGroup=group).receipts:
        assert change_of(remote, group, topic, receipt, 0).code == ResponseCode.SUCCESS
    for copied in (0, 1):
        assert wait_until(lambda: len(places.held) == 1, UNTIL_SECONDS)
        is_so = wait_until(partial(_begins, node, topic, group, copied), UNTIL_SECONDS)
        assert is_so, "the one before is over, and the next one is not"
        node.call(places.refuse)
        assert wait_until(lambda: len(places.held) == 1, UNTIL_SECONDS), "it is tried again"
        assert start_of(node, topic, group) == copied
        node.call(places.let_go)
    assert wait_until(lambda: start_of(node, topic, group) == 2, UNTIL_SECONDS)
    letters = pull(remote, f"%DLQ%{group}", queueId=0)
    assert [bytes(one.body) for one in letters] == [b"a", b"b"]


class HeldPlaces:
    """Places of topics whose use is held until the test lets it go."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.held: list[tuple[str, ReplicaSetId, Use]] = []

    def use(self, name: str, set_id: ReplicaSetId, use: Use) -> None:
        self.held.append((name, set_id, use))

    def refuse(self) -> None:
        """Say that there is none now."""
        self.held.pop()[2](MetadataUnavailable("not now"))

    def let_go(self) -> None:
        self._places.use(*self.held.pop())


def _begins(node: LiveNode, topic: str, group: str, offset: int) -> bool:
    return start_of(node, topic, group) == offset


def key_of(node: LiveNode, topic: str, group: str = "g") -> ShareKey:
    """The share that a group has of the first queue."""
    hosted = node.broker.partitions.by_name[topic.encode()]
    return ShareKey(f"rmq.pop.{group}", bytes(hosted.topic_id), 0)


def start_of(node: LiveNode, topic: str, group: str = "g") -> int:
    """Everything below this offset of the first queue is over for the group."""
    described = node.call(lambda: node.broker.shares.describe(key_of(node, topic, group)))
    assert isinstance(described, Described)
    return described.start_offset
