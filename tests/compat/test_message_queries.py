"""RocketMQ's stock client and mqadmin find messages by key and by id, through kills of masters."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from tests.compat.mqadmin import mqadmin
from tests.compat.rocketmq_client import client
from tests.live_node import LiveNode
from tests.remoting.served import running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 5
UNTIL_SECONDS = 120.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("queries")) as served:
        yield served


@pytest.fixture(scope="module")
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


def rows(printed: str) -> list[list[str]]:
    """The rows of a table as mqadmin prints it, without its head."""
    lines = [line.split() for line in printed.splitlines()]
    return [words for words in lines if words and not words[0].startswith("#")]


def ids_of(told: list[dict[str, Any]], kind: str) -> list[str]:
    """The ids of the messages of a kind, as their client was told."""
    return [one for sent in told if sent.get("sent") == kind for one in sent["id"].split(",")]


def test_the_stock_client_finds_by_key_and_by_id(address: str, tmp_path: Path) -> None:
    mqadmin(tmp_path, address, f"updateTopic -b {address} -t asked -r 2 -w 2")
    told = client(tmp_path, "produce", address, "asked", COUNT)
    sync, batch = ids_of(told, "sync"), ids_of(told, "batch")
    by_key, every, missing, by_id, of_batch = client(
        tmp_path, "query", address, "asked", "sync3", "all", "nothing", sync[2], batch[1]
    )
    assert by_key["by_key"] == [sync[3]]
    assert by_key["bodies"] == ["sync 3"]
    assert len(every["by_key"]) == 4 * COUNT, "sync, async, one-way and those of the batch"
    assert "missing" in missing
    assert missing.get("by_id") is None
    assert by_id["by_id"] == "sync 2"
    assert of_batch["by_id"] == "batch 1"


def test_mqadmin_finds_by_key_and_by_unique_key(address: str, tmp_path: Path) -> None:
    mqadmin(tmp_path, address, f"updateTopic -b {address} -t admin -r 2 -w 2")
    told = client(tmp_path, "produce", address, "admin", COUNT)
    one = next(sent for sent in told if sent.get("sent") == "sync")
    by_key, missing, by_id, no_id, every = mqadmin(
        tmp_path,
        address,
        "queryMsgByKey -t admin -k sync0",
        "queryMsgByKey -t admin -k nothing",
        f"queryMsgByUniqueKey -t admin -i {one['id']}",
        f"queryMsgByUniqueKey -t admin -i {one['id'][:-4]}FFFF",
        "queryMsgByKey -t admin -k all",
    )
    assert rows(by_key) == [[one["id"], str(one["queue"]), str(one["offset"])]]
    assert len(rows(every)) == 4 * COUNT
    assert "query message by key finished, but no message" in missing
    assert re.search(r"Keys: +\[sync0 all\]", by_id)
    assert re.search(rf"Queue Offset: +{one['offset']}\n", by_id)
    assert "Queue Offset" not in no_id


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        yield cluster


def addresses(cluster: ClusterProcess, *, without: int | None = None) -> str:
    ports = cluster.remoting_ports.items()
    return ";".join(f"127.0.0.1:{port}" for node, port in ports if node != without)


def test_all_that_is_acknowledged_is_found_after_a_master_is_killed(
    cluster: ClusterProcess, tmp_path: Path
) -> None:
    servers = addresses(cluster)
    (clusters,) = mqadmin(tmp_path, servers, "clusterList")
    mqadmin(tmp_path, servers, f"updateTopic -c {rows(clusters)[0][0]} -t spread -r 2 -w 2")
    told = client(tmp_path, "produce", servers, "spread", 20)
    sync = ids_of(told, "sync")
    killed = cluster.leader_of("spread")
    cluster.nodes[killed].kill()
    alive = addresses(cluster, without=killed)

    def leaders() -> set[int]:
        told = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics("spread", 30)
        return {one.leader for one in told.topics["spread"].partitions.values()}

    assert wait_until(lambda: not leaders() & {killed, -1}, UNTIL_SECONDS)
    answers = client(tmp_path, "query", alive, "spread", *sync)
    assert [one["by_id"] for one in answers] == [f"sync {number}" for number in range(20)]
    (every,) = client(tmp_path, "query", alive, "spread", "sync7")
    assert set(every["by_key"]) == {sync[7]}
    cluster.nodes[killed].start()
    assert wait_until(cluster.is_heard_everywhere, UNTIL_SECONDS)
    answers = client(tmp_path, "query", servers, "spread", *sync)
    assert [one["by_id"] for one in answers] == [f"sync {number}" for number in range(20)]
