"""Produce over HTTP: what is stored, where, and what is refused."""

import base64
from typing import Any

import pytest

from harness.http_front import HttpProcess, all_of
from penstock.client.admin import EARLIEST, LATEST, Admin
from penstock.client.cluster import Cluster
from penstock.client.consume import ConsumedRecord, RecordStream, positions_at
from penstock.client.settings import ClientSettings
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.live_node import LiveNode

pytestmark = pytest.mark.process


def records(node: LiveNode, topic: str) -> list[ConsumedRecord]:
    """Read all of a topic as a Kafka consumer does."""
    with Cluster(ClientSettings(bootstrap=f"127.0.0.1:{node.port}")) as cluster:
        admin = Admin(cluster)
        starts = positions_at(admin, topic, EARLIEST)
        ends = positions_at(admin, topic, LATEST)
        return list(RecordStream(cluster, starts, ends=ends))


def test_a_kafka_consumer_reads_what_was_produced_over_http(
    node: LiveNode, front: HttpProcess, topic: str
) -> None:
    message = {"value": "hé", "key": "k", "tag": "t", "keys": ["a", "b"], "headers": {"h": "1"}}
    (outcome,) = front.produce(topic, {**message, "id": "own"}).messages
    (found,) = records(node, topic)
    assert outcome == {"id": "own", "queue": f"set-1/{found.partition}", "offset": 0}
    assert bytes(found.record.key or b"") == b"k"
    assert bytes(found.record.value or b"") == "hé".encode()
    headers = {name: bytes(value or b"") for name, value in found.record.headers}
    headers.pop("rmq.bh")
    assert headers == {"rmq.id": b"own", "rmq.tag": b"t", "rmq.keys": b"a b", "h": b"1"}


def test_equal_keys_are_in_one_partition_in_order_and_others_spread(
    node: LiveNode, front: HttpProcess, topic: str
) -> None:
    messages = [{"value": f"{n}", "key": f"k{n % 10}"} for n in range(200)]
    outcomes = front.produce(topic, *messages).messages
    assert len({one["queue"] for one in outcomes}) == 2
    by_key: dict[bytes, list[int]] = {}
    places: dict[bytes, set[int]] = {}
    for one in records(node, topic):
        key, value = bytes(one.record.key or b""), int(bytes(one.record.value or b""))
        by_key.setdefault(key, []).append(value)
        places.setdefault(key, set()).add(one.partition)
    assert all(values == sorted(values) and len(values) == 20 for values in by_key.values())
    assert all(len(found) == 1 for found in places.values())


def test_every_outcome_names_the_place_of_its_message(
    node: LiveNode, front: HttpProcess, topic: str
) -> None:
    values = [f"v{n}" for n in range(450)]
    outcomes = front.produce(topic, *values).messages
    stored = {
        (f"set-1/{one.partition}", one.record.offset): bytes(one.record.value or b"").decode()
        for one in records(node, topic)
    }
    assert [stored[one["queue"], one["offset"]] for one in outcomes] == values


def test_requests_without_keys_take_turns_at_the_queues(front: HttpProcess, topic: str) -> None:
    queues = {front.produce(topic, "x").messages[0]["queue"] for _ in range(4)}
    assert queues == {"set-1/0", "set-1/1"}


def test_bytes_that_are_no_text_come_back_as_they_were(front: HttpProcess, topic: str) -> None:
    data = bytes(range(256))
    assert front.produce(topic, {"value_base64": base64.b64encode(data).decode()}).status == 200
    (message,) = all_of(front, topic, "g", 1)
    assert base64.b64decode(message["value_base64"]) == data
    assert "value" not in message


def test_what_is_delayed_comes_later(front: HttpProcess, topic: str) -> None:
    """Behind the other one in its queue, however late both are received."""
    later = {"value": "later", "key": "k", "delay_level": 1}
    outcomes = front.produce(topic, later, {"value": "now", "key": "k"}).messages
    assert outcomes[0] == {"id": outcomes[0]["id"], "delayed": True}
    values = [one["value"] for one in all_of(front, topic, "g", 2)]
    assert values == ["now", "later"]


def test_a_message_that_is_too_large_is_refused_and_the_others_are_there(
    node: LiveNode, front: HttpProcess
) -> None:
    configs = {"max.message.bytes": "2000"}
    node.submit(CreateTopics(topics=(NewTopic(name="narrow", partition_count=1, configs=configs),)))
    answer = front.produce("narrow", {"value": "x" * 9000, "delay_level": 1}, "small")
    assert answer.status == 207, answer
    large, small = answer.document["messages"]
    assert large["problem"]["code"] == "message-refused"
    assert small["offset"] == 0
    answer = front.produce("narrow", {"value": "x" * 9000})
    assert (answer.status, answer.document["messages"][0]["problem"]["status"]) == (400, 400)
    assert "offset" in front.produce("narrow", "small").messages[0]


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        ({}, "message 1: it has no value, or two"),
        ({"value": "a", "value_base64": "YQ=="}, "message 1: it has no value, or two"),
        ({"value": ""}, "message 1: its value is empty"),
        ({"value_base64": "?"}, "message 1: value_base64 is no base64"),
        ({"value": "a", "headers": {"TAGS": "x"}}, "header 'TAGS' belongs to the server"),
        ({"value": "a", "headers": {"rmq.id": "x"}}, "header 'rmq.id' belongs to the server"),
        ({"value": "a", "headers": {"DELAY": "3"}}, "header 'DELAY' belongs to the server"),
        ({"value": "a", "headers": {"a\x01": "x"}}, "can not be stored"),
        ({"value": "a", "headers": {"a": "x\x02y"}}, "'a' can not be stored"),
        ({"value": "a", "headers": {"a": ""}}, "'a' can not be stored"),
        ({"value": "a", "headers": {"a": "x" * 33_000}}, "headers have more than 32767 bytes"),
        ({"value": "a", "key": "k" * 64}, "$.messages[1].key"),
        ({"value": "a", "delay_level": 19}, "$.messages[1].delay_level"),
        ({"value": "a", "delay_level": -1}, "$.messages[1].delay_level"),
        ({"value": "a", "valeu": "b"}, "unknown field `valeu`"),
        ({"value": 7}, "$.messages[1].value"),
    ],
)
def test_a_message_that_can_not_be_stored_refuses_the_request(
    node: LiveNode, front: HttpProcess, topic: str, message: dict[str, Any], detail: str
) -> None:
    answer = front.produce(topic, "good", message)
    assert answer.status == 400
    assert detail in answer.document["detail"]
    assert answer.document["do"]
    assert not records(node, topic)


def test_a_topic_that_is_not_there_is_not_made(front: HttpProcess) -> None:
    answer = front.produce("nowhere", "x")
    assert (answer.status, answer.document["code"]) == (404, "topic-not-found")
    assert front.receive("nowhere").document["code"] == "topic-not-found"
    assert answer.headers["content-type"] == "application/problem+json"
