"""RocketMQ's stock Java client popping from a node: its push consumer, and its pop API."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from harness.waiting import wait_until
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    CreateTopics,
    NewTopic,
    ResourceEdits,
)
from penstock.controller.metadata.kinds import ResourceType
from tests.compat.rocketmq_client import POPPING, client, running_client
from tests.live_node import LiveNode
from tests.remoting.served import SET, running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 40
UNTIL_SECONDS = 120.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("popping")) as served:
        yield served


@pytest.fixture(scope="module")
def node(served: tuple[LiveNode, str]) -> LiveNode:
    return served[0]


@pytest.fixture(scope="module")
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


def new_topic(node: LiveNode, name: str, queues: int = 3) -> str:
    node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=queues),)))
    return name


def produce(node: LiveNode, topic: str, count: int, queues: int = 3) -> set[str]:
    """Send so many messages by a Kafka client; returns their bodies."""
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "linger.ms": 0})
    bodies = [f"message {number}" for number in range(count)]
    for number, body in enumerate(bodies):
        producer.produce(topic, body.encode(), partition=number % queues)
    assert producer.flush(60) == 0
    return set(bodies)


def consumed(told: list[dict[str, Any]]) -> Counter[str]:
    return Counter(one["consumed"] for one in told if "consumed" in one)


def test_each_step_of_the_pop_api_does_what_it_says(
    node: LiveNode, address: str, name: str, tmp_path: Path
) -> None:
    topic = new_topic(node, name, 1)
    bodies = produce(node, topic, 10, 1)
    told = client(tmp_path, "api", address, SET, topic, "stepping", source=POPPING)
    assert [(one["step"], one["is"]) for one in told if "step" in one] == [
        ("has", True),
        ("ack", "OK"),
        ("change", "OK"),
        ("stale", "NO_EXIST"),
        ("changed", "OK"),
        ("batch", "OK"),
        ("none", "POLLING_NOT_FOUND"),
        ("back", "OK"),
        ("end", "OK"),
        ("has", False),
    ]
    first = [one for one in told if "first" in one]
    assert {one["first"] for one in first} == bodies
    assert {one["times"] for one in first} == {0}
    assert [(one["second"], one["times"]) for one in told if "second" in one] == [("message 9", 1)]


def test_a_push_consumer_that_asks_for_its_queues_pops_once_its_group_is_set_to(
    node: LiveNode, address: str, name: str, tmp_path: Path
) -> None:
    topic, group = new_topic(node, name), f"group-{name}"
    bodies = produce(node, topic, COUNT)
    client(tmp_path, "mode", address, topic, group, "POP", source=POPPING)
    with running_client(tmp_path, "push", address, topic, group, COUNT, source=POPPING) as running:
        assert wait_until(lambda: len(consumed(running.told())) == COUNT, UNTIL_SECONDS)
        assert wait_until(lambda: acknowledged(node, group) == COUNT, UNTIL_SECONDS)
        told = running.finish()
    assert consumed(told) == Counter(bodies), "each once"
    assert all(len(one["receipt"].split()) == 8 for one in told if "consumed" in one)
    produce(node, topic, 1)
    with running_client(tmp_path, "push", address, topic, group, 1, source=POPPING) as running:
        assert wait_until(lambda: consumed(running.told()).total() == 1, UNTIL_SECONDS)
        assert consumed(running.finish()) == {"message 0": 1}, "the group goes on"


def acknowledged(node: LiveNode, group: str) -> int:
    return count_of(node, group, "acknowledged")


def count_of(node: LiveNode, group: str, outcome: str) -> int:
    """How many messages of the group ended so; -1 on a node without the front."""
    front = node.node._rocketmq.remoting
    return -1 if front is None else node.call(lambda: front.desk.pops.counts[group, outcome])


def test_a_push_consumer_pulls_what_its_group_is_not_set_to_pop(
    node: LiveNode, address: str, name: str, tmp_path: Path
) -> None:
    topic, group = new_topic(node, name), f"group-{name}"
    bodies = produce(node, topic, COUNT)
    for mode in ("POP", "PULL"):
        client(tmp_path, "mode", address, topic, group, mode, source=POPPING)
    with running_client(tmp_path, "push", address, topic, group, COUNT, source=POPPING) as running:
        assert wait_until(lambda: len(consumed(running.told())) == COUNT, UNTIL_SECONDS)
        assert consumed(running.finish()) == Counter(bodies)
    assert count_of(node, group, "popped") == 0


def test_what_a_push_consumer_always_fails_with_is_a_dead_letter_after_its_deliveries(
    node: LiveNode, address: str, name: str, tmp_path: Path
) -> None:
    topic, group = new_topic(node, name, 1), f"group-{name}"
    bodies = produce(node, topic, 5, 1)
    set_group(node, group, "rmq.pop.deliveries.max", "3")
    client(tmp_path, "mode", address, topic, group, "POP", source=POPPING)
    with running_client(tmp_path, "failing", address, topic, group, 15, source=POPPING) as running:
        assert wait_until(lambda: count_of(node, group, "dead_letter") == 5, UNTIL_SECONDS)
        told = running.finish()
    assert consumed(told) == Counter(dict.fromkeys(bodies, 3))
    times = Counter(one["times"] for one in told if "consumed" in one)
    assert times == {0: 5, 1: 5, 2: 5}
    consumer = Consumer({"bootstrap.servers": f"127.0.0.1:{node.port}", "group.id": "letters"})
    consumer.assign([TopicPartition(f"rmq.dlq.{group}", 0, 0)])
    letters = [one for one in consumer.consume(5, 60) if one.error() is None]
    consumer.close()
    assert {(one.value() or b"").decode() for one in letters} == bodies
    origins = {dict(one.headers() or [])["rmq.DLQ_ORIGIN_TOPIC"] for one in letters}
    assert origins == {topic.encode()}


def set_group(node: LiveNode, group: str, key: str, value: str) -> None:
    edit = ConfigEdit(key=key, operation=ConfigOperation.SET, value=value)
    edits = ResourceEdits(resource_type=ResourceType.GROUP, resource_name=group, edits=(edit,))
    (outcome,) = node.submit(AlterConfigs(resources=(edits,)))
    assert outcome.error is None


def test_a_frozen_consumer_blocks_nobody_and_what_it_took_comes_to_another(
    node: LiveNode, address: str, name: str, tmp_path: Path
) -> None:
    topic, group = new_topic(node, name), f"group-{name}"
    produce(node, topic, 3)
    client(tmp_path, "mode", address, topic, group, "POP", source=POPPING)
    homes = [tmp_path / one for one in ("frozen", "alive")]
    for home in homes:
        home.mkdir()
    with running_client(homes[0], "hanging", address, topic, group, source=POPPING) as frozen:
        assert wait_until(lambda: bool(frozen.told()), UNTIL_SECONDS)
        frozen.freeze()
        bodies = produce(node, topic, 10 * COUNT)
        count = len(bodies) + 3
        with running_client(
            homes[1], "push", address, topic, group, count, source=POPPING
        ) as alive:
            assert wait_until(lambda: consumed(alive.told()).total() >= count, UNTIL_SECONDS)
            told = alive.finish()
    assert consumed(told).keys() == bodies
