"""What a node answers to those who operate a cluster with RocketMQ's tools: what they change."""

import json
from collections.abc import Callable
from functools import partial
from itertools import count as counted
from typing import Any

import pytest
from confluent_kafka import Consumer

from harness.waiting import wait_until
from penstock.base.ids import LeaderEpoch
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.handlers.admin import reset as reset_handler
from penstock.remoting.operating.resets import PendingResets
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from tests.live_node import UNTIL_SECONDS, LiveNode
from tests.remoting.served import SET, Remote, pulled, sent
from tests.remoting.test_admin import code, member, position, table

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
UPDATE, DELETE = RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.DELETE_TOPIC_IN_BROKER
SET_GROUP = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
GROUP_OF = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
DELETE_GROUP = RequestCode.DELETE_SUBSCRIPTIONGROUP
RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
INVALID = ResponseCode.INVALID_PARAMETER
_numbers = counted()


@pytest.fixture
def name() -> str:
    return f"changed-{next(_numbers)}"


@pytest.fixture
def topic(node: LiveNode, name: str) -> str:
    """A new topic of two partitions."""
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name


def wanted(topic: str, queues: int = 2, **fields: Any) -> dict[str, Any]:
    """The fields by which mqadmin makes a topic, with these in place of the usual ones."""
    usual = {"topic": topic, "defaultTopic": "TBW102", "perm": 6, "topicFilterType": "SINGLE_TAG"}
    usual |= {"readQueueNums": queues, "writeQueueNums": queues, "topicSysFlag": 0}
    return usual | {"order": "false", "attributes": ""} | fields


def partitions(node: LiveNode, topic: str) -> int:
    """How many partitions a topic has; 0 if there is none."""
    found = node.call(lambda: node.broker.metadata.topics_by_name.get(topic))
    return 0 if found is None else len(found.partitions)


def test_a_topic_is_made_and_enlarged_and_never_made_smaller(
    remote: Remote, node: LiveNode, name: str
) -> None:
    assert code(remote.ask(UPDATE, wanted(name, 2))) is ResponseCode.SUCCESS
    assert partitions(node, name) == 2
    assert code(remote.ask(UPDATE, wanted(name, 2))) is ResponseCode.SUCCESS, "as it is"
    assert code(remote.ask(UPDATE, wanted(name, 5))) is ResponseCode.SUCCESS
    assert partitions(node, name) == 5
    smaller = remote.ask(UPDATE, wanted(name, 4))
    assert (code(smaller), partitions(node, name)) == (INVALID, 5)
    assert "there can not be fewer" in (smaller.remark or "")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"writeQueueNums": 3}, "each queue is for both"),
        ({"perm": 4}, "perm=4"),
        ({"perm": 0}, "perm=0"),
        ({"readQueueNums": 0, "writeQueueNums": 0}, "0 queues"),
        ({"readQueueNums": 1_001, "writeQueueNums": 1_001}, "1001 queues"),
        ({"order": "true"}, "order=true"),
        ({"topicSysFlag": 1}, "topicSysFlag"),
        ({"attributes": "+message.type=fifo"}, "+message.type=fifo"),
        ({"attributes": "+message.type=LITE"}, "+message.type=LITE"),
        ({"attributes": "+queue.type=BatchCQ"}, "+queue.type=BatchCQ"),
        ({"attributes": "+message.type=FIFO,+cleanup.policy=COMPACTION"}, "have +message.type"),
        ({"topic": "bad/name"}, "bad/name"),
        ({"topic": ""}, "blank"),
        ({"topic": "__consumer_offsets"}, "conflict with system topic"),
        ({"topic": "TBW102"}, "conflict with system topic"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_a_topic_can_not_be_is_refused(
    remote: Remote, node: LiveNode, name: str, fields: dict[str, Any], told: str
) -> None:
    before = node.call(lambda: set(node.broker.metadata.topics_by_name))
    answer = remote.ask(UPDATE, wanted(name) | fields)
    assert code(answer) is INVALID
    assert told in (answer.remark or "")
    assert node.call(lambda: set(node.broker.metadata.topics_by_name)) == before


def message_type(remote: Remote, node: LiveNode, topic: str) -> tuple[str, Any]:
    """The message type of a topic, as the node has it and as operators are told."""
    settings = node.call(lambda: node.broker.metadata.topics_by_name[topic].settings)
    answer = remote.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
    return settings.message_type, json.loads(bytes(answer.body))["attributes"]


def has_type(remote: Remote, node: LiveNode, topic: str, told: tuple[str, Any]) -> bool:
    return message_type(remote, node, topic) == told


def test_a_topic_gets_a_message_type_as_it_is_made_and_later(
    remote: Remote, node: LiveNode, name: str
) -> None:
    steps: list[tuple[str, tuple[str, Any]]] = [
        ("+message.type=FIFO", ("FIFO", {"message.type": "FIFO"})),
        ("", ("FIFO", {"message.type": "FIFO"})),
        ("+message.type=NORMAL", ("NORMAL", {"message.type": "NORMAL"})),
        ("-message.type", ("MIXED", {})),
        ("-message.type", ("MIXED", {})),
        ("+message.type=MIXED", ("MIXED", {})),
    ]
    for attributes, told in steps:
        answer = remote.ask(UPDATE, wanted(name, 2, attributes=attributes))
        assert code(answer) is ResponseCode.SUCCESS, answer.remark
        assert wait_until(partial(has_type, remote, node, name, told), UNTIL_SECONDS)


def test_a_topic_of_a_group_takes_what_any_topic_takes(remote: Remote, node: LiveNode) -> None:
    assert code(remote.ask(UPDATE, wanted("%DLQ%large", 1))) is ResponseCode.SUCCESS
    configs = node.call(lambda: node.broker.metadata.topics_by_name["rmq.dlq.large"].configs)
    assert configs["max.message.bytes"] == str(64 << 20)


def test_a_topic_is_deleted_and_a_missing_one_is_none_already(
    remote: Remote, node: LiveNode, topic: str
) -> None:
    assert code(remote.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})) == 0
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic}
    assert code(remote.ask(RequestCode.DELETE_KV_CONFIG, order)) is ResponseCode.SUCCESS
    other = remote.ask(RequestCode.DELETE_KV_CONFIG, order | {"namespace": "other"})
    assert code(other) is INVALID
    assert partitions(node, topic) == 2, "neither a route nor an order is the topic"
    for _ in range(2):
        assert code(remote.ask(DELETE, {"topic": topic})) is ResponseCode.SUCCESS
        assert partitions(node, topic) == 0
    internal = remote.ask(DELETE, {"topic": "__consumer_offsets"})
    assert (code(internal), partitions(node, "__consumer_offsets") >= 0) == (INVALID, True)


