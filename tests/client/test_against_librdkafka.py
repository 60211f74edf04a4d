"""The client against librdkafka's mock cluster, with a stock client on the other side."""

from collections.abc import Callable

import confluent_kafka
import pytest

from penstock.client.admin import EARLIEST, LATEST, Admin
from penstock.client.cluster import Cluster
from penstock.client.consume import RecordStream, positions_at
from penstock.client.errors import (
    NoBrokerReachable,
    OffsetOutOfRange,
    RequestTimedOut,
    TopicNotFound,
)
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.groups import Groups
from penstock.client.produce import Delivered, ProduceOptions, Producer
from penstock.client.settings import ClientSettings
from penstock.record.build import Record
from penstock.record.read import DecodedRecord, iter_batches, iter_records

StockConsume = Callable[[str, int], list[confluent_kafka.Message]]
FAST = FetchOptions(wait_ms=20)


def read_all(
    cluster: Cluster, topic: str, partition: int, *, start: int, end: int, options: FetchOptions
) -> list[DecodedRecord]:
    fetcher = PartitionFetcher(cluster, topic, partition, start=start, end=end, options=options)
    return [
        record
        for run in fetcher
        for _, batch in iter_batches(run.data)
        for record in iter_records(batch)
        if start <= record.offset < end
    ]


def test_cluster_names_its_brokers(cluster: Cluster) -> None:
    view = cluster.describe([])
    assert [broker.broker_id for broker in view.brokers] == [1, 2, 3]
    assert view.topics == {}


def test_topic_shows_leaders_and_replicas(cluster: Cluster, topic: str) -> None:
    view = Admin(cluster).describe_topic(topic)
    assert [partition.partition for partition in view.partitions] == [0, 1, 2, 3]
    assert all(partition.leader in partition.replicas for partition in view.partitions)
    assert topic in [one.name for one in Admin(cluster).list_topics()]


def test_absent_topic_is_named_at_once(cluster: Cluster) -> None:
    with pytest.raises(TopicNotFound, match="absent"):
        cluster.topic("absent")
    cluster.topic("there", create=True)
    with pytest.raises(TopicNotFound, match="partition 7"):
        cluster.partition("there", 7)


@pytest.mark.parametrize("codec", range(5))
def test_stock_consumer_reads_what_we_produce(
    cluster: Cluster, topic: str, stock_consume: StockConsume, codec: int
) -> None:
    delivered: list[Delivered] = []
    options = ProduceOptions(codec=codec, batch_bytes_max=4096)
    with Producer(cluster, options, on_delivered=delivered.append) as producer:
        for i in range(300):
            headers = (("n", b"%d" % i), ("none", None))
            producer.send(topic, Record(b"k%d" % (i % 7), b"value %d" % i, headers, 1000 + i))
    assert producer.acknowledged_count == 300 == sum(one.record_count for one in delivered)
    found = stock_consume(topic, 300)
    assert sorted(one.timestamp()[1] for one in found) == list(range(1000, 1300))
    assert {(one.key(), one.value()) for one in found} == {
        (b"k%d" % (i % 7), b"value %d" % i) for i in range(300)
    }
    assert list(found[0].headers() or ())[1] == ("none", None)
    by_key: dict[bytes | None, list[int]] = {}
    for one in found:
        by_key.setdefault(one.key(), []).append(one.timestamp()[1])
    assert all(times == sorted(times) for times in by_key.values())


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_we_read_what_a_stock_producer_writes(
    cluster: Cluster, topic: str, bootstrap: str, codec: str
) -> None:
    stock = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "log_level": 2}
    )
    for i in range(500):
        stock.produce(topic, b"x" * 50 + b"%d" % i, None if i % 3 else b"key", partition=1)
    assert stock.flush(10) == 0
    (end,) = Admin(cluster).list_offsets(topic, LATEST, [1]).values()
    assert end.offset == 500
    found = read_all(cluster, topic, 1, start=100, end=450, options=FAST)
    assert [one.offset for one in found] == list(range(100, 450))
    assert found[0].value == b"x" * 50 + b"100"
    assert [one.key for one in found[:3]] == [None, None, b"key"]


