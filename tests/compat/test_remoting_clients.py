"""RocketMQ's stock Java client against a node: producers, push and pull consumers."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.compat.rocketmq_client import client, running_client
from tests.live_node import LiveNode
from tests.remoting.served import running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 20
KINDS = ("sync", "async", "oneway", "batch")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("remoting")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture(scope="module")
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


@pytest.fixture
def topic(node: LiveNode, name: str) -> str:
    """A new topic of three partitions."""
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=3),)))
    return name


def test_messages_of_every_kind_of_send_are_consumed_once_with_all_their_parts(
    address: str, topic: str, tmp_path: Path
) -> None:
    told = client(tmp_path, "produce", address, topic, COUNT)
    assert not [one for one in told if "failed" in one]
    assert Counter(one["sent"] for one in told) == {
        "sync": COUNT,
        "async": COUNT,
        "batch": 1,
        "large": 1,
    }
    assert {one["status"] for one in told} == {"SEND_OK"}
    total = len(KINDS) * COUNT + 1
    *messages, done = client(tmp_path, "push", address, topic, "group", "*", total)
    assert done == {"done": True}
    assert len(messages) == total
    expected = Counter(f"{kind} {n}" for kind in KINDS for n in range(COUNT))
    expected["x" * 100_000] += 1
    assert Counter(one["body"] for one in messages) == expected
    ids = {one["id"]: one for one in messages}
    assert len(ids) == total
    for sent in told:
        if sent["sent"] in {"sync", "async"}:
            got = ids[sent["id"]]
            assert (got["queue"], got["offset"]) == (sent["queue"], sent["offset"])
    for one in messages:
        if one["tags"] != "large":
            kind, number = one["body"].split()
            assert (one["tags"], one["keys"], one["flag"]) == (
                kind,
                f"{kind}{number} all",
                int(number),
            )
            assert one["properties"]["colour"] == "grün"


def test_a_group_goes_on_where_it_was(address: str, topic: str, tmp_path: Path) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    total = len(KINDS) * COUNT + 1
    client(tmp_path, "push", address, topic, "again", "*", total)
    client(tmp_path, "produce", address, topic, 1)
    *messages, done = client(tmp_path, "push", address, topic, "again", "*", 5)
    assert done == {"done": True}
    assert Counter(one["tags"] for one in messages) == Counter((*KINDS, "large"))


def test_a_consumer_gets_the_tags_that_it_wants(address: str, topic: str, tmp_path: Path) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    *messages, done = client(tmp_path, "push", address, topic, "tags", "batch || oneway", 2 * COUNT)
    assert done == {"done": True}
    assert Counter(one["tags"] for one in messages) == {"batch": COUNT, "oneway": COUNT}


def test_consumers_get_what_their_expressions_are_true_for(
    address: str, topic: str, tmp_path: Path
) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    sql = "colour STARTSWITH 'gr' AND (TAGS IN ('batch', 'none') OR KEYS STARTSWITH 'sync')"
    *messages, done = client(tmp_path, "push", address, topic, "sql", f"SQL {sql}", 2 * COUNT)
    assert done == {"done": True}
    assert Counter(one["tags"] for one in messages) == {"batch": COUNT, "sync": COUNT}
    pulled = client(tmp_path, "pull-sql", address, topic, "pulling", sql)
    assert {one["id"] for one in pulled} == {one["id"] for one in messages}
    assert len(pulled) == 2 * COUNT


def test_a_pull_consumer_gets_every_queue_to_its_end(
    address: str, topic: str, tmp_path: Path
) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    told = client(tmp_path, "pull", address, topic, "pulling")
    queues = [one for one in told if "end" in one]
    messages = [one for one in told if "body" in one]
    assert sorted(one["queue"] for one in queues) == [0, 1, 2]
    assert sum(one["end"] for one in queues) == len(messages) == len(KINDS) * COUNT + 1
    assert {one["status"] for one in queues} == {"OFFSET_ILLEGAL"}
    assert all((one["first"], one["last"]) == (0, one["end"]) for one in queues), "by time"


def test_a_consumer_that_keeps_the_order_locks_its_queues(
    address: str, topic: str, tmp_path: Path
) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    total = len(KINDS) * COUNT + 1
    *messages, done = client(tmp_path, "orderly", address, topic, "orderly", total)
    assert done == {"done": True}
    for queue in range(3):
        offsets = [one["offset"] for one in messages if one["queue"] == queue]
        assert offsets == list(range(len(offsets)))
    assert len(messages) == total


def test_a_consumer_that_polls_goes_on_where_it_has_committed(
    address: str, topic: str, tmp_path: Path
) -> None:
    client(tmp_path, "produce", address, topic, COUNT)
    total = len(KINDS) * COUNT + 1
    *messages, done = client(tmp_path, "lite", address, topic, "polling", total)
    assert done == {"done": True}
    assert len({one["id"] for one in messages}) == len(messages) == total
    client(tmp_path, "produce", address, topic, 1)
    *messages, done = client(tmp_path, "lite", address, topic, "polling", 5)
    assert done == {"done": True}
    assert len(messages) == 5


def test_kafka_and_rocketmq_clients_read_what_the_other_has_written(
    node: LiveNode, address: str, topic: str, tmp_path: Path
) -> None:
    kafka = f"127.0.0.1:{node.port}"
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
    headers: dict[str, str | bytes | None] = {"rmq.tag": b"sync", "colour": b"red"}
    producer.produce(topic, b"by Kafka", b"key 1", 0, headers=headers, timestamp=1_700_000_000_000)
    producer.produce(topic, None, b"gone", 1)
    assert producer.flush(60) == 0
    client(tmp_path, "produce", address, topic, 1)
    *messages, _ = client(tmp_path, "push", address, topic, "both", "*", 7)
    by_body = {one.get("body"): one for one in messages}
    read = by_body["by Kafka"]
    assert (read["tags"], read["keys"], read["born_ms"]) == ("sync", "key 1", 1_700_000_000_000)
    assert read["properties"]["colour"] == "red"
    assert by_body[None]["properties"]["KAFKA_NULL"] == "1"
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": "both", "enable.auto.commit": False}
    )
    parts = [TopicPartition(topic, partition) for partition in range(3)]
    positions = consumer.committed(parts, 60)
    ends = [consumer.get_watermark_offsets(part, 60)[1] for part in parts]
    assert [one.offset for one in positions] == ends, "the group's positions are Kafka's too"
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
    records = {}
    for record in iter(lambda: consumer.poll(60), None):
        records[record.value()] = record
        if len(records) == 7:
            break
    consumer.close()
    told = records[b"sync 0"].headers()
    assert isinstance(told, list)
    written = dict(told)
    assert written["rmq.tag"] == b"sync"
    assert written["rmq.keys"] == b"sync0 all"
    assert written["colour"] == "grün".encode()


def ends(node: LiveNode, topic: str) -> int:
    """How many messages a topic has had, as Kafka's clients are told."""
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": "none"})
    metadata = consumer.list_topics(topic, 60).topics[topic]
    parts = [TopicPartition(topic, partition) for partition in metadata.partitions]
    count = sum(consumer.get_watermark_offsets(part, 60)[1] for part in parts)
    consumer.close()
    return count


