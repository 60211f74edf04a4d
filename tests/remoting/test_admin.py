"""What a node answers to those who operate a cluster with RocketMQ's tools: reading requests."""

import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import count as counted
from typing import Any

import pytest

from penstock.configs.entry import ConfigEntry, ConfigSource, ConfigType
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.front import LONG_ANSWERS
from penstock.remoting.handlers.admin import group_positions, long_answers
from penstock.remoting.ids import locator_of, read_offset_id
from penstock.remoting.operating.rates import Rates
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages
from tests.live_node import LiveNode
from tests.remoting.served import SET, Remote, pulled, sent

SEND, VIEW = RequestCode.SEND_MESSAGE_V2, RequestCode.VIEW_MESSAGE_BY_ID
NAMES, STATS = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, RequestCode.GET_TOPIC_STATS_INFO
PROGRESS = RequestCode.GET_CONSUME_STATS
_numbers = counted()


@pytest.fixture
def topic(node: LiveNode) -> str:
    """A new topic of two partitions."""
    name = f"admin-{next(_numbers)}"
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=2),)))
    return name


def code(answer: Command) -> ResponseCode:
    return ResponseCode(answer.code)


def table(answer: Command) -> dict[tuple[str, str, int], Any]:
    """The rows of an answer, by topic, broker and queue; keys of RocketMQ's JSON are objects."""
    assert code(answer) is ResponseCode.SUCCESS, answer.remark
    text = bytes(answer.body).decode()
    rows = re.findall(r"(\{\"brokerName\"[^}]*\}):(\{[^}]*\}|\d+)", text)
    named = [(json.loads(key), json.loads(told)) for key, told in rows]
    return {(key["topic"], key["brokerName"], key["queueId"]): told for key, told in named}


def member(remote: Remote, group: str, *topics: str, client: str = "c1") -> None:
    """Say that the client is a member of a group that wants these topics."""
    wanted = [{"topic": one, "subString": "a || b", "subVersion": 7} for one in topics]
    told = {
        "clientID": client,
        "consumerDataSet": [{"groupName": group, "subscriptionDataSet": wanted}],
        "producerDataSet": [{"groupName": f"p-{group}"}],
    }
    assert remote.ask_among(RequestCode.HEART_BEAT, {}, json.dumps(told).encode()).code == 0


def position(remote: Remote, group: str, topic: str, offset: int, queue: int = 0) -> None:
    """Commit a position."""
    place = {"consumerGroup": group, "topic": topic, "queueId": queue, "bname": SET}
    answer = remote.ask_among(RequestCode.UPDATE_CONSUMER_OFFSET, place | {"commitOffset": offset})
    assert code(answer) is ResponseCode.SUCCESS, answer.remark


def test_a_message_is_viewed_by_its_offset_id(remote: Remote, topic: str) -> None:
    remote.ask(SEND, sent(topic), b"before")
    answer = remote.ask(SEND, sent(topic, {"TAGS": "t", "KEYS": "k"}), b"this one")
    _, locator = read_offset_id(answer.fields["msgId"])
    remote.ask(SEND, sent(topic), b"behind")
    viewed = remote.ask(VIEW, {"topic": topic, "offset": locator})
    (message,) = decode_messages(memoryview(viewed.body))
    assert (bytes(message.body), message.queue_offset, message.locator) == (b"this one", 1, locator)
    from_pull = remote.ask(RequestCode.PULL_MESSAGE, pulled(topic, 1, maxMsgNums=1))
    assert bytes(viewed.body) == bytes(from_pull.body), "as a pull has it"


def test_a_message_in_the_middle_of_a_batch_is_viewed(remote: Remote, topic: str) -> None:
    from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch

    batch = encode_batch([BatchedMessage(0, b"%d" % n, "") for n in range(5)])
    remote.ask(RequestCode.SEND_BATCH_MESSAGE, sent(topic, m=True), batch)
    answer = remote.ask(VIEW, {"topic": topic, "offset": locator_of(0, 3)})
    (message,) = decode_messages(memoryview(answer.body))
    assert (bytes(message.body), message.queue_offset) == (b"3", 3)


