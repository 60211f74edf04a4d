"""Administration, groups and a round trip against a Penstock node, with the newest versions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.client.admin import (
    BROKER_RESOURCE,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Admin,
)
from penstock.client.cluster import Cluster
from penstock.client.consume import RecordStream, positions_at
from penstock.client.errors import BrokerError, TopicNotFound, UnreadableRecords
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.groups import Groups
from penstock.client.produce import ProduceOptions, Producer
from penstock.client.settings import ClientSettings
from penstock.record.build import Record
from penstock.record.columns import decode_columns
from tests.live_node import LiveNode, running_node
from tests.lying import UNCHECKED, fill_around_a_lie


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    directory: Path = tmp_path_factory.mktemp("node")
    with running_node(directory) as started:
        yield started


@pytest.fixture
def cluster(node: LiveNode) -> Iterator[Cluster]:
    settings = ClientSettings(bootstrap=f"127.0.0.1:{node.port}", deadline_ms=120_000)
    with Cluster(settings) as opened:
        yield opened


def test_topic_is_created_grown_and_deleted(cluster: Cluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("grows", partitions=2)
    view = admin.describe_topic("grows")
    assert len(view.partitions) == 2
    assert view.topic_id is not None
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topic("grows")
    admin.create_partitions("grows", 5)
    assert len(admin.describe_topic("grows").partitions) == 5
    assert "grows" in [topic.name for topic in admin.list_topics()]
    admin.delete_topic("grows")
    with pytest.raises(TopicNotFound):
        admin.describe_topic("grows")


def test_what_does_not_exist_is_said_at_once(cluster: Cluster) -> None:
    admin = Admin(cluster)
    for ask in (
        lambda: admin.delete_topic("absent"),
        lambda: admin.create_partitions("absent", 3),
        lambda: admin.describe_configs("absent"),
        lambda: admin.alter_configs("absent", set_to={"retention.ms": "1"}),
        lambda: admin.list_offsets("absent", LATEST),
        lambda: admin.delete_records("absent", {0: 1}),
    ):
        with pytest.raises(TopicNotFound, match="absent"):
            ask()


def test_validation_alone_creates_nothing(cluster: Cluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("only-checked", validate_only=True)
    with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
        admin.create_topic("bad/name", validate_only=True)
    with pytest.raises(TopicNotFound):
        admin.describe_topic("only-checked")


def test_settings_are_changed_and_brought_back(cluster: Cluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("tuned", configs={"retention.ms": "5000"})

    def own() -> dict[str, str | None]:
        found = admin.describe_configs("tuned", with_documentation=True)
        return {one.name: one.value for one in found if one.source == "topic"}

    assert own() == {"retention.ms": "5000"}
    admin.alter_configs("tuned", set_to={"max.message.bytes": "2000"}, delete=["retention.ms"])
    assert own() == {"max.message.bytes": "2000"}
    with pytest.raises(BrokerError, match="INVALID_CONFIG"):
        admin.alter_configs("tuned", set_to={"max.message.bytes": "many"})
    broker_id = str(cluster.describe([]).brokers[0].broker_id)
    assert admin.describe_configs(broker_id, resource=BROKER_RESOURCE)


@pytest.mark.parametrize("codec", range(5))
def test_records_make_the_round_trip_into_columns(cluster: Cluster, codec: int) -> None:
    topic = f"round-{codec}"
    Admin(cluster).create_topic(topic, partitions=1)
    with Producer(cluster, ProduceOptions(codec=codec, batch_bytes_max=5000)) as producer:
        for i in range(500):
            producer.send(topic, Record(b"k%d" % i, b"v" * 90, (), 1000 + i))
    fetcher = PartitionFetcher(
        cluster, topic, 0, start=100, end=400, options=FetchOptions(partition_bytes_max=9000)
    )
    rows = sum(chunk.rows for run in fetcher for chunk in decode_columns(run.data, run.offset, 400))
    assert rows == 300


def test_offsets_by_time_and_deleted_records(cluster: Cluster) -> None:
    admin = Admin(cluster)
    admin.create_topic("timed", partitions=1)
    with Producer(cluster) as producer:
        for i in range(10):
            producer.send("timed", Record(None, b"x", (), 1_000_000 + 10 * i))
    assert admin.list_offsets("timed", 1_000_055)[0].offset == 6
    assert admin.list_offsets("timed", 9_000_000)[0].offset == -1
    assert admin.list_offsets("timed", MAX_TIMESTAMP)[0].timestamp_ms == 1_000_090
    assert positions_at(admin, "timed", 9_000_000) == {("timed", 0): 10}
    assert admin.delete_records("timed", {0: 4}) == {0: 4}
    assert admin.list_offsets("timed", EARLIEST)[0].offset == 4
    stream = RecordStream(cluster, {("timed", 0): 4}, ends={("timed", 0): 10})
    assert [one.record.offset for one in stream] == list(range(4, 10))


def test_group_positions_are_set_listed_and_deleted(cluster: Cluster) -> None:
    Admin(cluster).create_topic("grouped", partitions=2)
    groups = Groups(cluster)
    groups.commit("readers", {("grouped", 0): 3, ("grouped", 1): 4})
    assert {key: one.offset for key, one in groups.offsets("readers").items()} == {
        ("grouped", 0): 3,
        ("grouped", 1): 4,
    }
    assert "readers" in [one.group_id for one in groups.list()]
    assert groups.describe("readers").state == "Empty"
    groups.delete_offsets("readers", [("grouped", 1)])
    assert list(groups.offsets("readers")) == [("grouped", 0)]
    groups.delete("readers")
    assert groups.describe("readers").state == "Dead"
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        groups.delete("readers")


def test_a_batch_that_can_not_be_read_ends_a_stream_or_is_left_out(
    node: LiveNode, cluster: Cluster
) -> None:
    Admin(cluster).create_topic("lied-to", partitions=1, configs=UNCHECKED)
    fill_around_a_lie(node.port, "lied-to")
    key = ("lied-to", 0)
    stream = iter(RecordStream(cluster, {key: 0}, ends={key: 4}))
    assert next(stream).record.value == b"before"
    with pytest.raises(
        UnreadableRecords, match=r"lied-to-0: offsets 1 to 2 can not be read: .*gzip"
    ):
        next(stream)
    skipped: list[UnreadableRecords] = []
    lenient = RecordStream(cluster, {key: 0}, ends={key: 4}, on_unreadable=skipped.append)
    assert [one.record.offset for one in lenient] == [0, 3]
    assert [(one.first_offset, one.last_offset) for one in skipped] == [(1, 2)]
