"""`penstock message trace`, of what clients of three protocols do with messages."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from harness.ports import free_port
from harness.share_groups import configure_group
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.grpc.receiving import Member
from tests.grpc.served import Caller
from tests.live_node import LiveNode
from tests.remoting.popping import ack, change, pop
from tests.remoting.served import Remote, running_remoting_node, sent

pytestmark = pytest.mark.timeout(300)


class Served:
    """A node that traces all messages, and its addresses."""

    def __init__(self, node: LiveNode, remoting: str, grpc: str) -> None:
        self.node, self.remoting, self.grpc = node, remoting, grpc

    def topic(self, name: str) -> str:
        self.node.submit(CreateTopics(topics=(NewTopic(name=name, partition_count=1),)))
        return name

    def send(self, remote: Remote, topic: str, *names: str) -> None:
        for name in names:
            properties = {"KEYS": f"{name} all", "UNIQ_KEY": f"ID-{name}"}
            fields = sent(topic, properties)
            answer = remote.ask(RequestCode.SEND_MESSAGE_V2, fields, name.encode())
            assert answer.code == ResponseCode.SUCCESS, answer.remark


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    grpc = free_port()
    with running_remoting_node(
        tmp_path_factory.mktemp("trace"), f"grpc.port={grpc}", "broker.message_trace_percent=100"
    ) as (node, remoting):
        yield Served(node, remoting, f"127.0.0.1:{grpc}")


@pytest.fixture
def remote(served: Served) -> Iterator[Remote]:
    with closing(Remote(served.remoting)) as remote:
        yield remote


def run(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.cli.main", "message", "trace", *arguments]
    return subprocess.run(
        [*command, "--bootstrap", address], capture_output=True, text=True, check=False, timeout=120
    )


def told(served: Served, *arguments: str) -> list[dict[str, Any]]:
    done = run(served.remoting, *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def are_written(served: Served, count: int) -> bool:
    """Whether so many rows of the trace are confirmed, and none waits."""
    trace = served.node.broker.message_trace
    assert trace is not None
    return served.node.call(lambda: trace.written >= count and not len(trace))


def events(rows: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(row["event"], row["group"]) for row in rows]


def settle(served: Served, rows: int) -> None:
    """Wait until so many more rows than before are there."""
    assert wait_until(lambda: are_written(served, rows), UNTIL_SECONDS)


def written(served: Served) -> int:
    trace = served.node.broker.message_trace
    assert trace is not None
    assert wait_until(lambda: are_written(served, 0), UNTIL_SECONDS)
    return served.node.call(lambda: trace.written)


def test_a_popped_message_tells_who_had_it_and_with_what_result(
    served: Served, remote: Remote
) -> None:
    topic, before = served.topic("popped"), written(served)
    served.send(remote, topic, "one", "two")
    first, second = pop(remote, topic).receipts
    assert ack(remote, topic, first).code == ResponseCode.SUCCESS
    assert change(remote, topic, second, 0).code == ResponseCode.SUCCESS
    (again,) = pop(remote, topic).receipts
    assert ack(remote, topic, again).code == ResponseCode.SUCCESS
    settle(served, before + 5)
    rows = told(served, topic, "--id", "ID-one")
    group = "rmq.pop.g"
    assert events(rows) == [("stored", None), ("delivered", group), ("accepted", group)]
    assert {(row["partition"], row["offset"], row["id"]) for row in rows} == {(0, 0, "ID-one")}
    assert rows[0]["client"] == "127.0.0.1"
    assert rows[1]["client"]
    assert [row["node"] for row in rows] == [None, 1, 1]
    rows = told(served, topic, "--key", "two")
    names = [event for event, _ in events(rows)]
    assert names[:2] == ["stored", "delivered"]
    assert names[2] in {"released", "renewed"}
    assert names[-2:] == ["delivered", "accepted"]


def test_a_share_consumer_of_kafka_is_told_too(served: Served) -> None:
    topic, before = served.topic("shared"), written(served)
    bootstrap = f"127.0.0.1:{served.node.port}"
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", b"customer-7")
    assert not producer.flush(UNTIL_SECONDS)
    configure_group(bootstrap, "sharers")
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "sharers",
            "share.acknowledgement.mode": "explicit",
        }
    )
    consumer.subscribe([topic])
    got = []

    def has_it() -> bool:
        for message in consumer.poll(1.0):
            got.append(message)
            consumer.acknowledge(message, AcknowledgeType.REJECT)
        return bool(got)

    assert wait_until(has_it, UNTIL_SECONDS)
    consumer.commit_sync()
    settle(served, before + 2)
    consumer.close()
    rows = told(served, topic, "--key", "customer-7")
    assert events(rows)[:3] == [
        ("stored", None),
        ("delivered", "sharers"),
        ("given_up", "sharers"),
    ]


def test_a_consumer_of_grpc_is_told_too(served: Served, remote: Remote) -> None:
    topic, before = served.topic("received"), written(served)
    served.send(remote, topic, "three")
    with closing(Caller(served.grpc)) as caller:
        receiver = Member(caller)
        received = receiver.receive(topic)
        assert received.bodies == ["three"]
        receiver.ack(topic, *received.handles)
    settle(served, before + 2)
    rows = told(served, topic, "--key", "three")
    assert [event for event, _ in events(rows)] == ["stored", "delivered", "accepted"]
    assert rows[1]["client"] == "one@1"


def test_what_a_filter_leaves_out_was_passed_over(served: Served, remote: Remote) -> None:
    topic, before = served.topic("filtered"), written(served)
    served.send(remote, topic, "plain")
    properties = {"TAGS": "blue", "UNIQ_KEY": "ID-blue"}
    remote.ask(RequestCode.SEND_MESSAGE_V2, sent(topic, properties), b"blue")
    popped = pop(remote, topic, exp="blue", expType="TAG")
    assert popped.bodies == ["blue"]
    settle(served, before + 2)
    rows = told(served, topic, "--key", "plain")
    assert events(rows) == [("stored", None), ("passed over", "rmq.pop.g")]


def test_a_message_that_is_nowhere_and_one_that_nobody_had(served: Served, remote: Remote) -> None:
    topic = served.topic("unread")
    served.send(remote, topic, "alone")
    assert events(told(served, topic, "--key", "alone")) == [("stored", None)]
    done = run(served.remoting, topic, "--key", "nothing")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no such message" in done.stderr
    assert run(served.remoting, topic).returncode == 2


def test_a_cluster_without_a_trace_says_so(tmp_path: Path) -> None:
    with running_remoting_node(tmp_path) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name="t", partition_count=1),)))
        with closing(Remote(address)) as remote:
            remote.ask(RequestCode.SEND_MESSAGE_V2, sent("t", {"UNIQ_KEY": "A"}), b"v")
        done = run(address, "t", "--id", "A")
    assert done.returncode == 0, done.stderr
    assert "broker.message_trace_percent" in done.stderr
    assert "stored" in done.stdout


def consume(bootstrap: str, group: str, protocol: str, topic: str, count: int) -> None:
    """Read so many messages with a stock client, and commit the position behind them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    for _ in range(count):
        message = consumer.poll(UNTIL_SECONDS)
        assert message is not None
        assert message.error() is None
        consumer.commit(message=message, asynchronous=False)
    consumer.close()


