"""A running group of Java consumers goes from the classic protocol to KIP-848's and back.

The members are Kafka's own VerifiableConsumer, which tells each event in a line of JSON. They are
replaced one by one, so that the group has members of both protocols on the way, while records flow.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from benchmarks.parts.java_servers import JavaServer
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_programs import end, printed, program
from tests.compat.java_tools import TOOLS

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]
PARTITIONS = (0, 1, 2)
PER_SECOND = 200


class Load:
    """A producer that writes to each partition in turn until it is told to stop."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.acknowledged = dict.fromkeys(PARTITIONS, 0)
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(UNTIL_SECONDS)
        assert self._producer.flush(UNTIL_SECONDS) == 0
        assert not self.failures, self.failures

    def _write(self) -> None:
        number = 0
        while not self._is_over.wait(1 / PER_SECOND):
            partition = number % len(PARTITIONS)
            self._producer.produce(
                self._topic, b"x", partition=partition, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: object, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()] += 1
        else:  # on a thread that no test waits for: `stop` tells
            self.failures.append(str(error))


class Group:
    """Members of one group, each in a JVM, and what they have told."""

    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.members: list[JavaServer] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._directory = directory
        self._all: list[JavaServer] = []

    def enter(self, protocol: str) -> JavaServer:
        """Start a member and wait until it has a partition."""
        at = ("--bootstrap-server", self.bootstrap, "--topic", self.topic)
        how = ("--group-id", self.topic, "--reset-policy", "earliest")
        log = self._directory / f"member-{len(self._all)}.log"
        main = TOOLS["kafka-verifiable-consumer"]
        words = (*at, *how, "--group-protocol", protocol)
        member = program("kafka-tools", main, *words, log=log)
        self._all.append(member)
        self.members.append(member)
        member.launch()
        assert wait_until(lambda: bool(events(member, "records_consumed")), UNTIL_SECONDS), (
            member.log_tail(30)
        )
        return member

    def leave(self, member: JavaServer) -> None:
        self.members.remove(member)
        end(member)

    def close(self) -> None:
        for member in self._all:
            if member.is_running:
                member.kill()

    def told(self, name: str) -> list[dict[str, Any]]:
        """Return the events of this name of all members, in the order of their time."""
        found = [event for member in self._all for event in events(member, name)]
        return sorted(found, key=lambda event: event["timestamp"])

    def protocol(self) -> str:
        """Return which protocol the coordinator says that the group has now."""
        listed = self._admin.list_consumer_groups().result(UNTIL_SECONDS).valid
        return next(one.type.name for one in listed if one.group_id == self.topic)

    def committed(self) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(self.topic)
        found = self._admin.list_consumer_group_offsets([asked])[self.topic].result(UNTIL_SECONDS)
        return {one.partition: one.offset for one in found.topic_partitions or ()}


def events(member: JavaServer, name: str) -> list[dict[str, Any]]:
    """Return what a member has told under this name."""
    lines = [line for line in printed(member).splitlines() if line.startswith("{")]
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return [event for event in found if event["name"] == name]


@pytest.fixture
def load(bootstrap: str, topic: str) -> Iterator[Load]:
    load = Load(bootstrap, topic)
    yield load
    load.stop()


@pytest.fixture
def group(bootstrap: str, topic: str, tmp_path: Path) -> Iterator[Group]:
    group = Group(bootstrap, topic, tmp_path)
    yield group
    group.close()


def replace_all(group: Group, protocol: str) -> None:
    """Replace the members one by one: the new one first, then its predecessor leaves."""
    for member in list(group.members):
        group.enter(protocol)
        group.leave(member)


def test_java_members_go_to_the_new_protocol_and_back_while_records_flow(
    load: Load, group: Group
) -> None:
    group.enter("classic")
    group.enter("classic")
    assert group.protocol() == "CLASSIC"
    replace_all(group, "consumer")
    assert group.protocol() == "CONSUMER"
    replace_all(group, "classic")
    assert group.protocol() == "CLASSIC"
    load.stop()
    assert wait_until(lambda: group.committed() == load.acknowledged, UNTIL_SECONDS), (
        group.committed(),
        load.acknowledged,
    )
    assert read_by_anybody(group) == {
        partition: set(range(count)) for partition, count in load.acknowledged.items()
    }
    assert fallen(group) == []


def read_by_anybody(group: Group) -> dict[int, set[int]]:
    """Return the offsets of each partition that some member has read."""
    found: dict[int, set[int]] = defaultdict(set)
    for event in group.told("records_consumed"):
        for part in event["partitions"]:
            found[part["partition"]] |= set(range(part["minOffset"], part["maxOffset"] + 1))
    return dict(found)


def fallen(group: Group) -> list[tuple[int, int, int]]:
    """Return where a committed position is below one that was committed before it.

    A member whose epoch is out of date is refused (KIP-848): its next commit says the same again.
    """
    last = dict.fromkeys(PARTITIONS, 0)
    found = []
    for event in group.told("offsets_committed"):
        for part in event["offsets"] if event["success"] else ():
            number, offset = part["partition"], part["offset"]
            if offset < last[number]:
                found.append((number, last[number], offset))
            last[number] = max(last[number], offset)
    return found