@pytest.mark.parametrize(
    "locator",
    [locator_of(0, 1), locator_of(0, 0, is_retry=True), -1, (1 << 63) - 1],
    ids=["behind the end", "of a retry topic", "negative", "no place"],
)
def test_what_is_not_there_is_no_message(remote: Remote, topic: str, locator: int) -> None:
    remote.ask(SEND, sent(topic), b"only")
    answer = remote.ask(VIEW, {"topic": topic, "offset": locator})
    assert (code(answer), bytes(answer.body)) == (ResponseCode.SYSTEM_ERROR, b"")


def test_a_message_is_viewed_in_a_topic_and_partition_that_exist(
    remote: Remote, topic: str
) -> None:
    missing = ResponseCode.TOPIC_NOT_EXIST
    assert code(remote.ask(VIEW, {"topic": "nothere", "offset": 0})) is missing
    assert code(remote.ask(VIEW, {"topic": topic, "offset": locator_of(2, 0)})) is missing
    unnamed = remote.ask(VIEW, {"offset": 0})
    assert (code(unnamed), unnamed.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "the field topic is missing",
    )


def test_marks_of_transactions_are_no_messages(remote: Remote, topic: str, node: LiveNode) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{node.port}", "transactional.id": f"t-{topic}"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"kept", partition=0)
    producer.commit_transaction(60)
    marker = remote.ask(VIEW, {"topic": topic, "offset": locator_of(0, 1)})
    assert code(marker) is ResponseCode.SYSTEM_ERROR
    producer.begin_transaction()
    producer.produce(topic, b"dropped", partition=0)
    producer.flush(60)
    producer.abort_transaction(60)
    remote.ask(SEND, sent(topic), b"behind both")
    for offset in (1, 2, 3):
        answer = remote.ask(VIEW, {"topic": topic, "offset": locator_of(0, offset)})
        assert (code(answer), bytes(answer.body)) == (ResponseCode.SYSTEM_ERROR, b""), offset


def test_topics_have_the_names_that_clients_use_and_internal_ones_are_left_out(
    remote: Remote, topic: str, node: LiveNode
) -> None:
    made = ("rmq.retry.g1", "rmq.dlq.g1")
    node.submit(CreateTopics(topics=tuple(NewTopic(name=name) for name in made)))
    names = json.loads(bytes(remote.ask(NAMES, {}).body))["topicList"]
    assert {topic, "%RETRY%g1", "%DLQ%g1"} <= set(names)
    assert not [one for one in names if one.startswith(("__", "rmq."))]
    assert len(names) == len(set(names))


def test_the_state_of_a_topic_has_a_row_for_each_of_its_queues(remote: Remote, topic: str) -> None:
    before_ms = int(time.time() * 1_000) - 1_000
    for n in range(3):
        remote.ask(SEND, sent(topic, e=1, g=before_ms), b"%d" % n)
    rows = table(remote.ask(STATS, {"topic": topic}))
    first, second = rows[topic, SET, 0], rows[topic, SET, 1]
    assert len(rows) == 2
    assert first == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    assert (second["minOffset"], second["maxOffset"]) == (0, 3)
    assert second["lastUpdateTimestamp"] >= before_ms
    assert code(remote.ask(STATS, {"topic": "nothere"})) is ResponseCode.TOPIC_NOT_EXIST
    config = json.loads(bytes(remote.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic}).body))
    told = (config["readQueueNums"], config["writeQueueNums"], config["perm"])
    assert (told, config["topicName"]) == ((2, 2, 6), topic)


def test_a_broker_tells_its_measures_and_settings_without_secrets(
    remote: Remote, topic: str
) -> None:
    before = _measures(remote)
    for _ in range(3):
        remote.ask(SEND, sent(topic), b"b")
    remote.ask(RequestCode.PULL_MESSAGE, pulled(topic))
    after = _measures(remote)
    grown = int(after["putMessageTimesTotal"]) - int(before["putMessageTimesTotal"])
    assert (grown, after["brokerVersionDesc"]) == (3, "V5_3_3")
    assert all(float(rate) >= 0 for rate in after["putTps"].split())
    assert len(after["putTps"].split()) == len(after["getTransferredTps"].split()) == 3
    answer = remote.ask(RequestCode.GET_BROKER_CONFIG, {})
    lines = bytes(answer.body).decode().splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    assert settings["node.broker_id"].isdecimal()
    assert len(settings) == len(lines)


