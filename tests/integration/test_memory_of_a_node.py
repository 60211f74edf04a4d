"""What a node remembers over kill -9: topics, settings, positions, deletions, its identity."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from harness.loop_disk import tiny_tmpfs
from harness.node import NodeFailed, NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import read_all
from tests.integration.clients import PATIENT, acked, send

pytestmark = pytest.mark.process


def admin_of(node: NodeProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})


def consumer_of(node: NodeProcess, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, "log_level": 0})


def create(node: NodeProcess, topic: str, **config: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in config.items()}
    admin = admin_of(node)  # held until the answer is there: it ends with its last reference
    admin.create_topics([NewTopic(topic, 2, 1, config=dotted)])[topic].result(UNTIL_SECONDS)


def offsets(node: NodeProcess, topic: str) -> tuple[int, int]:
    consumer = consumer_of(node, "ends")
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), UNTIL_SECONDS)
        return low, high
    finally:
        consumer.close()


def test_topics_settings_and_cluster_id_are_the_same_after_a_kill(node: NodeProcess) -> None:
    create(node, "kept", retention_ms="123456")
    before = admin_of(node).list_topics(timeout=UNTIL_SECONDS)
    node.restart()
    after = admin_of(node).list_topics(timeout=UNTIL_SECONDS)
    assert after.cluster_id == before.cluster_id
    assert len(after.topics["kept"].partitions) == 2
    asked = ConfigResource(ResourceType.TOPIC, "kept")
    admin = admin_of(node)
    described = admin.describe_configs([asked])[asked].result(UNTIL_SECONDS)
    assert described["retention.ms"].value == "123456"


def test_a_deleted_topic_stays_deleted_and_its_name_can_be_used_again(node: NodeProcess) -> None:
    create(node, "again")
    send(node.bootstrap, "again", [b"old"])
    admin = admin_of(node)
    admin.delete_topics(["again"])["again"].result(UNTIL_SECONDS)
    node.restart()
    assert "again" not in admin_of(node).list_topics(timeout=UNTIL_SECONDS).topics
    create(node, "again")
    assert offsets(node, "again") == (0, 0)


def test_positions_of_groups_are_the_same_after_a_kill(node: NodeProcess) -> None:
    create(node, "read")
    consumer = consumer_of(node, "readers")
    consumer.commit(offsets=[TopicPartition("read", 1, 77)], asynchronous=False)
    consumer.close()
    node.restart()
    consumer = consumer_of(node, "readers")
    (kept,) = consumer.committed([TopicPartition("read", 1)], UNTIL_SECONDS)
    consumer.close()
    assert kept.offset == 77


def test_deleted_records_stay_deleted_after_a_kill(node: NodeProcess) -> None:
    create(node, "short")
    send(node.bootstrap, "short", [b"%d" % n for n in range(10)])
    target = TopicPartition("short", 0, 6)
    admin = admin_of(node)
    admin.delete_records([target])[target].result(UNTIL_SECONDS)
    node.restart()
    assert offsets(node, "short") == (6, 10)


def test_old_records_go_when_the_retention_size_is_reached(tmp_path: Path) -> None:
    settings = {"log": {"segment_bytes": 1 << 20}, "broker": {"housekeeping_interval_ms": 500}}
    with NodeProcess(tmp_path, settings=settings) as node:
        create(node, "bounded", retention_bytes=str(2 << 20))
        values = [b"%d." % n + b"x" * 10_000 for n in range(800)]
        patient = {**PATIENT, "batch.size": 100_000}
        assert len(acked(send(node.bootstrap, "bounded", values, settings=patient))) == 800
        assert wait_until(lambda: offsets(node, "bounded")[0] > 0, UNTIL_SECONDS)
        low, high = offsets(node, "bounded")
        assert high == 800
        polls = read_all(node.bootstrap, "bounded", 1)
        records = [offset for poll in polls for offset, _ in poll.records]
        assert records[-1] == 799
        assert records[0] >= low


@pytest.mark.usefixtures("loop_disks")
def test_a_disk_too_small_to_start_on_is_said_in_one_line(tmp_path: Path) -> None:
    with tiny_tmpfs(tmp_path / "disk", size_mib=4) as disk:
        node = NodeProcess(tmp_path / "node", data=disk / "data")
        with pytest.raises(NodeFailed, match="ended while starting"):
            node.start()
        assert "Traceback" not in node.log_tail(1000)
        last = node.log_tail(1).lower()
        assert "space" in last or "full" in last
