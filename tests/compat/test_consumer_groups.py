"""Groups that the coordinator assigns (KIP-848), with librdkafka's consumer."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.waiting import UNTIL_SECONDS

pytestmark = pytest.mark.process
RECORDS = 300


class Group:
    """Consumers of one group, polled together."""

    def __init__(self, bootstrap: str, group_id: str) -> None:
        self.bootstrap = bootstrap
        self.group_id = group_id
        self.members: list[Consumer] = []
        self.read: list[tuple[int, int]] = []

    def enter(self, topic: str, **settings: Any) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group_id,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        member.subscribe([topic])
        self.members.append(member)
        return member

    def poll_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + UNTIL_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.owned()
            for member in self.members:
                for message in member.consume(100, 0.1):
                    assert message.error() is None, message.error()
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    self.read.append((partition, offset))

    def owned(self) -> list[list[int]]:
        return [sorted(each.partition for each in one.assignment()) for one in self.members]

    def is_shared(self, *counts: int) -> bool:
        owned = self.owned()
        every = sorted(number for some in owned for number in some)
        return every == [0, 1, 2] and sorted(map(len, owned)) == sorted(counts)

    def leave(self, member: Consumer) -> None:
        self.members.remove(member)
        member.close()


@pytest.fixture
def group(bootstrap: str, topic: str) -> Iterator[Group]:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(topic, b"x", partition=number % 3)
    assert producer.flush(UNTIL_SECONDS) == 0
    group = Group(bootstrap, topic)
    yield group
    for member in group.members:
        member.close()


def described(group: Group) -> Any:
    admin = AdminClient({"bootstrap.servers": group.bootstrap})
    return admin.describe_consumer_groups([group.group_id])[group.group_id].result(UNTIL_SECONDS)


def test_members_share_partitions_and_hand_them_over(group: Group, topic: str) -> None:
    first = group.enter(topic, **{"client.rack": "r1"})
    group.poll_until(lambda: len(group.read) == RECORDS)
    first.commit(asynchronous=False)
    second = group.enter(topic)
    group.poll_until(lambda: group.is_shared(1, 2))
    seen = described(group)
    assert seen.type is ConsumerGroupType.CONSUMER
    assert seen.state.name == "STABLE"
    shown = sorted(
        each.partition for one in seen.members for each in one.assignment.topic_partitions
    )
    assert shown == [0, 1, 2]
    group.leave(first)
    group.poll_until(lambda: group.is_shared(3))
    assert len(set(group.read)) == len(group.read) == RECORDS, "positions went with partitions"
    positions = second.committed([TopicPartition(topic, each) for each in range(3)], UNTIL_SECONDS)
    assert [each.offset for each in positions] == [RECORDS // 3] * 3


def test_members_subscribe_by_a_regular_expression(group: Group, topic: str) -> None:
    group.enter(f"^{topic[:-1]}.$", **{"group.remote.assignor": "range"})
    group.poll_until(lambda: len(group.read) == RECORDS)
    assert described(group).partition_assignor == "range"


def test_a_static_member_comes_back_to_its_partitions(group: Group, topic: str) -> None:
    static = group.enter(topic, **{"group.instance.id": "i"})
    group.enter(topic)
    group.poll_until(lambda: group.is_shared(1, 2))
    before, others = group.owned()
    group.leave(static)
    group.enter(topic, **{"group.instance.id": "i"})
    group.poll_until(lambda: group.is_shared(1, 2))
    assert group.owned() == [others, before]
