"""Groups of stock clients roll from one protocol to the other and back while they consume.

Judged as in `python -m reliability.group_failovers`: every acknowledged record was read, no
partition was owned by two members at a time, and no committed position was ever seen lower.
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.failover import WHOLE_SECONDS_MAX, is_whole
from harness.waiting import wait_until
from harness.workload import create_topic
from reliability.group_failovers import (
    DIVIDED_SECONDS_MAX,
    END_SECONDS_MAX,
    GROUP,
    PARTITIONS,
    TOPIC,
    GroupRun,
    Member,
    coordinator_of,
)

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]
NEW = "librdkafka-848"
"""The members that use the protocol of KIP-848."""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[GroupRun]:
    """A cluster of three whose topic is written to, and a group without members."""
    with ClusterProcess(tmp_path / "cluster") as cluster:
        create_topic(cluster.bootstrap, TOPIC, PARTITIONS)
        run = GroupRun("librdkafka", cluster)
        threads = [threading.Thread(target=work) for work in (run.write, run.watch_positions)]
        for thread in threads:
            thread.start()
        yield run
        run.stop.set()
        for thread in threads:
            thread.join(2 * END_SECONDS_MAX)
        for member in run.running:
            member.process.kill()
            member.end()


def divide(run: GroupRun) -> None:
    """Wait until every partition has an owner, and each member has some."""
    is_divided = wait_until(run.is_divided, DIVIDED_SECONDS_MAX)
    assert is_divided, [sorted(each.owned) for each in run.running]


def start(run: GroupRun, client: str) -> None:
    run.client = client
    run.start_member()


def close(member: Member) -> None:
    """End a member in good order."""
    assert member.process.stdin is not None
    member.process.stdin.close()
    member.process.wait(END_SECONDS_MAX)
    member.end()


def roll(run: GroupRun, client: str) -> None:
    """Put a member of this client in the place of each one, one after the other."""
    for member in run.running:
        close(member)
        start(run, client)
        divide(run)


def kind(run: GroupRun) -> str:
    admin = AdminClient({"bootstrap.servers": run.cluster.bootstrap})
    found = admin.describe_consumer_groups([GROUP])[GROUP].result(END_SECONDS_MAX)
    return found.type.name


def judge(run: GroupRun) -> None:
    run.end()
    assert run.problems == []
    assert run.position_reads
    assert run.written


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python"])
def test_a_group_of_three_rolls_there_and_back_while_it_consumes(
    run: GroupRun, client: str
) -> None:
    for _ in range(3):
        start(run, client)
    divide(run)
    assert kind(run) == "CLASSIC"
    roll(run, NEW)
    assert kind(run) == "CONSUMER"
    roll(run, client)
    assert kind(run) == "CLASSIC"
    judge(run)


def test_members_of_both_protocols_consume_beside_each_other(run: GroupRun) -> None:
    for client in ("kafka-python", NEW, "librdkafka"):
        start(run, client)
        divide(run)
    assert kind(run) == "CONSUMER"
    close(run.running[0])
    divide(run)
    judge(run)


def test_a_coordinator_is_killed_while_a_group_is_converted_and_while_it_is_converted_back(
    run: GroupRun,
) -> None:
    cluster = run.cluster
    for _ in range(2):
        start(run, "librdkafka")
    divide(run)
    start(run, NEW)
    wait_until(lambda: kind(run) == "CONSUMER", DIVIDED_SECONDS_MAX)
    kill_coordinator(cluster)
    divide(run)
    close(run.running[-1])
    kill_coordinator(cluster)
    divide(run)
    assert kind(run) == "CLASSIC"
    judge(run)


def kill_coordinator(cluster: ClusterProcess) -> None:
    victim = cluster.nodes[coordinator_of(cluster.bootstrap, cluster)]
    victim.kill()
    victim.launch()
    assert wait_until(lambda: is_whole(cluster), WHOLE_SECONDS_MAX)