def settings(remote: Remote, group: str, **fields: Any) -> Command:
    """Set a group up as mqadmin does, with these in place of the usual fields."""
    usual = {"groupName": group, "consumeEnable": True, "consumeFromMinEnable": False}
    usual |= {"consumeBroadcastEnable": False, "retryQueueNums": 1, "retryMaxTimes": 16}
    usual |= {"brokerId": 0, "whichBrokerWhenConsumeSlowly": 1, "attributes": {}}
    return remote.ask(SET_GROUP, {}, json.dumps(usual | fields).encode())


def times_of(remote: Remote, group: str) -> int:
    told = json.loads(bytes(remote.ask(GROUP_OF, {"group": group}).body))
    times: int = told["retryMaxTimes"]
    return times


def test_how_often_a_group_wants_a_message_again_is_kept_and_forgotten(
    remote: Remote, node: LiveNode, name: str
) -> None:
    assert times_of(remote, name) == 16
    assert code(settings(remote, name, retryMaxTimes=3)) is ResponseCode.SUCCESS
    assert times_of(remote, name) == 3
    kept = node.call(lambda: node.broker.share_places.group_keys(name))
    assert kept["rmq.pop.deliveries.max"] == "4", "the first time is none of them"
    assert code(remote.ask(DELETE_GROUP, {"groupName": name})) is ResponseCode.SUCCESS
    assert times_of(remote, name) == 16


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"consumeEnable": False}, "consumeEnable=False"),
        ({"retryQueueNums": 4}, "retryQueueNums=4"),
        ({"consumeMessageOrderly": True}, "consumeMessageOrderly=True"),
        ({"retryMaxTimes": 254}, "rmq.pop.deliveries.max"),
        ({"retryMaxTimes": -1}, "rmq.pop.deliveries.max"),
        ({"retryMaxTimes": "3"}, "retryMaxTimes is no number"),
        ({"retryMaxTimes": True}, "retryMaxTimes is no number"),
        ({"groupName": ""}, "0 bytes"),
        ({"groupName": None}, "no name"),
        ({"groupName": "g" * 256}, "256 bytes"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_settings_of_a_group_without_a_counterpart_are_refused(
    remote: Remote, name: str, fields: dict[str, Any], told: str
) -> None:
    answer = settings(remote, name, **fields)
    assert code(answer) is INVALID
    assert told in (answer.remark or "")
    assert times_of(remote, name) == 16


def test_a_body_that_is_no_group_is_refused(remote: Remote) -> None:
    for body in (b"", b"[]", b"\xff", b'{"groupName": 1}'):
        assert code(remote.ask(SET_GROUP, {}, body)) in {ResponseCode.SYSTEM_ERROR, INVALID}


def test_a_group_is_deleted_with_its_positions_where_that_is_said(
    remote: Remote, topic: str, name: str
) -> None:
    for _ in range(3):
        remote.ask(SEND, sent(topic), b"b")
    position(remote, name, topic, 2)
    asked = {"consumerGroup": name}
    remote.ask(DELETE_GROUP, {"groupName": name, "cleanOffset": "false"})
    rows = table(remote.ask(RequestCode.GET_CONSUME_STATS, asked))
    assert rows[topic, SET, 0]["consumerOffset"] == 2
    member(remote, name, topic)
    refused = remote.ask_among(DELETE_GROUP, {"groupName": name, "cleanOffset": "true"})
    assert (code(refused), refused.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"the group {name} has members",
    )
    gone = {"clientID": "c1", "consumerGroup": name}
    remote.ask_among(RequestCode.UNREGISTER_CLIENT, gone)
    assert remote.ask_among(DELETE_GROUP, {"groupName": name, "cleanOffset": "true"}).code == 0
    assert table(remote.ask_among(RequestCode.GET_CONSUME_STATS, asked)) == {}
    again = remote.ask_among(DELETE_GROUP, {"groupName": name, "cleanOffset": "true"})
    assert code(again) is ResponseCode.SUCCESS


def reset(remote: Remote, group: str, topic: str, **fields: Any) -> Command:
    usual = {"group": group, "topic": topic, "timestamp": -1, "isForce": "true", "queueId": -1}
    return remote.ask_among(RESET, usual | fields)


def at(remote: Remote, group: str, topic: str, queue: int = 0) -> int:
    """The position of a group."""
    place = {"consumerGroup": group, "topic": topic, "queueId": queue, "bname": SET}
    answer = remote.ask_among(RequestCode.QUERY_CONSUMER_OFFSET, place)
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    return int(answer.fields["offset"])


@pytest.fixture
def filled(node: LiveNode, remote: Remote, topic: str) -> str:
    """A topic with five messages in its first queue, of the times 1000, 2000 and so on."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "linger.ms": 0})
    for n in range(5):
        producer.produce(topic, b"%d" % n, partition=0, timestamp=1_000 * (n + 1))
    assert producer.flush(60) == 0
    return topic


def test_a_group_is_reset_to_a_time_an_offset_or_the_end(
    remote: Remote, filled: str, name: str
) -> None:
    place = lambda answer: {queue: told for (_, _, queue), told in table(answer).items()}  # noqa: E731
    assert place(reset(remote, "r", filled, timestamp=3_000)) == {0: 2, 1: 0}
    assert (at(remote, "r", filled), at(remote, "r", filled, 1)) == (2, 0)
    assert place(reset(remote, "r", filled, timestamp=9_000)) == {0: 5, 1: 0}, "nothing is so late"
    assert place(reset(remote, "r", filled, timestamp=0)) == {0: 0, 1: 0}
    assert place(reset(remote, "r", filled, timestamp=-1)) == {0: 5, 1: 0}
    assert place(reset(remote, "r", filled, queueId=0, offset=4)) == {0: 4}
    assert (at(remote, "r", filled), at(remote, "r", filled, 1)) == (4, 0)


def test_a_reset_that_is_not_forced_never_moves_ahead(remote: Remote, filled: str) -> None:
    position(remote, "back", filled, 3)
    ahead = table(reset(remote, "back", filled, timestamp=-1, isForce="false"))
    assert (ahead[filled, SET, 0], at(remote, "back", filled)) == (3, 3)
    back = table(reset(remote, "back", filled, timestamp=2_000, isForce="false"))
    assert (back[filled, SET, 0], at(remote, "back", filled)) == (1, 1)


def test_members_of_a_group_hear_of_its_reset_once_and_commit_nothing_before(
    remote: Remote, filled: str
) -> None:
    group = f"online-{filled}"
    member(remote, group, filled)
    position(remote, group, filled, 5)
    reset(remote, group, filled, timestamp=2_000)
    position(remote, group, filled, 5)
    assert at(remote, group, filled) == 1, "what the member had before is not kept"
    asked = pulled(filled, 5, consumerGroup=group, sysFlag=5, commitOffset=5)
    moved = remote.ask_among(PULL, asked)
    assert (code(moved), moved.fields["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")
    remote.ask_among(PULL, pulled(filled, 0, consumerGroup=group, queueId=1))
    position(remote, group, filled, 0, queue=1)  # durable behind what the pull may have kept
    assert at(remote, group, filled) == 1, "neither is what its pull tells"
    read = remote.ask_among(PULL, pulled(filled, 1, consumerGroup=group))
    assert (code(read), read.fields["nextBeginOffset"]) == (ResponseCode.SUCCESS, "5")
    position(remote, group, filled, 5)
    assert at(remote, group, filled) == 5, "it goes on as ever"


def test_a_group_without_members_leaves_no_mark(
    remote: Remote, node: LiveNode, filled: str
) -> None:
    group = f"offline-{filled}"
    reset(remote, group, filled, timestamp=2_000)
    read = remote.ask_among(PULL, pulled(filled, 4, consumerGroup=group))
    assert code(read) is ResponseCode.SUCCESS
    member(remote, group, filled)
    reset(remote, group, filled, timestamp=2_000)
    front = node.node._rocketmq.remoting
    assert front is not None
    assert node.call(lambda: front.resets.count) > 0
    remote.ask_among(RequestCode.UNREGISTER_CLIENT, {"clientID": "c1", "consumerGroup": group})
    assert wait_until(lambda: node.call(lambda: front.resets.count) == 0, UNTIL_SECONDS)


@pytest.mark.parametrize(
    ("fields", "told", "answer"),
    [
        ({"topic": "nothere"}, "nothere", ResponseCode.TOPIC_NOT_EXIST),
        ({"offset": 1}, "an offset without a queue", INVALID),
        ({"offset": 6, "queueId": 0}, "the queue has 0 to 5", INVALID),
        ({"offset": -5, "queueId": 0}, "the queue has 0 to 5", INVALID),
        ({"queueId": 7}, "queue 7 of the topic is not led here", INVALID),
        ({"timestamp": "x"}, "timestamp is no number", ResponseCode.SYSTEM_ERROR),
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_reset_that_can_not_be_moves_nothing(
    remote: Remote, filled: str, fields: dict[str, Any], told: str, answer: ResponseCode
) -> None:
    group = f"kept-{filled}"
    position(remote, group, filled, 3)
    refused = reset(remote, group, **({"topic": filled} | fields))
    assert code(refused) is answer
    assert told in (refused.remark or "")
    assert at(remote, group, filled) == 3


def test_a_reset_of_too_many_queues_is_refused(
    remote: Remote, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reset_handler, "QUEUES_MAX", 1)
    assert code(reset(remote, "many", filled)) is INVALID


def test_groups_that_pop_the_topic_or_have_members_of_kafka_are_not_reset(
    remote: Remote, node: LiveNode, filled: str
) -> None:
    mode = {"topic": filled, "consumerGroup": "popping", "mode": "POP"}
    remote.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, {}, json.dumps(mode).encode())
    refused = reset(remote, "popping", filled)
    assert (code(refused), "rmq.pop.popping" in (refused.remark or "")) == (INVALID, True)
    group = f"kafka-{filled}"
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": group})
    consumer.subscribe([filled])
    assert wait_until(lambda: consumer.poll(0.1) is not None or consumer.assignment(), 60)
    refused = reset(remote, group, filled)
    assert (code(refused), refused.remark) == (ResponseCode.SYSTEM_ERROR, "UNKNOWN_MEMBER_ID")
    consumer.close()


class _Hosted:
    """A queue, as far as marks of resets look at it."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.topic = type("Topic", (), {"topic_id": b"i" * 16})
        self.member = type("Member", (), {"leader_epoch": LeaderEpoch(epoch)})


def test_marks_of_resets_are_bounded_and_end_with_their_mastership() -> None:
    resets = PendingResets(most=2)
    queue: Callable[..., Any] = _Hosted
    resets.mark("g", queue(0, 1), 7)
    resets.mark("g", queue(1, 1), 8)
    resets.mark("g", queue(1, 1), 9)
    with pytest.raises(Exception, match="2 resets wait"):
        resets.mark("other", queue(0, 1), 7)
    assert resets.is_marked("g", queue(0, 1))
    assert not resets.is_marked("g", queue(0, 2)), "another mastership"
    assert resets.take("g", queue(0, 2)) is None
    assert (resets.take("g", queue(1, 1)), resets.take("g", queue(1, 1))) == (9, None)
    assert resets.count == 0
    resets.mark("g", queue(0, 1), 7)
    resets.expire({"g": True}.__getitem__)
    assert resets.count == 1
    resets.expire({"g": False}.__getitem__)
    assert (resets.count, resets.take("g", queue(0, 1))) == (0, None)