def test_secrets_and_line_ends_are_not_among_the_settings_that_are_told(
    remote: Remote, node: LiveNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def entry(name: str, value: str, *, is_sensitive: bool = False) -> ConfigEntry:
        return ConfigEntry(
            name=name,
            value=value,
            source=ConfigSource.STATIC_BROKER,
            config_type=ConfigType.STRING,
            documentation="",
            is_sensitive=is_sensitive,
        )

    class Told:
        def entries(self) -> Sequence[ConfigEntry]:
            secret = entry("secret", "hidden-word", is_sensitive=True)
            return [secret, entry("lines", "a\nb=c"), entry("path", "c:\\d")]

    front = node.node._rocketmq.remoting
    monkeypatch.setattr(front, "configs", Told())
    told = bytes(remote.ask(RequestCode.GET_BROKER_CONFIG, {}).body)
    assert told == b"lines=a\\nb=c\npath=c:\\\\d\n"


def _measures(remote: Remote) -> dict[str, str]:
    body = remote.ask(RequestCode.GET_BROKER_RUNTIME_INFO, {}).body
    measures: dict[str, str] = json.loads(bytes(body))["table"]
    return measures


def test_rates_are_those_of_the_last_ten_seconds_minute_and_ten_minutes() -> None:
    rates = Rates(0, (0, 0))
    for second in range(10, 601, 10):
        rates.note(second * 1_000, (second, 2 * second if second > 540 else 0))
    assert rates.of(600_000, (600, 1_200)) == ["1.00 1.00 1.00", "2.00 20.00 2.00"]
    assert rates.of(601_000, (711, 1_200)) == ["11.00 2.80 1.18", "1.82 19.67 2.00"]
    fresh = Rates(5_000, (7, 7))
    assert fresh.of(5_100, (9, 7)) == ["2.00 2.00 2.00", "0.00 0.00 0.00"], "a second at least"


def test_members_and_producers_of_a_group_are_told(remote: Remote, topic: str) -> None:
    group = f"g-{topic}"
    asked = RequestCode.GET_CONSUMER_CONNECTION_LIST
    offline = remote.ask(asked, {"consumerGroup": group})
    assert code(offline) is ResponseCode.CONSUMER_NOT_ONLINE
    member(remote, group, topic)
    told = json.loads(bytes(remote.ask_among(asked, {"consumerGroup": group}).body))
    assert told["connectionSet"] == [
        {"clientAddr": "127.0.0.1", "clientId": "c1", "language": "PYTHON", "version": 479}
    ]
    assert told["consumeType"] == "CONSUME_PASSIVELY"
    wanted = told["subscriptionTable"][topic]
    assert (wanted["subString"], wanted["tagsSet"], wanted["subVersion"]) == (
        "a || b",
        ["a", "b"],
        7,
    )
    producers = RequestCode.GET_PRODUCER_CONNECTION_LIST
    found = json.loads(bytes(remote.ask_among(producers, {"producerGroup": f"p-{group}"}).body))
    assert [one["clientId"] for one in found["connectionSet"]] == ["c1"]
    missing = remote.ask_among(producers, {"producerGroup": group})
    assert (code(missing), missing.remark) == (
        ResponseCode.SYSTEM_ERROR,
        f"the producer group[{group}] not exist",
    )


def test_groups_of_a_topic_are_those_whose_members_want_it(remote: Remote, topic: str) -> None:
    member(remote, f"g-{topic}", topic)
    member(remote, f"other-{topic}", "another")
    asked = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    told = json.loads(bytes(remote.ask_among(asked, {"topic": topic}).body))
    assert told == {"groupList": [f"g-{topic}"]}


def test_progress_of_a_group_is_told_for_topics_that_it_has_positions_in_or_wants(
    remote: Remote, topic: str, node: LiveNode
) -> None:
    group, wanted = f"g-{topic}", f"wanted-{topic}"
    node.submit(CreateTopics(topics=(NewTopic(name=wanted),)))
    for _ in range(5):
        remote.ask(SEND, sent(topic), b"b")
    assert table(remote.ask(PROGRESS, {"consumerGroup": group})) == {}, "nobody knows the group"
    position(remote, group, topic, 3)
    rows = table(remote.ask(PROGRESS, {"consumerGroup": group}))
    first = rows[topic, SET, 0]
    assert (first["brokerOffset"], first["consumerOffset"], first["lastTimestamp"]) == (5, 3, 0)
    assert set(rows) == {(topic, SET, 0), (topic, SET, 1)}
    position(remote, group, topic, 5)
    member(remote, group, topic, wanted)
    rows = table(remote.ask_among(PROGRESS, {"consumerGroup": group}))
    assert set(rows) == {(topic, SET, 0), (topic, SET, 1), (wanted, SET, 0)}
    assert rows[topic, SET, 0]["lastTimestamp"] > 0
    named = table(remote.ask_among(PROGRESS, {"consumerGroup": group, "topic": wanted}))
    assert set(named) == {(wanted, SET, 0)}
    missing = remote.ask_among(PROGRESS, {"consumerGroup": group, "topic": "nothere"})
    assert code(missing) is ResponseCode.TOPIC_NOT_EXIST


def test_a_position_in_an_earlier_topic_of_the_name_is_none(
    remote: Remote, topic: str, node: LiveNode
) -> None:
    from penstock.controller.commands.command import DeleteTopics, TopicReference

    for _ in range(4):
        remote.ask(SEND, sent(topic), b"b")
    position(remote, f"g-{topic}", topic, 4)
    node.submit(DeleteTopics(topics=(TopicReference(name=topic),)))
    node.submit(CreateTopics(topics=(NewTopic(name=topic),)))
    remote.ask(SEND, sent(topic), b"b")
    rows = table(remote.ask(PROGRESS, {"consumerGroup": f"g-{topic}", "topic": topic}))
    assert rows[topic, SET, 0]["consumerOffset"] == 0


def test_positions_are_asked_for_page_by_page(
    remote: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.broker.coordinators import positions

    for queue in range(2):
        position(remote, f"g-{topic}", topic, queue, queue)
    monkeypatch.setattr(positions, "PAGE", 1)
    rows = table(remote.ask(PROGRESS, {"consumerGroup": f"g-{topic}"}))
    assert [rows[topic, SET, queue]["consumerOffset"] for queue in range(2)] == [0, 1]
    monkeypatch.setattr(group_positions, "POSITIONS_MAX", 1)
    refused = remote.ask(PROGRESS, {"consumerGroup": f"g-{topic}"})
    assert refused.remark == "the group has more than 1 positions"


def test_answers_that_are_too_long_are_refused_and_free_their_place(
    remote: Remote, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_answers, "BYTES_MAX", 10)
    for _ in range(LONG_ANSWERS + 1):
        answer = remote.ask(NAMES, {})
        assert code(answer) is ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").endswith("at most 10 are told")
    monkeypatch.undo()
    assert topic in json.loads(bytes(remote.ask(NAMES, {}).body))["topicList"]


def test_many_long_answers_come_to_who_asks_for_them_together(remote: Remote, topic: str) -> None:
    count = 5 * LONG_ANSWERS
    asked = [remote.send(NAMES, {}) for _ in range(count)]
    answers = [remote.receive_answer() for _ in range(count)]
    assert sorted(one.opaque for one in answers) == asked
    assert all(topic.encode() in bytes(one.body) for one in answers)


def test_who_asks_for_long_answers_and_goes_takes_no_place_away(
    served: tuple[LiveNode, str], topic: str
) -> None:
    for _ in range(3):
        with closing(Remote(served[1])) as gone:
            for _ in range(2 * LONG_ANSWERS):
                gone.send(NAMES, {})
    with closing(Remote(served[1])) as remote:
        assert topic.encode() in bytes(remote.ask(NAMES, {}).body)