def test_positions_of_kafkas_groups_are_told_apart_from_deliveries(
    served: Served, remote: Remote
) -> None:
    topic, before = served.topic("positions"), written(served)
    bootstrap = f"127.0.0.1:{served.node.port}"
    served.send(remote, topic, "p0", "p1", "p2")
    consume(bootstrap, "old-readers", "classic", topic, 1)
    consume(bootstrap, "new-readers", "consumer", topic, 2)
    consume(bootstrap, "elsewhere", "classic", served.topic("another"), 0)
    (first, *_) = pop(remote, topic, maxMsgNums=1).receipts
    assert ack(remote, topic, first).code == ResponseCode.SUCCESS
    settle(served, before + 2)
    rows = [told(served, topic, "--key", f"p{at}", "--groups", bootstrap) for at in range(3)]
    popped = [("delivered", "rmq.pop.g"), ("accepted", "rmq.pop.g")]
    past, not_yet = "position past it", "position before it"
    stored = ("stored", None)
    assert events(rows[0]) == [stored, *popped, (past, "new-readers"), (past, "old-readers")]
    assert events(rows[1]) == [stored, (past, "new-readers"), (not_yet, "old-readers")]
    assert events(rows[2]) == [stored, (not_yet, "new-readers"), (not_yet, "old-readers")]
    for row in rows[0][-2:]:
        assert (row["partition"], row["offset"], row["id"]) == (0, 0, "ID-p0")
        assert (row["time"], row["client"], row["node"]) == (None, None, None)
    assert events(told(served, topic, "--key", "p0")) == [stored, *popped], "if they are asked for"


def test_positions_are_of_the_partition_of_each_message(served: Served, remote: Remote) -> None:
    topic = "two-partitions"
    served.node.submit(CreateTopics(topics=(NewTopic(name=topic, partition_count=2),)))
    for queue in (0, 1):
        remote.ask(RequestCode.SEND_MESSAGE_V2, sent(topic, {"KEYS": "both"}, e=queue), b"v")
    consumer = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{served.node.port}", "group.id": "of-second"}
    )
    consumer.commit(offsets=[TopicPartition(topic, 1, 1)], asynchronous=False)
    consumer.close()
    bootstrap = f"127.0.0.1:{served.node.port}"
    rows = told(served, topic, "--key", "both", "--groups", bootstrap)
    positions = [row for row in rows if row["group"] is not None]
    assert [(row["partition"], row["event"]) for row in positions] == [(1, "position past it")]


def test_nobody_at_the_port_of_groups_is_an_error_that_names_it(
    served: Served, remote: Remote
) -> None:
    topic = served.topic("no-groups")
    served.send(remote, topic, "x")
    address = f"127.0.0.1:{free_port()}"
    done = run(served.remoting, topic, "--key", "x", "--groups", address, "--timeout", "2")
    assert done.returncode not in {0, 2}
    assert address in done.stderr


def test_a_topic_is_traced_or_not_as_it_says_while_the_node_runs(
    served: Served, remote: Remote
) -> None:
    topic, before = served.topic("silent"), written(served)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{served.node.port}"})

    def say(percent: str) -> None:
        entry = ConfigEntry(
            "penstock.message.trace.percent",
            percent,
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (done,) = admin.incremental_alter_configs([resource]).values()
        done.result(UNTIL_SECONDS)
        topics = served.node.broker.partitions.by_name
        assert served.node.until(
            lambda: topics[topic.encode()].settings.message_trace_percent == float(percent)
        )

    def read(name: str) -> None:
        served.send(remote, topic, name)
        (receipt,) = pop(remote, topic).receipts
        assert ack(remote, topic, receipt).code == ResponseCode.SUCCESS

    say("0")
    read("unseen")
    say("100")
    read("seen")
    settle(served, before + 2)
    assert events(told(served, topic, "--key", "unseen")) == [("stored", None)]
    seen = [event for event, _ in events(told(served, topic, "--key", "seen"))]
    assert seen == ["stored", "delivered", "accepted"]