def test_a_delayed_message_comes_when_its_time_has(
    address: str, topic: str, tmp_path: Path
) -> None:
    told = client(tmp_path, "delayed", address, topic, 2, 3)
    asked = [one["asked_ms"] for one in told if "asked_ms" in one]
    statuses = [one["status"] for one in told if "status" in one]
    assert statuses == ["SEND_OK"] * 3
    *messages, done = client(tmp_path, "push", address, topic, "later", "*", 3)
    assert done == {"done": True}
    delivered = {int(one["flag"]): one for one in messages}
    for number, began_ms in enumerate(asked):
        assert delivered[number]["stored_ms"] >= began_ms + 5_000
        assert delivered[number]["body"] == f"delayed {number}"
        assert "DELAY" not in delivered[number]["properties"]


def test_a_message_with_a_time_of_its_own_comes_when_that_has(
    address: str, topic: str, tmp_path: Path
) -> None:
    """Asked for in seconds, in milliseconds and as a time."""
    told = client(tmp_path, "timed", address, topic, 2, 3)
    assert [one["status"] for one in told] == ["SEND_OK"] * 3
    *messages, done = client(tmp_path, "push", address, topic, "timed", "*", 3)
    assert done == {"done": True}
    delivered = {one["body"]: one["stored_ms"] for one in messages}
    for one in told:
        assert delivered[one["timed"]] >= one["at"]


def test_a_message_that_its_producer_recalls_never_comes(
    node: LiveNode, address: str, topic: str, tmp_path: Path
) -> None:
    told = client(tmp_path, "recalled", address, topic, 4, 4)
    recalled = {one["recalled"] for one in told if one.get("is_it")}
    assert recalled == {"timed 1", "timed 3"}
    *messages, done = client(tmp_path, "push", address, topic, "recalling", "*", 2)
    assert done == {"done": True}
    front = node.node._rocketmq.remoting
    assert front is not None
    kept = front.keeping
    assert wait_until(
        lambda: node.call(lambda: (kept.recalls.dropped, kept.delivery.waiting())) == (2, 0),
        90.0,
    )
    assert {one["body"] for one in messages} == {"timed 0", "timed 2"}
    assert ends(node, topic) == 2


@pytest.mark.parametrize("kind", ["failing", "giving"])
def test_what_fails_each_time_comes_again_and_is_a_dead_letter_in_the_end(
    node: LiveNode, address: str, topic: str, tmp_path: Path, kind: str
) -> None:
    client(tmp_path, "produce", address, topic, 1)
    group, total, most = f"{kind}-{topic}", len(KINDS) + 1, 2
    with running_client(tmp_path, kind, address, topic, group, total * (most + 1), most) as running:
        dead = f"rmq.dlq.{group}"
        assert wait_until(
            lambda: (
                dead in node.call(lambda: list(node.broker.metadata.topics_by_name))
                and ends(node, dead) == total
            ),
            90.0,
        ), running.told()[-3:]
        *messages, done = running.finish()
    assert done == {"done": True}
    attempts = Counter((one["id"], one["times"]) for one in messages)
    ids = {one["id"] for one in messages}
    assert len(ids) == total
    assert attempts == Counter((one, times) for one in ids for times in range(most + 1))
    assert {one["topic"] for one in messages} == {topic}, "clients show where it came from first"
    told = client(tmp_path, "pull", address, f"%DLQ%{group}", "undertaker")
    letters = [one for one in told if "body" in one]
    assert {one["id"] for one in letters} == ids
    for one in letters:
        assert one["properties"]["DLQ_ORIGIN_TOPIC"] == topic
        assert one["tags"] == "large" or one["properties"]["colour"] == "grün"
