"""What the client does when brokers refuse, move, vanish or answer late."""

import pytest

from penstock.client.admin import EARLIEST, LATEST, Admin
from penstock.client.cluster import Cluster
from penstock.client.consume import RecordStream, positions_at
from penstock.client.errors import (
    BrokerError,
    ClientError,
    DeliveryUnknown,
    NoBrokerReachable,
    ProducerFenced,
    RecordTooLarge,
    RequestTimedOut,
)
from penstock.client.fetch import FetchOptions, PartitionFetcher
from penstock.client.produce import ProduceOptions, Producer
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record
from penstock.record.read import iter_batches
from tests.client.mock_cluster import BROKER_DISCONNECTS, MockCluster

FAST = FetchOptions(wait_ms=20)


def values(cluster: Cluster, topic: str) -> list[int]:
    """All records of a topic, as numbers, in order within each partition."""
    admin = Admin(cluster)
    start, ends = positions_at(admin, topic, EARLIEST), positions_at(admin, topic, LATEST)
    stream = RecordStream(cluster, start, ends=ends, options=FAST)
    return [int(one.record.value or b"") for one in stream]


def produce(cluster: Cluster, topic: str, count: int, partition: int | None = 0) -> Producer:
    """Small batches, so that there are many requests."""
    with Producer(cluster, ProduceOptions(batch_bytes_max=512)) as producer:
        for i in range(count):
            producer.send(topic, Record(None, b"%d" % i), partition=partition)
    return producer


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        BROKER_DISCONNECTS,
    ],
)
def test_produce_goes_on_after_what_may_pass(
    cluster: Cluster, mock: MockCluster, topic: str, code: int
) -> None:
    mock.fail_next(ApiKey.PRODUCE, code, code, 0, 0, code)
    assert produce(cluster, topic, 100).acknowledged_count == 100
    assert values(cluster, topic) == list(range(100))


def test_unanswered_batch_is_sent_again_as_the_very_same_bytes(
    mock_alone: MockCluster,
) -> None:
    # The mock does not look at sequences, so both attempts end up in its log and can be compared;
    # a real broker takes the second for the duplicate that it is.
    mock_alone.create_topic("slow", 1)
    mock_alone.delay_next(ApiKey.PRODUCE, 1, 400)
    impatient = ClientSettings(
        bootstrap=mock_alone.bootstrap, deadline_ms=120_000, request_timeout_ms=100, backoff_ms=5
    )
    with Cluster(impatient) as cluster:
        with Producer(cluster, ProduceOptions(timeout_ms=50)) as producer:
            producer.send("slow", Record(None, b"7"), partition=0)
        assert producer.acknowledged_count == 1
        runs = PartitionFetcher(cluster, "slow", 0, start=0, end=2, options=FAST)
        first, second = (header for run in runs for header, _ in iter_batches(run.data))
    assert first.crc == second.crc
    assert (first.producer_id, first.base_sequence) == (second.producer_id, 0)


def test_refusal_for_good_is_raised_and_ends_the_producer(
    cluster: Cluster, mock: MockCluster, topic: str
) -> None:
    mock.fail_next(ApiKey.PRODUCE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    producer = Producer(cluster)
    producer.send(topic, Record(None, b"1"))
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        producer.flush()
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        producer.send(topic, Record(None, b"2"))
    assert producer.acknowledged_count == 0


def test_fenced_producer_says_so(cluster: Cluster, mock: MockCluster, topic: str) -> None:
    mock.fail_next(ApiKey.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH)
    with pytest.raises(ProducerFenced):
        produce(cluster, topic, 1)


@pytest.mark.parametrize(
    "code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID]
)
def test_lost_producer_state_begins_a_new_producer_id(
    cluster: Cluster, mock: MockCluster, topic: str, code: int
) -> None:
    producer = Producer(cluster, ProduceOptions(batch_bytes_max=512))
    for i in range(60):
        producer.send(topic, Record(None, b"%d" % i), partition=i % 2)
    mock.fail_next(ApiKey.PRODUCE, 0, code)
    producer.flush()
    assert producer.acknowledged_count == 60
    found = values(cluster, topic)
    assert sorted(found) == list(range(60))
    assert [one for one in found if one % 2] == list(range(1, 60, 2))


def test_lost_state_under_an_uncertain_batch_is_not_papered_over(
    cluster: Cluster, mock: MockCluster, topic: str
) -> None:
    mock.fail_next(ApiKey.PRODUCE, BROKER_DISCONNECTS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    with pytest.raises(DeliveryUnknown):
        produce(cluster, topic, 1)


def test_leader_that_moves_is_followed(cluster: Cluster, mock: MockCluster, topic: str) -> None:
    mock.set_leader(topic, 0, 1)
    assert produce(cluster, topic, 10).acknowledged_count == 10
    mock.set_leader(topic, 0, 2)
    assert produce(cluster, topic, 10).acknowledged_count == 10
    assert values(cluster, topic) == [*range(10), *range(10)]


def test_partition_without_leader_is_waited_for_until_the_deadline(
    mock: MockCluster, settings: ClientSettings, topic: str
) -> None:
    mock.set_leader(topic, 0, -1)
    short = ClientSettings(bootstrap=settings.bootstrap, deadline_ms=150, backoff_ms=5)
    with Cluster(short) as cluster, pytest.raises(RequestTimedOut, match="LEADER_NOT_AVAILABLE"):
        produce(cluster, topic, 1)


def test_fetch_goes_on_after_what_may_pass(cluster: Cluster, mock: MockCluster, topic: str) -> None:
    produce(cluster, topic, 50, None)
    mock.fail_next(
        ApiKey.FETCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        BROKER_DISCONNECTS,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert sorted(values(cluster, topic)) == list(range(50))


def test_answers_of_all_kinds_survive_a_broken_connection(
    cluster: Cluster, mock: MockCluster, topic: str
) -> None:
    for key in (ApiKey.METADATA, ApiKey.LIST_OFFSETS):
        mock.fail_next(key, BROKER_DISCONNECTS)
    assert Admin(cluster).list_offsets(topic, LATEST)[3].offset == 0


def test_work_goes_on_when_brokers_are_back(
    mock: MockCluster, settings: ClientSettings, topic: str
) -> None:
    with Cluster(settings) as cluster:
        producer = Producer(cluster)
        producer.send(topic, Record(None, b"1"), partition=0)
        producer.flush()
        for broker in (1, 2, 3):
            mock.take_down(broker)
        producer.send(topic, Record(None, b"2"), partition=0)
        short = ClientSettings(bootstrap=settings.bootstrap, deadline_ms=100, backoff_ms=5)
        with Cluster(short) as other, pytest.raises(ClientError) as met:
            Admin(other).list_topics()
        assert isinstance(met.value, NoBrokerReachable | RequestTimedOut)
        for broker in (1, 2, 3):
            mock.bring_up(broker)
        producer.flush()
        assert values(cluster, topic) == [1, 2]


def test_record_larger_than_a_batch_is_refused_and_nothing_is_taken(
    cluster: Cluster, topic: str
) -> None:
    with Producer(cluster, ProduceOptions(batch_bytes_max=1000)) as producer:
        with pytest.raises(RecordTooLarge):
            producer.send(topic, Record(None, bytes(1000)))
        producer.send(topic, Record(None, b"1"))
    assert producer.acknowledged_count == 1
