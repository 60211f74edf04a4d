"""Share groups of a cluster of real processes whose masters are killed with records in flight."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from reliability.faults.trials import QUICK_SESSIONS
from tests.kafka.sharing import ACCEPT, Member, joining, ms, part_of, ranges
from tests.live_node import RawClient

pytestmark = [pytest.mark.process, pytest.mark.long]

COUNT = 300
KILLS = 3
LOCK_MS = 15_000
TOGETHER = 32


class Work:
    """One group that takes the records of one partition from whoever leads it."""

    def __init__(self, cluster: ClusterProcess) -> None:
        self.cluster = cluster
        self.topic_id = b""
        self.accepted: set[int] = set()
        self.deliveries: Counter[int] = Counter()
        self.again: set[int] = set()
        """Records that came again although their acceptance was answered."""

    @contextmanager
    def client(self, broker_id: int) -> Iterator[RawClient]:
        port = int(self.cluster.address_of(broker_id).rpartition(":")[2])
        with closing(RawClient(port)) as client:
            yield client

    def prepare(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        admin.create_topics([NewTopic("t", 1, 3)])["t"].result()
        with self.client(self.cluster.wait_for_leader("t")) as client:
            for key, value in (
                ("share.auto.offset.reset", "earliest"),
                ("share.record.lock.duration.ms", str(LOCK_MS)),
            ):
                set_key(client, key, value)
            topics = [{"topic_id": None, "name": "t"}]
            fields = {"topics": topics, "allow_auto_topic_creation": False}
            fields["include_topic_authorized_operations"] = False
            (found,) = client.ask(ApiKey.METADATA, 12, fields).topics
            self.topic_id = found.topic_id.bytes
        self.subscribe("g")
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "acks": "all"})
        for number in range(COUNT):
            producer.produce("t", b"%d" % number)
        assert producer.flush(30) == 0

    def subscribe(self, group: str) -> None:
        """Let a member join, so that the group knows of shares in the topic."""
        assert wait_until(lambda: self._is_subscribed(group), 60)

    def _is_subscribed(self, group: str) -> bool:
        fields = {"key_type": 0, "coordinator_keys": [group]}
        with self.client(self.cluster.wait_for_leader("t")) as client:
            (found,) = client.ask(ApiKey.FIND_COORDINATOR, 6, fields).coordinators
        if found.error_code:
            return False
        with self.client(found.node_id) as client:
            answer = client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, joining("t", group))
        is_done: bool = answer.error_code == ErrorCode.NONE
        return is_done

    def member(self, client: RawClient, name: str) -> Member:
        return Member(client, self.topic_id, name=name)

    def take(self, answer: object) -> list[int]:
        """Note what a member was handed; returns the offsets."""
        found = [offset for one in ranges(answer) for offset in range(one.first, one.last + 1)]
        self.deliveries.update(found)
        self.again |= self.accepted.intersection(found)
        return found

    def accept(self, member: Member, offsets: list[int]) -> None:
        """Accept records; what is answered as done must never come again."""
        if not offsets:
            return
        answer = member.acknowledge({0: [(one, one, [ACCEPT]) for one in offsets]})
        assert answer.error_code == ErrorCode.NONE
        assert part_of(answer).error_code == ErrorCode.NONE
        self.accepted |= set(offsets)

    def work_until_killed(self, number: int) -> list[int]:
        """Accept some records, hold others, and have the master killed; returns what was held."""
        leader = self.cluster.wait_for_leader("t")
        with self.client(leader) as client:
            member = self.member(client, f"m{number}")
            held = self.take(member.open(0, max_records=TOGETHER, max_wait=ms(20_000)))
            self.accept(member, held[::2])
            self.cluster.nodes[leader].kill()
        moved = wait_until(lambda: self.cluster.wait_for_leader("t") != leader, 60)
        assert moved
        self.cluster.nodes[leader].launch()
        return held[1::2]


def set_key(client: RawClient, key: str, value: str) -> None:
    config = {"name": key, "config_operation": 0, "value": value}
    resource = {"resource_type": 32, "resource_name": "g", "configs": [config]}
    fields = {"resources": [resource], "validate_only": False}
    (result,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
    assert result.error_code == ErrorCode.NONE


def finish(work: Work) -> None:
    """Take and accept whatever is left, until there is nothing."""
    with work.client(work.cluster.wait_for_leader("t")) as client:
        member = work.member(client, "last")
        answer = member.open(0, max_wait=ms(30_000))
        assert answer.error_code == ErrorCode.NONE
        while len(work.accepted) < COUNT:
            found = work.take(answer)
            assert found, f"{COUNT - len(work.accepted)} records came to nobody"
            work.accept(member, found)
            answer = member.fetch(max_wait=ms(30_000))


def test_what_is_accepted_never_comes_again_and_what_is_held_does(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path, settings=QUICK_SESSIONS) as cluster:
        work = Work(cluster)
        work.prepare()
        held: set[int] = set()
        for number in range(KILLS):
            held |= set(work.work_until_killed(number))
        finish(work)
    assert work.again == set()
    assert work.accepted == set(range(COUNT))
    assert held
    assert all(work.deliveries[offset] > 1 for offset in held)


STRANGERS = 30


def refused(work: Work) -> int:
    """Fetch for groups that nobody has joined; return how many are refused."""
    with work.client(work.cluster.wait_for_leader("t")) as client:
        strangers = [
            Member(client, work.topic_id, group=f"stranger-{one}") for one in range(STRANGERS)
        ]
        codes = [part_of(one.open(0, max_wait=ms(20_000))).error_code for one in strangers]
    return sum(code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for code in codes)


def test_strangers_begin_no_share_wherever_their_groups_are_coordinated(tmp_path: Path) -> None:
    """Their coordinators are on all three brokers, and one of them is killed in between."""
    with ClusterProcess(tmp_path, settings=QUICK_SESSIONS) as cluster:
        work = Work(cluster)
        work.prepare()
        assert refused(work) == STRANGERS
        leader = cluster.wait_for_leader("t")
        cluster.nodes[leader].kill()
        assert wait_until(lambda: cluster.wait_for_leader("t") != leader, 60)
        assert refused(work) == STRANGERS
        with work.client(cluster.wait_for_leader("t")) as client:
            topics = client.ask(ApiKey.METADATA, 12, NAMED).topics
            assert "__share_state" not in {one.name for one in topics}
        finish(work)
    assert work.accepted == set(range(COUNT))


NAMED = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
}
