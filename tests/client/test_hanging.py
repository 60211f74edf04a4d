"""Transactions that hang in partitions: found, and ended, against a real node."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from harness.waiting import UNTIL_SECONDS
from penstock.cli import program
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.hanging import HangingTransactions
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.record.build import Record, build_batch
from tests.live_node import LiveNode, RawClient, running_node

NOBODY_KNOWS = 987_654_321
READ_COMMITTED = 1
LATEST = -1
_names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory) as started:
        yield started


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    opened = node.connect()
    yield opened
    opened.close()


@pytest.fixture
def cluster(node: LiveNode) -> Iterator[Cluster]:
    with Cluster(ClientSettings(bootstrap=f"127.0.0.1:{node.port}")) as opened:
        yield opened


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    Admin(cluster).create_topic(name, partitions=3)
    return name


def leave_open(node: LiveNode, topic: str, partition: int, epoch: int = 0) -> None:
    """Append a batch of a transaction without asking a coordinator, as a lost log of it would."""
    batch = build_batch(
        [Record(None, b"v", (), 1_700_000_000_000)],
        producer_id=NOBODY_KNOWS,
        producer_epoch=epoch,
        base_sequence=0,
        attributes=TRANSACTIONAL,
    )

    def append() -> None:
        place = node.broker.partitions.find(topic, partition)
        assert place is not None
        data = memoryview(batch)
        place.member.log.append(place.log, data, read_header(data))
        place.watch()

    node.call(append)


def committed_end(client: RawClient, topic: str, partition: int) -> int:
    """The offset up to which committed records can be read."""
    wanted = {"partition_index": partition, "timestamp": LATEST, "current_leader_epoch": -1}
    fields = {
        "replica_id": -1,
        "isolation_level": READ_COMMITTED,
        "topics": [{"name": topic, "partitions": [wanted]}],
    }
    return int(client.ask(ApiKey.LIST_OFFSETS, 7, fields).topics[0].partitions[0].offset)


def markers(client: RawClient, topic: str, *partitions: int, **fields: Any) -> list[Code]:
    marker = {
        "producer_id": NOBODY_KNOWS,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
        "topics": [{"name": topic, "partition_indexes": partitions}],
    }
    answer = client.ask(ApiKey.WRITE_TXN_MARKERS, 1, {"markers": [marker | fields]})
    (told,) = answer.markers
    assert told.producer_id == NOBODY_KNOWS
    (place,) = told.topics
    assert [one.partition_index for one in place.partitions] == list(partitions)
    return [Code(one.error_code) for one in place.partitions]


def test_what_no_coordinator_knows_is_found_and_ended(
    node: LiveNode, cluster: Cluster, client: RawClient, topic: str
) -> None:
    leave_open(node, topic, 2)
    hanging = HangingTransactions(cluster)
    (found,) = hanging.find(idle_ms=0)
    assert (found.topic, found.partition, found.start_offset) == (topic, 2, 0)
    assert found.producer_id == NOBODY_KNOWS
    assert hanging.find(idle_ms=3_600_000) == (), "it may be one that is only slow"
    assert committed_end(client, topic, 2) == 0
    hanging.abort(found)
    assert committed_end(client, topic, 2) == 2, "its record and the marker"
    assert hanging.find(idle_ms=0) == ()


def test_the_command_shows_what_hangs_and_ends_it(
    node: LiveNode, client: RawClient, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    leave_open(node, topic, 1)
    bootstrap = f"127.0.0.1:{node.port}"

    def told(*options: str) -> Any:
        command = ("transaction", "hanging", "--bootstrap", bootstrap, "-o", "json", *options)
        assert program.guarded(command) == 0
        return json.loads(capsys.readouterr().out)

    assert told() == []
    (row,) = told("--idle", "0")
    assert (row["topic"], row["partition"], row["producer_id"]) == (topic, 1, NOBODY_KNOWS)
    assert committed_end(client, topic, 1) == 0, "it was only shown"
    assert told("--idle", "0", "--abort") == [row]
    assert committed_end(client, topic, 1) == 2
    assert told("--idle", "0") == []


def test_what_a_producer_has_open_does_not_hang(
    node: LiveNode, cluster: Cluster, topic: str
) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": f"127.0.0.1:{node.port}", "transactional.id": topic}
    )
    producer.init_transactions(UNTIL_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(UNTIL_SECONDS) == 0
    leave_open(node, topic, 1, epoch=1)
    (found,) = HangingTransactions(cluster).find(idle_ms=0)
    assert found.partition == 1
    HangingTransactions(cluster).abort(found)
    producer.commit_transaction(UNTIL_SECONDS)


def test_markers_of_a_client_end_a_transaction_in_each_partition_that_is_there(
    node: LiveNode, client: RawClient, topic: str
) -> None:
    leave_open(node, topic, 0)
    assert markers(client, topic, 0, 3, -1, 0) == [
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.INVALID_REQUEST,
    ]
    assert committed_end(client, topic, 0) == 2, "one marker, though it was named twice"
    assert markers(client, "absent", 0) == [Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_marker_of_an_older_epoch_or_coordinator_is_refused(
    node: LiveNode, client: RawClient, topic: str
) -> None:
    leave_open(node, topic, 0, epoch=5)
    assert markers(client, topic, 0, producer_epoch=4) == [Code.INVALID_PRODUCER_EPOCH]
    assert committed_end(client, topic, 0) == 0
    assert markers(client, topic, 0, producer_epoch=5, coordinator_epoch=7) == [Code.NONE]
    leave_open(node, topic, 0, epoch=6)
    fenced = markers(client, topic, 0, producer_epoch=6, coordinator_epoch=6)
    assert fenced == [Code.TRANSACTION_COORDINATOR_FENCED]
    assert markers(client, topic, 0, producer_epoch=6, coordinator_epoch=8) == [Code.NONE]


def test_a_request_may_name_a_thousand_partitions_and_no_more(
    client: RawClient, topic: str
) -> None:
    codes = markers(client, topic, *range(3, 1_103))
    assert codes == [Code.UNKNOWN_TOPIC_OR_PARTITION] * 1_000 + [Code.INVALID_REQUEST] * 100
