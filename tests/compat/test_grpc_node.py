"""RocketMQ's stock gRPC client for Node.js, unchanged, as producer and consumer; judged by Kafka's.

Its own suite is not in its package. What that asks of a server is asked here, in other words.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from penstock.controller.commands.command import CreateTopics
from penstock.controller.commands.command import NewTopic as Created
from tests.compat.rocketmq_client import RunningClient
from tests.compat.rocketmq_node import node_client, running_node_client
from tests.grpc.served import records, running_grpc_node
from tests.live_node import LiveNode

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 20
PARTITIONS = 3
LATE = 4
MORE = 100
"""Messages that go through before the next thing happens."""
HALVES = 9
COMMITTED = {f"half {n}" for n in range(0, HALVES, 3)}
OPEN = {f"half {n}" for n in range(2, HALVES, 3)}
UNTIL_SECONDS = 120.0
SETTINGS = ("transaction_first_check_ms=2000", "transaction_check_interval_ms=1000")

Served = tuple[LiveNode, str]
Told = list[dict[str, Any]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = [f"remoting.{one}" for one in SETTINGS]
    with running_grpc_node(tmp_path_factory.mktemp("grpc"), *settings) as served:
        yield served


def create(node: LiveNode, name: str, kind: str = "MIXED") -> str:
    configs = {} if kind == "MIXED" else {"penstock.message.type": kind}
    new = Created(name=name, partition_count=PARTITIONS, configs=configs)
    node.submit(CreateTopics(topics=(new,)))
    return name


def bodies(told: Told, what: str) -> list[str]:
    return [one[what] for one in told if what in one]


def keep_order(bootstrap: str, group: str) -> None:
    """Have a group keep the order of message groups."""
    entry = ConfigEntry("rmq.pop.ordered", "true", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(60)


def produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value.encode())
    producer.flush()


# --- one node ----------------------------------------------------------------------------------


def test_what_node_sends_kafka_s_client_reads_with_all_its_parts(
    served: Served, tmp_path: Path
) -> None:
    node, address = served
    topic = create(node, "sent")
    told = node_client(tmp_path, "send", endpoints=address, topic=topic, count=COUNT)
    ids = {one["sent"]: one["id"] for one in told}
    assert len(ids) == COUNT
    assert [one["transaction"] for one in told] == [one["id"] for one in told]
    read = {one.value().decode(): one for one in records(node, topic, PARTITIONS, COUNT)}
    assert read.keys() == ids.keys()
    for one in told:
        record, number = read[one["sent"]], int(one["sent"].split("-")[1])
        headers = dict(record.headers())
        assert headers["rmq.id"].decode() == one["id"]
        assert headers["rmq.tag"].decode() == f"tag{number % 2}"
        assert headers["rmq.keys"].decode() == f"key-{number}"
        assert headers["colour"].decode() == "grün"
        assert record.offset() == one["offset"]
        assert record.key() == (f"group-{number % 4}".encode() if number % 2 else None)
    for group in (1, 3):
        of_group = [read[f"node-{number}"] for number in range(group, COUNT, 4)]
        assert len({one.partition() for one in of_group}) == 1
        assert [one.offset() for one in of_group] == sorted(one.offset() for one in of_group)


def test_a_delayed_message_of_node_is_there_once_and_never_early_and_a_recalled_one_never(
    served: Served, tmp_path: Path
) -> None:
    node, address = served
    topic = create(node, "late", "DELAY")
    given = {"endpoints": address, "topic": topic, "count": LATE, "seconds": 2}
    told = node_client(tmp_path, "late", recalls=True, **given)
    assert [one.get("recalled") for one in told] == [None, True] * (LATE // 2)
    left = {one["sent"]: one["at"] for one in told if "recalled" not in one}
    kept = node.node._rocketmq.keeping
    assert kept is not None
    assert wait_until(lambda: node.call(kept.delivery.waiting) == 0, UNTIL_SECONDS)
    read = records(node, topic, PARTITIONS, len(left))
    assert sorted(one.value().decode() for one in read) == sorted(left)
    for one in read:
        assert one.timestamp()[1] >= left[one.value().decode()]
    wanted = {"group": topic, "count": len(left), "kind": "TAG", "expression": "*"}
    got = node_client(tmp_path, "simple", endpoints=address, topic=topic, **wanted)
    received = {one["received"]: one for one in got if "received" in one}
    assert {body: one["due"] for body, one in received.items()} == left
    assert all(one["delivered"] >= one["due"] for one in received.values())


def test_what_is_not_acknowledged_holds_back_no_message_group_where_no_order_is_asked_for(
    served: Served, tmp_path: Path
) -> None:
    """A topic of FIFO messages keeps their order; what comes at a time is for the group to say."""
    node, address = served
    topic = create(node, "held", "FIFO")
    given = {"endpoints": address, "topic": topic, "group": "unordered"}
    told = node_client(tmp_path, "held", **given)
    assert bodies(told, "taken") == ["held", "first", "second"]


@pytest.mark.parametrize(
    ("kind", "expression", "numbers"),
    [
        ("TAG", "*", range(COUNT)),
        ("TAG", "tag1 || none", range(1, COUNT, 2)),
        ("SQL", "TAGS = 'tag0' AND colour IS NOT NULL", range(0, COUNT, 2)),
    ],
)
def test_a_simple_consumer_of_node_receives_what_it_wants_once_with_all_its_parts(
    served: Served, tmp_path: Path, kind: str, expression: str, numbers: range
) -> None:
    node, address = served
    topic = create(node, f"wanted-{kind}-{len(numbers)}")
    given = {"endpoints": address, "topic": topic}
    sent = node_client(tmp_path, "send", count=COUNT, **given)
    ids = {one["sent"]: one["id"] for one in sent}
    wanted = {"count": len(numbers), "kind": kind, "expression": expression}
    told = node_client(tmp_path, "simple", group=topic, **wanted, **given)
    assert told[0].keys() == {"changed"}
    assert told[-1] == {"more": 0}, "all of them are acknowledged"
    received = {one["received"]: one for one in told if "received" in one}
    assert len(bodies(told, "received")) == len(received) == len(numbers)
    for number in numbers:
        one = received[f"node-{number}"]
        assert one["id"] == ids[f"node-{number}"]
        assert (one["tag"], one["keys"]) == (f"tag{number % 2}", f"key-{number}")
        assert (one["colour"], one["attempt"], one["corrupted"]) == ("grün", 1, False)
        group = f"group-{number % 4}" if number % 2 else ""
        assert (one["group"], one["properties"].get("__SHARDINGKEY", "")) == (group, group)


def test_a_push_consumer_of_node_gets_all_and_again_what_it_fails_with(
    served: Served, tmp_path: Path
) -> None:
    node, address = served
    topic = create(node, "pushed")
    wanted = [*(f"good-{n}" for n in range(COUNT)), "again-1", "again-2"]
    produce(f"127.0.0.1:{node.port}", topic, wanted)
    given = {"endpoints": address, "topic": topic, "group": "pushers", "count": len(wanted)}
    with running_node_client(tmp_path, "push", **given) as running:
        assert wait_until(lambda: {"done": True} in running.told(), UNTIL_SECONDS)
        told = running.finish()
    assert Counter(bodies(told, "consumed")) == Counter([*wanted, "again-1", "again-2"])
    last = {one["consumed"]: one["attempt"] for one in told if "consumed" in one}
    assert [last["again-1"], last["again-2"], last["good-0"]] == [2, 2, 1]


def test_message_groups_come_to_a_push_consumer_of_node_in_order_but_for_dead_letters(
    served: Served, tmp_path: Path
) -> None:
    """It knows no customised back-off: in order it has one attempt, and forwards what failed."""
    node, address = served
    topic = create(node, "grouped", "FIFO")
    keep_order(f"127.0.0.1:{node.port}", "in-order")
    given = {"endpoints": address, "topic": topic}
    sent = bodies(node_client(tmp_path, "grouped", count=COUNT, **given), "sent")
    failing = [one for one in sent if one.startswith("again")]
    pushing = {"group": "in-order", "count": COUNT - len(failing), **given}
    with running_node_client(tmp_path, "push", **pushing) as running:
        assert wait_until(lambda: {"done": True} in running.told(), UNTIL_SECONDS)
        told = running.finish()
    for group in ("a", "b"):
        consumed = [one for one in bodies(told, "consumed") if one.endswith(group)]
        assert consumed == [one for one in sent if one.endswith(group)]
    dead = records(node, "rmq.dlq.in-order", 1, len(failing))
    assert sorted(one.value().decode() for one in dead) == sorted(failing)


@pytest.mark.parametrize("answer", ["COMMIT", "ROLLBACK"])
def test_what_node_leaves_open_is_asked_for_and_what_is_rolled_back_is_never_there(
    served: Served, tmp_path: Path, answer: str
) -> None:
    node, address = served
    topic = create(node, f"half-{answer.lower()}", "TRANSACTION")
    given = {"endpoints": address, "topic": topic, "count": HALVES, "answer": answer}
    kept = node.node._rocketmq.keeping
    assert kept is not None
    with running_node_client(tmp_path, "half", **given) as running:
        assert wait_until(
            lambda: (
                set(bodies(running.told(), "checked")) >= OPEN
                and node.call(kept.halves.waiting) == 0
            ),
            UNTIL_SECONDS,
        ), running.told()[-3:]
        told = running.finish()
    asked = {one["checked"]: one for one in told if "checked" in one}
    sent = {one["sent"]: one for one in told if "sent" in one}
    assert asked.keys() == OPEN
    for body, one in asked.items():
        assert (one["topic"], one["id"], one["colour"]) == (topic, sent[body]["id"], "grün")
    expected = COMMITTED | OPEN if answer == "COMMIT" else COMMITTED
    wanted = {"group": topic, "count": len(expected), "kind": "TAG", "expression": "*"}
    got = node_client(tmp_path, "simple", endpoints=address, topic=topic, **wanted)
    assert got[-1] == {"more": 0}
    assert Counter(bodies(got, "received")) == Counter(expected), "each once"
    for one in [one for one in got if "received" in one]:
        assert one["properties"]["__transactionId__"] == sent[one["received"]]["transaction"]
    read = records(node, topic, PARTITIONS, len(expected))
    assert {one.value().decode() for one in read} == expected


def test_a_topic_that_is_not_there_is_told_to_node_in_rocketmq_s_words(
    served: Served, tmp_path: Path
) -> None:
    given = {"endpoints": served[1], "topic": "none", "count": 1, "isRefused": True}
    (told,) = node_client(tmp_path, "signed", **given)
    assert (told["kind"], told["code"]) == ("NotFoundException", 40402)
    assert "CODE: 17  DESC: No topic route info in name server for the topic: none" in told["why"]


# --- three nodes -------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", has_grpc=True) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 6, 3)])["orders"].result(60)
        yield cluster


def address_beside(cluster: ClusterProcess, killed: int) -> str:
    """An address of another node: of several of them the client makes a name that is none."""
    port = next(port for one, port in cluster.grpc_ports.items() if one != killed)
    return f"127.0.0.1:{port}"


def await_more(running: RunningClient, count: int) -> None:
    """Wait until further messages were both sent and received."""

    def counts() -> list[int]:
        told = running.told()
        return [len(set(bodies(told, what))) for what in ("sent", "received")]

    begun = counts()

    def has_more() -> bool:
        return all(one >= then + count for one, then in zip(counts(), begun, strict=True))

    assert wait_until(has_more, UNTIL_SECONDS), running.told()[-3:]


def test_node_sends_to_each_node_of_a_topic_and_receives_from_each(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    """It knows queues with the number 0 alone: each node has one of its own."""
    kafka = [f"kafka-{partition}" for partition in range(6)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for partition, value in enumerate(kafka):
        producer.produce("orders", value.encode(), partition=partition)
    producer.flush()
    given = {"endpoints": address_beside(cluster, 1), "topic": "orders", "group": "shop"}
    with running_node_client(tmp_path, "through", **given) as running:
        await_more(running, 60)
        assert wait_until(lambda: {*kafka} <= {*bodies(running.told(), "received")}, UNTIL_SECONDS)
        told = running.finish()
    assert told[-1] == {"left": 0}
    read = all_of(cluster.bootstrap)
    assert sorted(one.value().decode() for one in read) == sorted([*kafka, *bodies(told, "sent")])
    by_node = {one.partition() for one in read if one.value().startswith(b"through")}
    assert {cluster.leader_of("orders", one) for one in by_node} == {1, 2, 3}


def test_nothing_that_node_acknowledges_comes_again_and_nothing_is_lost_as_a_master_is_killed(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    leader = cluster.leader_of("orders", 0)
    address = address_beside(cluster, leader)
    given = {"endpoints": address, "topic": "orders", "group": "shop"}
    with running_node_client(tmp_path, "through", **given) as running:
        await_more(running, MORE)
        cluster.nodes[leader].kill()
        await_more(running, MORE)
        cluster.nodes[leader].start()
        await_more(running, MORE)
        told = running.finish()
    assert told[-1] == {"left": 0}, "all that was sent is received and acknowledged"
    stored = Counter(one.value().decode() for one in all_of(cluster.bootstrap))
    assert stored.keys() >= set(bodies(told, "sent"))
    twice = Counter(bodies(told, "received")) - stored
    assert not twice, "acknowledged, and received again: what is sent again is stored twice"


def all_of(bootstrap: str) -> list[Any]:
    """All that the topic has, up to the ends that it has now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "all", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("orders", one, 0) for one in range(6)])
    found: list[Any] = []
    ended: set[int] = set()
    while len(ended) < 6:
        record = consumer.poll(UNTIL_SECONDS)
        assert record is not None, f"{len(ended)} of 6 partitions are read"
        if record.error() is None:
            found.append(record)
        else:
            ended.add(record.partition() or 0)
    consumer.close()
    return found
