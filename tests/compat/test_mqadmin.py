"""RocketMQ's stock mqadmin against one node, three nodes, and a real RocketMQ beside them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from benchmarks.parts.rocketmq import RocketCluster, why_not
from harness.cluster import ClusterProcess
from harness.waiting import wait_until
from tests.compat.mqadmin import mqadmin
from tests.compat.rocketmq_client import client, running_client
from tests.live_node import LiveNode
from tests.remoting.served import SET, running_remoting_node

pytestmark = [pytest.mark.compat, pytest.mark.timeout(600)]

COUNT = 5
MESSAGES = 4 * COUNT + 1
"""That a client sends with this count."""
UNTIL_SECONDS = 120.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveNode, str]]:
    with running_remoting_node(tmp_path_factory.mktemp("mqadmin")) as served:
        yield served


@pytest.fixture(scope="module")
def address(served: tuple[LiveNode, str]) -> str:
    return served[1]


def rows(printed: str) -> list[list[str]]:
    """The rows of a table as mqadmin prints it, without its head."""
    lines = [line.split() for line in printed.splitlines()]
    return [words for words in lines if words and not words[0].startswith("#")]


def test_a_message_is_found_by_its_offset_id_and_by_its_offset(
    address: str, tmp_path: Path
) -> None:
    mqadmin(tmp_path, address, f"updateTopic -b {address} -t found -r 2 -w 2")
    told = client(tmp_path, "produce", address, "found", COUNT)
    one = next(sent for sent in told if sent.get("sent") == "sync")
    by_id, by_offset, missing = mqadmin(
        tmp_path,
        address,
        f"queryMsgById -t found -i {one['offset_id']}",
        f"queryMsgByOffset -t found -b {SET} -i {one['queue']} -o {one['offset']}",
        f"queryMsgById -t nothere -i {one['offset_id']}",
    )
    for printed in (by_id, by_offset):
        assert re.search(rf"OffsetID: +{one['offset_id']}", printed)
        assert re.search(r"Tags: +\[sync\]", printed)
        assert f"UNIQ_KEY={one['id']}" in printed
        assert re.search(rf"Queue Offset: +{one['offset']}\n", printed)
    assert "CODE: " in missing


def test_a_topic_gets_a_message_type(served: tuple[LiveNode, str], tmp_path: Path) -> None:
    node, address = served
    made = "updateTopic -b {0} -t typed -r 1 -w 1 -a {1}"
    changed, refused = mqadmin(
        tmp_path,
        address,
        made.format(address, "+message.type=FIFO"),
        made.format(address, "+message.type=LITE"),
    )
    assert f"create topic to {address} success." in changed
    assert "message.type" in refused
    settings = node.call(lambda: node.broker.metadata.topics_by_name["typed"].settings)
    assert settings.message_type == "FIFO"


def test_topics_are_made_shown_enlarged_and_deleted(address: str, tmp_path: Path) -> None:
    cluster = rows(mqadmin(tmp_path, address, "clusterList")[0])[0][0]
    made, route, empty, more, perm, listed, deleted, after, missing = mqadmin(
        tmp_path,
        address,
        f"updateTopic -c {cluster} -t made -r 3 -w 3",
        "topicRoute -t made",
        "topicStatus -t made",
        f"updateTopic -c {cluster} -t made -r 4 -w 4",
        f"updateTopic -c {cluster} -t made -r 4 -w 4 -p 4",
        "topicList",
        f"deleteTopic -c {cluster} -t made",
        "topicList",
        "topicStatus -t made",
    )
    assert f"create topic to {address} success." in made
    assert '"readQueueNums":3' in route
    assert f'"cluster":"{cluster}"' in route
    queues = [["set-1", str(queue), "0", "0"] for queue in range(3)]
    assert rows(empty)[:3] == queues
    assert "readQueueNums=4" in more
    assert "CODE: 29" in perm
    assert "made" in listed.split()
    assert f"delete topic [made] from cluster [{cluster}] success." in deleted
    assert "made" not in after.split()
    assert "CODE: 17" in missing


def test_a_broker_is_shown_with_its_measures_and_settings(address: str, tmp_path: Path) -> None:
    clusters, status, settings = mqadmin(
        tmp_path,
        address,
        "clusterList",
        f"brokerStatus -b {address}",
        f"getBrokerConfig -b {address}",
    )
    (row,) = rows(clusters)
    assert row[1:5] == [SET, "0", address, "V5_3_3"]
    assert row[-1] == "true"
    assert re.search(r"brokerVersionDesc +: V5_3_3", status)
    assert re.search(r"putTps +: [\d.]+ [\d.]+ [\d.]+", status)
    assert re.search(r"node\.broker_id += +\d", settings)


def test_a_group_is_watched_reset_while_it_consumes_and_deleted(
    address: str, tmp_path: Path
) -> None:
    mqadmin(tmp_path, address, f"updateTopic -b {address} -t watched -r 3 -w 3")
    client(tmp_path, "produce", address, "watched", COUNT)
    with running_client(tmp_path, "push", address, "watched", "shop", "*", 2 * MESSAGES) as running:
        assert wait_until(lambda: len(running.told()) >= MESSAGES, UNTIL_SECONDS)
        connections, groups = mqadmin(
            tmp_path, address, "consumerConnection -g shop", "consumerProgress"
        )
        assert re.search(r"JAVA +V5_3_3", connections)
        assert ["watched", "*"] in rows(connections)
        assert "MessageModel: CLUSTERING" in connections
        assert ["shop", "1", "V5_3_3", "PUSH"] in [row[:4] for row in rows(groups)]
        (moved,) = mqadmin(tmp_path, address, "resetOffsetByTime -g shop -t watched -s 0")
        assert sorted(rows(moved)[1:]) == [["set-1", str(queue), "0"] for queue in range(3)]
        told = running.finish()
    *messages, done = told
    assert done == {"done": True}
    assert len(messages) == 2 * MESSAGES
    assert len({one["id"] for one in messages}) == MESSAGES, "each came twice"
    assert {one["times"] for one in messages} == {0}, "and none as one that failed"
    progress, deleted, refused = mqadmin(
        tmp_path,
        address,
        "consumerProgress -g shop -t watched",
        f"deleteSubGroup -b {address} -g shop -r true",
        f"updateSubGroup -b {address} -g shop -s false",
    )
    assert "Consume Diff Total: 0" in progress
    assert "success" in deleted
    assert "consumeEnable=False: it has no counterpart here" in refused


def test_a_consumer_tells_what_it_does_and_producers_are_told(address: str, tmp_path: Path) -> None:
    def is_told() -> bool:  # a client tells its positions every five seconds
        (progress,) = mqadmin(tmp_path, address, f"brokerConsumeStats -b {address}")
        return ["asked", "does", SET, "0", str(MESSAGES)] in [row[:5] for row in rows(progress)]

    mqadmin(tmp_path, address, f"updateTopic -b {address} -t asked -r 1 -w 1")
    client(tmp_path, "produce", address, "asked", COUNT)
    with running_client(tmp_path, "push", address, "asked", "does", "*", 2 * MESSAGES) as running:
        assert wait_until(lambda: len(running.told()) >= MESSAGES, UNTIL_SECONDS)
        (connections,) = mqadmin(tmp_path, address, "consumerConnection -g does")
        found = re.search(r"\S+@\S+", connections)
        assert found is not None
        status, stacks, producers = mqadmin(
            tmp_path,
            address,
            f"consumerStatus -g does -i {found[0]}",
            f"consumerStatus -g does -i {found[0]} -s",
            f"producer -b {address}",
        )
        assert wait_until(is_told, UNTIL_SECONDS)
    assert re.search(r"consumerGroup +: does", status)
    queue = re.compile(rf"^asked +{SET} +0 ", re.MULTILINE)
    assert queue.search(status), "its queue, and how far it is"
    assert "ConsumeMessageThread" in stacks
    assert "ConsumeMessageThread" not in status
    assert f"clientId={found[0]},remoteIP=127.0.0.1" in producers


def test_a_setting_of_a_broker_is_changed(address: str, tmp_path: Path) -> None:
    change = "updateBrokerConfig -b {0} -k {1} -v {2}"
    changed, read_only, unknown = mqadmin(
        tmp_path,
        address,
        change.format(address, "log.retention.ms", 777000000),
        change.format(address, "node.broker_id", 7),
        change.format(address, "flushDiskType", "SYNC_FLUSH"),
    )
    assert f"update broker config success, {address}" in changed
    assert "node.broker_id is read-only while a broker runs" in read_only
    assert "CODE: 29" in unknown

    def is_told() -> bool:
        told = mqadmin(tmp_path, address, f"getBrokerConfig -b {address}", "getNamesrvConfig")
        return all(re.search(r"log\.retention\.ms += +777000000", one) for one in told)

    assert wait_until(is_told, UNTIL_SECONDS)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    with ClusterProcess(tmp_path / "cluster", has_remoting=True) as cluster:
        yield cluster


def test_three_nodes_answer_as_one_cluster(cluster: ClusterProcess, tmp_path: Path) -> None:
    ports = cluster.remoting_ports.values()
    name_servers = ";".join(f"127.0.0.1:{port}" for port in ports)
    (clusters,) = mqadmin(tmp_path, name_servers, "clusterList")
    name, sets = rows(clusters)[0][0], {row[1] for row in rows(clusters)}
    (made,) = mqadmin(tmp_path, name_servers, f"updateTopic -c {name} -t spread -r 2 -w 2")
    masters = [row for row in rows(clusters) if row[2] == "0"]
    assert made.count("success") == len({row[3] for row in masters}) == 3, made
    (status,) = mqadmin(tmp_path, name_servers, "topicStatus -t spread")
    counted = [row[0] for row in rows(status) if row[0] in sets]
    assert {one: counted.count(one) for one in sets} == dict.fromkeys(sets, 2)

    client(tmp_path, "produce", name_servers, "spread", COUNT)
    client(tmp_path, "push", name_servers, "spread", "shop", "*", MESSAGES)
    progress, moved, back, deleted = mqadmin(
        tmp_path,
        name_servers,
        "consumerProgress -g shop",
        "resetOffsetByTime -g shop -t spread -s 0",
        "consumerProgress -g shop",
        f"deleteSubGroup -c {name} -g shop -r true",
    )
    spread = [row for row in rows(progress) if row[0] == "spread"]
    assert len(spread) == 2 * len(sets), "whoever coordinates the group"
    assert sum(int(row[3]) for row in spread) == MESSAGES
    assert "Consume Diff Total: 0" in progress
    assert len(rows(moved)) == 1 + len(spread)
    assert f"Consume Diff Total: {MESSAGES}" in back
    assert deleted.count("delete subscription group [shop] from broker") == 3, deleted
    assert "CODE" not in deleted
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "shop"})
    of_group = consumer.committed([TopicPartition("spread", one) for one in range(len(spread))], 60)
    assert {one.offset for one in of_group} == {-1001}, "no position is left"
    consumer.close()


def comparable(printed: str, *own: str) -> str:
    """What mqadmin has printed, without what differs between any two servers."""
    for one in own:
        printed = printed.replace(one, "OWN")
    printed = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME", printed)
    printed = re.sub(r"\S+@\d+#\d+ +\S+", "CLIENT", printed)
    printed = re.sub(r"^(\S+(?: +\S+){5}) +\d+ +(TIME|N/A)$", r"\1 \2", printed, flags=re.M)
    printed = re.sub(r"(Consume TPS:|Topic Put TPS:|Inflight Total:) [\d.]+", r"\1", printed)
    return "\n".join(sorted(re.sub(r" +", " ", line) for line in printed.splitlines()))


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_what_is_printed_is_what_a_real_rocketmq_has_printed(tmp_path: Path) -> None:
    with RocketCluster() as real:
        broker = f"127.0.0.1:{real.ports[1]}"
        theirs = _story(tmp_path / "theirs", real.bootstrap, broker)
    (tmp_path / "node").mkdir()
    with running_remoting_node(tmp_path / "node") as (_, address):
        ours = _story(tmp_path / "ours", address, address)
        cluster = rows(mqadmin(tmp_path, address, "clusterList")[0])[0][0]
    own = (SET, "broker-a", broker, address, real.bootstrap)
    for command, our, their in zip(_COMMANDS, ours, theirs, strict=True):
        assert comparable(our, cluster, *own) == comparable(their, "bench", *own), command


_COMMANDS = (
    "topicRoute -t same",
    "topicStatus -t same",
    "consumerProgress -g alike -t same",
    "getConsumerConfig -g alike",
    "getConsumerConfig -g nobody",
    "brokerConsumeStats -b BROKER",
    "consumerStatus -g alike -i nobody",
    "resetOffsetByTime -g alike -t same -s 0",
    "consumerProgress -g alike -t same",
    "resetOffsetByTime -g alike -t same -s -1",
    "consumerProgress -g alike",
)


def _story(home: Path, name_servers: str, broker: str) -> list[str]:
    home.mkdir()
    mqadmin(home, name_servers, f"updateTopic -b {broker} -t same -r 1 -w 1")
    client(home, "produce", name_servers, "same", COUNT)
    client(home, "push", name_servers, "same", "alike", "*", MESSAGES)
    return mqadmin(home, name_servers, *(one.replace("BROKER", broker) for one in _COMMANDS))
