"""RocketMQ's stock Java client against three nodes, of which one ends and comes back."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from tests.compat.rocketmq_client import RunningClient, client, running_client

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

QUEUES = 6
MORE = 100
"""Messages that go through before the next thing happens."""
UNTIL_SECONDS = 120.0
RETRIED = 60
DELAYED, DELAY_MS = "__delayed_4", 30_000
TIMED = 6


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        yield cluster


def addresses(cluster: ClusterProcess, *, without: int | None = None) -> str:
    """All nodes as name servers, but for one that is dead.

    RocketMQ's client may give up its start, or stand still, where it tries a dead one first.
    """
    ports = cluster.remoting_ports.items()
    return ";".join(f"127.0.0.1:{port}" for node, port in ports if node != without)


def create_topic(cluster: ClusterProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, QUEUES, 3)])[name].result(60)


def sent_and_consumed(told: list[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """What was acknowledged, and what was consumed, by their bodies."""
    sent = Counter(one["sent"] for one in told if "sent" in one)
    return sent, Counter(one["body"] for one in told if "body" in one)


def await_more(running: RunningClient) -> None:
    """Wait until further messages were both acknowledged and consumed."""

    def counts() -> list[int]:
        return [seen.total() for seen in sent_and_consumed(running.told())]

    begun = counts()

    def has_more() -> bool:
        return all(now >= then + MORE for now, then in zip(counts(), begun, strict=True))

    assert wait_until(has_more, UNTIL_SECONDS), running.told()[-3:]


def kill(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].kill()


def stop(cluster: ClusterProcess, broker_id: int) -> None:
    cluster.nodes[broker_id].stop()


@pytest.mark.parametrize(
    ("end", "how"), [(kill, "through"), (stop, "through"), (kill, "through-sql")]
)
def test_a_group_consumes_all_that_is_acknowledged_while_masters_end(
    cluster: ClusterProcess, tmp_path: Path, end: Callable[[ClusterProcess, int], None], how: str
) -> None:
    create_topic(cluster, "orders")
    with running_client(tmp_path, how, addresses(cluster), "orders", "shop") as running:
        await_more(running)
        for queue in (0, 1):
            leader = cluster.leader_of("orders", queue)
            end(cluster, leader)
            await_more(running)
            cluster.nodes[leader].start()
            await_more(running)
        told = running.finish()
    sent, consumed = sent_and_consumed(told)
    assert told[-1] == {"left": 0}
    assert not sent - consumed, "acknowledged and never consumed"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "shop"})
    parts = [TopicPartition("orders", queue) for queue in range(QUEUES)]
    ends = [consumer.get_watermark_offsets(part, 60)[1] for part in parts]
    assert [one.offset for one in consumer.committed(parts, 60)] == ends
    consumer.close()
    client(tmp_path, "produce", addresses(cluster), "orders", 1)
    *messages, done = client(tmp_path, "push", addresses(cluster), "orders", "shop", "*", 5)
    assert done == {"done": True}
    assert not [one for one in messages if "through" in one["body"]], "the group went on"


def sent_back(cluster: ClusterProcess) -> int:
    """How many messages wait for their next attempt, as far as they are confirmed."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
    metadata = consumer.list_topics(timeout=60).topics
    parts = [
        TopicPartition(DELAYED, partition)
        for partition in (metadata[DELAYED].partitions if DELAYED in metadata else ())
    ]
    count = sum(consumer.get_watermark_offsets(part, 60)[1] for part in parts)
    consumer.close()
    return count


def test_a_time_of_its_own_is_kept_by_the_next_master(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    create_topic(cluster, "orders")
    told = client(tmp_path, "timed", addresses(cluster), "orders", 20, TIMED)
    assert [one["status"] for one in told] == ["SEND_OK"] * TIMED
    leader = cluster.leader_of("orders", 0)
    kill(cluster, leader)
    *messages, done = client(tmp_path, "push", addresses(cluster), "orders", "timed", "*", TIMED)
    assert done == {"done": True}
    cluster.nodes[leader].start()
    delivered = {one["body"]: one["stored_ms"] for one in messages}
    assert delivered.keys() == {one["timed"] for one in told}
    assert not [one for one in told if delivered[one["timed"]] < one["at"]], "some are early"


def test_what_is_recalled_stays_so_and_all_else_comes_though_the_master_is_killed(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    create_topic(cluster, "orders")
    told = client(tmp_path, "recalled", addresses(cluster), "orders", 20, TIMED)
    recalled = {one["recalled"] for one in told if one.get("is_it")}
    assert len(recalled) == TIMED // 2
    leader = cluster.leader_of("orders", 0)
    kill(cluster, leader)
    left = {
        one["timed"]: one["at"] for one in told if "timed" in one and one["timed"] not in recalled
    }
    living = addresses(cluster, without=leader)
    words = (living, "orders", "timed", "*")
    *messages, done = client(tmp_path, "push", *words, len(left))
    assert done == {"done": True}
    assert {one["body"] for one in messages} == left.keys()
    last = client(tmp_path, "timed", living, "orders", 4, 1)
    assert last[0]["at"] > max(one["at"] for one in told if "at" in one), "behind the last recalled"
    *more, done = client(tmp_path, "push", *words, 1)
    assert done == {"done": True}
    assert not [one for one in more if one["stored_ms"] < last[0]["at"]], "a recalled one came"


def test_what_was_sent_back_to_a_master_that_is_killed_comes_again_from_the_next_one(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    create_topic(cluster, "orders")
    words = (addresses(cluster), "orders", "shop", RETRIED)
    with running_client(tmp_path, "retrying", *words) as running:
        assert wait_until(lambda: sent_back(cluster) == RETRIED, UNTIL_SECONDS), running.told()[-3:]
        leader = cluster.leader_of("orders", 0)
        kill(cluster, leader)
        assert {one["times"] for one in running.told()} == {0}, "nothing was delivered before"
        cluster.nodes[leader].start()
        told = running.finish()
    assert told[-1] == {"left": 0}
    again = Counter(one["body"] for one in told if one.get("times") == 1)
    assert again.keys() == {f"retrying {n}" for n in range(RETRIED)}
    at = {one["body"]: one["stored_ms"] for one in told if one.get("times") == 0}
    early = [
        one for one in told if one.get("times") and one["stored_ms"] < at[one["body"]] + DELAY_MS
    ]
    assert not early