def test_keyless_records_spread_over_partitions_batch_by_batch(
    cluster: Cluster, topic: str
) -> None:
    delivered: list[Delivered] = []
    options = ProduceOptions(batch_bytes_max=2048)
    with Producer(cluster, options, on_delivered=delivered.append) as producer:
        for _ in range(100):
            producer.send(topic, Record(None, bytes(200)))
    assert {one.partition for one in delivered} == {0, 1, 2, 3}
    assert sorted(one.record_count for one in delivered)[1] > 1


def test_small_fetches_with_a_request_ahead_lose_and_repeat_nothing(
    cluster: Cluster, topic: str
) -> None:
    with Producer(cluster, ProduceOptions(batch_bytes_max=1000)) as producer:
        for i in range(200):
            producer.send(topic, Record(None, b"%05d" % i + bytes(95)), partition=0)
    options = FetchOptions(partition_bytes_max=1500, wait_ms=20)
    found = read_all(cluster, topic, 0, start=0, end=200, options=options)
    assert [one.value[:5] for one in found if one.value] == [b"%05d" % i for i in range(200)]


def test_reading_beyond_the_log_is_out_of_range(cluster: Cluster, topic: str) -> None:
    with pytest.raises(OffsetOutOfRange):
        read_all(cluster, topic, 0, start=50, end=60, options=FAST)


def test_waiting_for_what_does_not_come_ends_at_the_deadline(
    settings: ClientSettings, topic: str
) -> None:
    short = ClientSettings(bootstrap=settings.bootstrap, deadline_ms=200, backoff_ms=5)
    with Cluster(short) as cluster, pytest.raises(RequestTimedOut, match="nothing readable"):
        read_all(cluster, topic, 0, start=0, end=1, options=FAST)


def test_stream_reads_all_partitions_to_their_ends(cluster: Cluster, topic: str) -> None:
    with Producer(cluster) as producer:
        for i in range(90):
            producer.send(topic, Record(None, b"%d" % i), partition=i % 3)
    admin = Admin(cluster)
    start, ends = positions_at(admin, topic, EARLIEST), positions_at(admin, topic, LATEST)
    stream = RecordStream(cluster, start, ends=ends, options=FAST)
    found = list(stream)
    assert sorted(int(one.record.value or b"") for one in found) == list(range(90))
    assert stream.positions == ends
    for number in range(3):
        offsets = [one.record.offset for one in found if one.partition == number]
        assert offsets == list(range(30))


def test_following_stream_stops_when_idle_and_can_be_gone_on_with(
    cluster: Cluster, topic: str
) -> None:
    first = RecordStream(cluster, {(topic, 0): 0}, idle_ms=50, options=FAST)
    assert list(first) == []
    with Producer(cluster) as producer:
        producer.send(topic, Record(None, b"later"), partition=0)
    again = RecordStream(cluster, first.positions, idle_ms=50, options=FAST)
    assert [one.record.value for one in again] == [b"later"]


def test_positions_of_a_group_are_set_and_read(cluster: Cluster, topic: str) -> None:
    groups = Groups(cluster)
    groups.commit("batch-job", {(topic, 0): 5, (topic, 2): 9})
    found = groups.offsets("batch-job", [(topic, 0), (topic, 1), (topic, 2)])
    assert {key: one.offset for key, one in found.items()} == {(topic, 0): 5, (topic, 2): 9}


def test_no_broker_is_said_with_the_addresses() -> None:
    settings = ClientSettings(bootstrap="127.0.0.1:1", deadline_ms=50, backoff_ms=5)
    with Cluster(settings) as cluster, pytest.raises(NoBrokerReachable, match=r"127\.0\.0\.1:1"):
        cluster.describe()
