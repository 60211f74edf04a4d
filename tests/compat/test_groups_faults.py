"""Groups of stock clients while the node is killed, and groups made of different clients.

Each test has a node of its own, since it is killed. What must hold: members keep their partitions
over a kill without a rebalance, a position that was acknowledged is never lost and never goes back,
and clients of different libraries divide a topic among them.
"""

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.process,
]
PARTITIONS = 6


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(UNTIL_SECONDS)
        yield process


class Watched:
    """A librdkafka consumer that counts how often its assignment was taken away or given."""

    def __init__(self, node: NodeProcess, group: str, **settings: object) -> None:
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        self.changes = 0
        self.values: list[int] = []
        self.fatal_errors: list[KafkaError] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": node.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 60_000,
                "heartbeat.interval.ms": 300,
                "reconnect.backoff.max.ms": 300,
                "log_level": 0,
                **dotted,
            }
        )
        self.consumer.subscribe(["t"], on_assign=self._on_change, on_revoke=self._on_change)

    def _on_change(self, _: Consumer, __: list[TopicPartition]) -> None:
        self.changes += 1

    @property
    def partitions(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        error = None if message is None else message.error()
        if error is not None and error.code() == KafkaError._FATAL:
            self.fatal_errors.append(error)
        elif message is not None and error is None:
            self.values.append(int(message.value() or b"-1"))


def poll_until(
    members: list[Watched], is_done: Callable[[], bool], seconds: float = UNTIL_SECONDS
) -> None:
    deadline = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < deadline, [sorted(m.partitions) for m in members]
        for member in members:
            member.poll()


def are_divided(members: list[Watched]) -> bool:
    held = [p for member in members for p in member.partitions]
    return len(held) == PARTITIONS == len({*held}) and all(m.partitions for m in members)


def produce(node: NodeProcess, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in numbers:
        producer.produce("t", str(number), partition=number % PARTITIONS)
    assert producer.flush(UNTIL_SECONDS) == 0


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_keep_their_partitions_when_the_node_is_killed(
    node: NodeProcess, strategy: str
) -> None:
    members = [Watched(node, "g", partition_assignment_strategy=strategy) for _ in range(3)]
    poll_until(members, lambda: are_divided(members))
    produce(node, range(300))
    poll_until(members, lambda: sum(len(m.values) for m in members) == 300)
    before = [(m.partitions, m.changes) for m in members]
    node.restart()
    until = time.monotonic() + 3
    poll_until(members, lambda: time.monotonic() > until)
    produce(node, range(300, 600))
    poll_until(members, lambda: sum(len(m.values) for m in members) >= 600)
    assert [(m.partitions, m.changes) for m in members] == before
    assert sorted(v for m in members for v in m.values) == [*range(600)]
    for member in members:
        member.consumer.close()


def test_an_acknowledged_position_survives_every_kill(node: NodeProcess) -> None:
    settings = {"bootstrap.servers": node.bootstrap, "group.id": "g", "socket.timeout.ms": 3_000}
    consumer = Consumer({**settings, "reconnect.backoff.max.ms": 100, "log_level": 0})
    acknowledged, is_over = [0], threading.Event()

    def commit_for_ever() -> None:
        offset = 0
        while not is_over.is_set():
            offset += 1
            wanted = [TopicPartition("t", 0, offset)]
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                continue
            acknowledged[0] = offset

    worker = threading.Thread(target=commit_for_ever)
    worker.start()
    try:
        for _ in range(5):
            grown = acknowledged[0] + 20
            deadline = time.monotonic() + UNTIL_SECONDS
            while acknowledged[0] < grown:
                assert time.monotonic() < deadline, "commits do not go on after the restart"
                time.sleep(0.005)
            node.kill()
            known = acknowledged[0]
            node.start()
            reader = Consumer(settings)
            (kept,) = reader.committed([TopicPartition("t", 0)], timeout=UNTIL_SECONDS)
            reader.close()
            assert kept.offset >= known
    finally:
        is_over.set()
        worker.join(UNTIL_SECONDS)
        consumer.close()


def test_a_killed_static_member_comes_back_to_its_partitions_without_a_rebalance(
    node: NodeProcess,
) -> None:
    members = [Watched(node, "g", group_instance_id=f"i{n}") for n in range(2)]
    poll_until(members, lambda: are_divided(members))
    left, stays = members
    mine, changes = left.partitions, stays.changes
    left.consumer.close()  # a static member says nothing when it goes
    node.restart()
    back = Watched(node, "g", group_instance_id="i0")
    poll_until([back, stays], lambda: back.partitions == mine)
    assert stays.changes == changes
    back.consumer.close()
    stays.consumer.close()


def test_the_former_owner_of_an_instance_id_is_told_that_it_is_fenced(node: NodeProcess) -> None:
    first = Watched(node, "g", group_instance_id="one")
    poll_until([first], lambda: len(first.partitions) == PARTITIONS)
    second = Watched(node, "g", group_instance_id="one")
    poll_until([second], lambda: len(second.partitions) == PARTITIONS)
    poll_until([first, second], lambda: bool(first.fatal_errors))
    assert "fenced" in first.fatal_errors[0].str()
    assert not second.fatal_errors
    second.consumer.close()


def test_clients_of_two_libraries_divide_a_topic_among_them(node: NodeProcess) -> None:
    native = Watched(node, "g", partition_assignment_strategy="range")
    python = KafkaConsumer(
        "t",
        bootstrap_servers=node.bootstrap,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
    )
    produce(node, range(60))
    found: list[int] = []

    def are_divided_between_both() -> bool:
        for records in python.poll(300).values():
            found.extend(int(record.value) for record in records)
        theirs = {each.partition for each in python.assignment()}
        return len(native.partitions) == len(theirs) == 3 and not native.partitions & theirs

    poll_until([native], are_divided_between_both)
    poll_until(
        [native], lambda: are_divided_between_both() and {*found, *native.values} == {*range(60)}
    )
    python.close()
    poll_until([native], lambda: len(native.partitions) == PARTITIONS)
    native.consumer.close()
