"""A disk that fails or is full under a running node: what clients are told, and what goes on."""

import errno
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.ports import free_port
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.runtime.io import disk as runtime_disk
from penstock.runtime.raft.raft_log import RaftLog
from tests.kafka.test_produce_fetch import (
    batch,
    create,
    fetch_fields,
    fetched,
    outcome,
    produce,
    produce_fields,
    values_of,
)
from tests.live_node import LiveNode, running_node


@contextmanager
def node_with_health(directory: Path, *overrides: str) -> Iterator[tuple[LiveNode, int]]:
    port = free_port()
    with running_node(directory, f"node.metrics_port={port}", *overrides) as node:
        yield node, port


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body


class FailingSync:
    """Holds syncs of log files back until it is told to let them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_armed = False
        self.waiting = threading.Event()
        self.fail = threading.Event()
        real = runtime_disk.FileHandle.sync

        def sync(handle: Any) -> None:
            if self.is_armed:
                self.waiting.set()
                assert self.fail.wait(120)
                raise OSError(errno.EIO, "the disk is broken")
            real(handle)

        monkeypatch.setattr(runtime_disk.FileHandle, "sync", sync)


def test_a_failed_sync_refuses_parked_and_later_batches_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = FailingSync(monkeypatch)
    with node_with_health(tmp_path) as (node, port):
        create(node, "events")
        client, other = node.connect(), node.connect()
        produce(client, "events", batch(b"kept"))
        syncs.is_armed = True
        client.send(ApiKey.PRODUCE, 9, produce_fields("events", batch(b"parked")))
        assert syncs.waiting.wait(120)
        ours = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        other.send(ApiKey.PRODUCE, 9, produce_fields("events", batch(b"also", **ours)))
        reader = node.connect()
        assert fetched(reader.ask(ApiKey.FETCH, 11, fetch_fields("events", 0))).high_watermark == 1
        syncs.fail.set()
        parked = [outcome(one.receive(ApiKey.PRODUCE, 9)) for one in (client, other)]
        later = outcome(produce(client, "events", batch(b"later")))
        repeated = outcome(produce(client, "events", batch(b"also", **ours)))
        codes = [one.error_code for one in (*parked, later, repeated)]
        assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 4
        partition = fetched(reader.ask(ApiKey.FETCH, 11, fetch_fields("events", 0)))
        assert (values_of(partition), partition.high_watermark) == ([b"kept"], 1)
        status, body = get(port, "/health")
        assert (status, list(json.loads(body)["fenced"])) == (503, ["replica set 1"])
        assert 'penstock_log_fenced{replica_set="1"} 1.0' in get(port, "/metrics")[1]
        for one in (client, other, reader):
            one.close()


def test_waiting_fetches_of_a_fenced_log_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = FailingSync(monkeypatch)
    syncs.fail.set()
    with running_node(tmp_path) as node:
        create(node, "events")
        client = node.connect()
        syncs.is_armed = True
        refused = outcome(produce(client, "events", batch(b"lost")))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for _ in range(3):
            client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0, max_wait_ms=1))
        (member,) = node.broker.members.values()
        assert node.call(lambda: len(member._visible)) == 0
        client.close()


def test_a_fetch_that_found_nothing_is_forgotten_when_its_time_is_over(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create(node, "events")
        client = node.connect()
        for _ in range(3):
            client.ask(ApiKey.FETCH, 11, fetch_fields("events", 0, max_wait_ms=1))
        hosted = node.broker.partitions.find("events", 0)
        assert hosted is not None
        assert node.call(lambda: len(hosted.waiters)) == 0
        client.close()


def test_a_failed_metadata_disk_shows_on_health_and_records_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node_with_health(tmp_path) as (node, port):
        create(node, "events")
        log = node.node._plane.log
        assert isinstance(log, RaftLog)
        metadata_file = log._storage._file
        real = runtime_disk.FileHandle.sync

        def sync(handle: Any) -> None:
            if handle is metadata_file:
                raise OSError(errno.EIO, "the disk is broken")
            real(handle)

        monkeypatch.setattr(runtime_disk.FileHandle, "sync", sync)
        client = node.connect()
        topic = {"name": "more", "num_partitions": 1, "replication_factor": 1}
        topic |= {"assignments": [], "configs": []}
        fields = {"topics": [topic], "timeout": 5000, "validate_only": False}
        answers = [client.ask(ApiKey.CREATE_TOPICS, 5, fields).topics[0] for _ in range(3)]
        # What was being written when the disk failed may be found there at the next start.
        assert answers[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert "may still happen" in answers[0].error_message
        assert [answer.error_code for answer in answers[1:]] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert outcome(produce(client, "events", batch(b"a"))).error_code == 0
        status, body = get(port, "/health")
        assert (status, list(json.loads(body)["fenced"])) == (503, ["metadata log"])
        assert "penstock_metadata_fenced 1.0" in get(port, "/metrics")[1]
        client.close()


def test_a_full_log_refuses_batches_and_nothing_else_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = True
    monkeypatch.setattr(runtime_disk.FileDisk, "free_bytes", lambda _: 0 if is_full else 1 << 40)
    small = ("log.segment_bytes=65536", "log.space_check_ms=10", "log.large_batch_bytes=4096")
    is_full = False
    with running_node(tmp_path, *small) as node:
        create(node, "events")
        create(node, "other")
        client = node.connect()
        produce(client, "events", batch(b"x" * 20_000))
        is_full = True
        answers = [outcome(produce(client, "events", batch(b"x" * 20_000))) for _ in range(12)]
        codes = {answer.error_code for answer in answers[6:]}
        assert codes == {ErrorCode.KAFKA_STORAGE_ERROR}
        kept = [answer for answer in answers if answer.error_code == 0]
        for offset in range(1 + len(kept)):
            assert fetched(client.ask(ApiKey.FETCH, 11, fetch_fields("events", offset))).records
        deleted = client.ask(ApiKey.DELETE_RECORDS, 1, delete_fields("events", -1))
        assert deleted.topics[0].partitions[0].error_code == 0
        gone = client.ask(ApiKey.DELETE_TOPICS, 4, {"topic_names": ["other"], "timeout": 5000})
        assert gone.responses[0].error_code == 0
        is_full = False
        for _ in range(500):
            last = outcome(produce(client, "events", batch(b"y")))
            if last.error_code == 0:
                break
        assert last.error_code == 0
        client.close()


def delete_fields(topic: str, offset: int) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 5000}
