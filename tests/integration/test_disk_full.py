"""A full disk: produce is refused, reads and deletes go on, and room makes it work again."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from harness.loop_disk import LoopDisk
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from harness.workload import create_topic, read_all
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from tests.integration.clients import acked, errors, send
from tests.live_node import RawClient

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("loop_disks"),
]
DISK_MIB = 96
RECORD = 64 * 1024
SMALL_SEGMENTS = {"log": {"segment_bytes": 8 << 20, "reserve_bytes": 8 << 20}}


def fill(node: NodeProcess, topic: str) -> list[bytes]:
    """Produce until the node refuses; return what it acknowledged."""
    kept: list[bytes] = []
    for round_number in range(2 * (DISK_MIB << 20) // (RECORD * 100)):
        values = [b"%d-%d." % (round_number, n) + os.urandom(RECORD) for n in range(100)]
        answers = send(node.bootstrap, topic, values)
        kept += [value.partition(b".")[0] for value in acked(answers)]
        if errors(answers):
            assert errors(answers) == {KafkaError.KAFKA_STORAGE_ERROR}
            return kept
    pytest.fail("the disk never became full")


def read_values(node: NodeProcess, topic: str) -> list[bytes]:
    polls = read_all(node.bootstrap, topic, 1)
    return [str(value).encode() for poll in polls for _, value in poll.records]


def takes_records(node: NodeProcess, topic: str) -> bool:
    return not errors(send(node.bootstrap, topic, [b"again."]))


def test_a_full_disk_refuses_writes_and_serves_reads(tmp_path: Path) -> None:
    with LoopDisk(tmp_path, size_mib=DISK_MIB) as disk:
        ballast = disk.mount_point / "ballast"
        with ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 24 << 20)
        with NodeProcess(
            tmp_path / "node", data=disk.mount_point / "data", settings=SMALL_SEGMENTS
        ) as node:
            create_topic(node.bootstrap, "full", 1)
            kept = fill(node, "full")
            assert read_values(node, "full") == kept
            ballast.unlink()
            assert wait_until(lambda: takes_records(node, "full"), UNTIL_SECONDS)
            assert read_values(node, "full")[: len(kept)] == kept


def test_deleting_records_makes_a_full_disk_writable_again(tmp_path: Path) -> None:
    with (
        LoopDisk(tmp_path, size_mib=DISK_MIB) as disk,
        NodeProcess(
            tmp_path / "node", data=disk.mount_point / "data", settings=SMALL_SEGMENTS
        ) as node,
    ):
        create_topic(node.bootstrap, "full", 1)
        fill(node, "full")
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        target = TopicPartition("full", 0, -1)
        admin.delete_records([target])[target].result(UNTIL_SECONDS)
        assert wait_until(lambda: takes_records(node, "full"), UNTIL_SECONDS)


def test_a_node_killed_on_a_full_disk_starts_and_keeps_what_it_acknowledged(
    tmp_path: Path,
) -> None:
    with (
        LoopDisk(tmp_path, size_mib=DISK_MIB) as disk,
        NodeProcess(
            tmp_path / "node", data=disk.mount_point / "data", settings=SMALL_SEGMENTS
        ) as node,
    ):
        create_topic(node.bootstrap, "full", 1)
        kept = fill(node, "full")
        node.restart()
        assert read_values(node, "full")[: len(kept)] == kept


def test_on_a_full_disk_positions_are_refused_and_topics_come_and_go(tmp_path: Path) -> None:
    with (
        LoopDisk(tmp_path, size_mib=DISK_MIB) as disk,
        NodeProcess(
            tmp_path / "node", data=disk.mount_point / "data", settings=SMALL_SEGMENTS
        ) as node,
        closing(RawClient(int(node.bootstrap.rpartition(":")[2]))) as client,
    ):
        create_topic(node.bootstrap, "full", 1)
        assert wait_until(lambda: find_coordinator(client) == ErrorCode.NONE, UNTIL_SECONDS)
        assert wait_until(lambda: commit(client, "full", 1) == ErrorCode.NONE, UNTIL_SECONDS)
        fill(node, "full")
        kept = 1
        while (error := commit(client, "full", kept + 1, b"m" * 4000)) == ErrorCode.NONE:
            kept += 1  # small records go in where large ones do not
        assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed(client, "full") == kept
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        create_topic(node.bootstrap, "another", 3)
        admin.delete_topics(["full"])["full"].result(UNTIL_SECONDS)
        assert wait_until(lambda: takes_records(node, "another"), UNTIL_SECONDS)
        assert wait_until(lambda: commit(client, "another", 7) == ErrorCode.NONE, UNTIL_SECONDS)


def find_coordinator(client: RawClient) -> int:
    """Ask as clients do before they commit, which makes the topic that positions are kept in."""
    answer = client.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "readers", "key_type": 0})
    return int(answer.error_code)


def commit(client: RawClient, topic: str, offset: int, metadata: bytes = b"") -> int:
    """Commit a position; returns the error code."""
    partition: dict[str, Any] = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
    }
    partition |= {"committed_metadata": metadata.decode()}
    fields = {"group_id": "readers", "generation_id_or_member_epoch": -1, "member_id": ""}
    fields |= {"group_instance_id": None, "topics": [{"name": topic, "partitions": [partition]}]}
    (answer,) = client.ask(ApiKey.OFFSET_COMMIT, 8, fields).topics
    return int(answer.partitions[0].error_code)


def committed(client: RawClient, topic: str) -> int:
    wanted = [{"name": topic, "partition_indexes": [0]}]
    fields = {"group_id": "readers", "topics": wanted, "require_stable": False}
    (answer,) = client.ask(ApiKey.OFFSET_FETCH, 7, fields).topics
    return int(answer.partitions[0].committed_offset)
