"""kafka-python: newest versions of the requests, threads."""

import contextlib
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.conftest import CODECS

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.codec import has_lz4, has_snappy, has_zstd
    from kafka.errors import NoReassignmentInProgressError, TopicAlreadyExistsError

    from kafka import (
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
_IS_THERE = {"snappy": has_snappy, "lz4": has_lz4, "zstd": has_zstd}
SHARE_SECONDS = UNTIL_SECONDS


@pytest.fixture
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


def send(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> list[int]:
    """Send to partition 0 with a header; return the offsets."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=20, **settings)
    try:
        waiting = [
            producer.send(
                topic, value, key=b"k", partition=0, timestamp_ms=5000, headers=[("h", b"1")]
            )
            for value in values
        ]
        return [report.get(UNTIL_SECONDS).offset for report in waiting]
    finally:
        producer.close(timeout=UNTIL_SECONDS)


def consumer_of(bootstrap: str, *topics: str, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=500,
        **settings,
    )


def take(consumer: KafkaConsumer, count: int, seconds: float = UNTIL_SECONDS) -> list[object]:
    """Poll until so many records came or the time is over."""
    taken: list[object] = []
    deadline = time.monotonic() + seconds
    while len(taken) < count and time.monotonic() < deadline:
        for records in consumer.poll(200, max_records=count - len(taken)).values():
            taken += records
    return taken


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_whole_with_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    if codec in _IS_THERE and not _IS_THERE[codec]():
        pytest.skip(f"kafka-python has no {codec} library here")
    values = [b"value %d " % n + b"abc" * 40 for n in range(200)]
    chosen = None if codec == "none" else codec
    assert send(bootstrap, topic, values, compression_type=chosen) == list(range(200))
    consumer = consumer_of(bootstrap, topic)
    taken = take(consumer, 200)
    consumer.close()
    assert [message.value for message in taken] == values  # type: ignore[attr-defined]
    first = taken[0]
    assert (first.key, first.timestamp) == (b"k", 5000)  # type: ignore[attr-defined]
    assert list(first.headers) == [("h", b"1")]  # type: ignore[attr-defined]


@contextlib.contextmanager
def polled(consumer: KafkaConsumer) -> Iterator[KafkaConsumer]:
    """Poll in a thread of its own, as applications do, and close at the end.

    Version 3.0 throws away a join that was answered while nobody was in `poll` and joins anew,
    which starts the next rebalance: two members that one thread polls in turns may do so forever.
    """
    over = threading.Event()

    def poll() -> None:
        while not over.is_set():
            consumer.poll(500)

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        over.set()
        thread.join()
        consumer.close()


def held(*members: KafkaConsumer) -> list[int]:
    """How many partitions each member holds, in order of size."""
    return sorted(len(member.assignment()) for member in members)


def test_two_members_share_the_partitions_and_the_last_takes_all(
    bootstrap: str, topic: str
) -> None:
    with polled(consumer_of(bootstrap, topic, group_id=topic)) as last:
        with polled(consumer_of(bootstrap, topic, group_id=topic)) as first:
            assert wait_until(lambda: held(first, last) == [1, 2], SHARE_SECONDS)
        assert wait_until(lambda: held(last) == [3], SHARE_SECONDS)


def test_positions_survive_a_restart_of_the_consumer(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [b"%d" % n for n in range(20)])
    first = consumer_of(bootstrap, topic, group_id=topic)
    assert len(take(first, 8)) == 8
    first.commit({TopicPartition(topic, 0): OffsetAndMetadata(8, "", -1)})
    first.close()
    second = consumer_of(bootstrap, topic, group_id=topic)
    rest = [message.value for message in take(second, 12)]  # type: ignore[attr-defined]
    assert second.committed(TopicPartition(topic, 0)) == 8
    second.close()
    assert rest == [b"%d" % n for n in range(8, 20)]


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    send(bootstrap, topic, [b"a", b"b"])
    one = TopicPartition(topic, 0)
    consumer = consumer_of(bootstrap)
    assert consumer.beginning_offsets([one]) == {one: 0}
    assert consumer.end_offsets([one]) == {one: 2}
    assert consumer.offsets_for_times({one: 5000})[one].offset == 0
    consumer.close()


def test_topics_are_created_grown_configured_emptied_and_deleted(
    admin: KafkaAdminClient, bootstrap: str, name: str
) -> None:
    admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    admin.create_partitions({name: 4})
    (described,) = admin.describe_topics([name])
    assert len(described["partitions"]) == 4
    changed = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "777000"})
    admin.alter_configs([changed])
    asked = ConfigResource(ConfigResourceType.TOPIC, name)
    assert "777000" in str(admin.describe_configs([asked]))
    send(bootstrap, name, [b"%d" % n for n in range(10)])
    one = TopicPartition(name, 0)
    admin.delete_records({one: 4})
    consumer = consumer_of(bootstrap)
    assert consumer.beginning_offsets([one]) == {one: 4}
    consumer.close()
    admin.delete_topics([name])
    assert name not in admin.list_topics()


def test_groups_are_listed_described_and_deleted(
    admin: KafkaAdminClient, bootstrap: str, topic: str
) -> None:
    send(bootstrap, topic, [b"a"])
    consumer = consumer_of(bootstrap, topic, group_id=topic)
    assert len(take(consumer, 1)) == 1
    consumer.commit()
    assert topic in str(admin.list_groups())
    assert "Stable" in str(admin.describe_groups([topic]))
    consumer.close()
    one = TopicPartition(topic, 0)
    offsets = admin.list_group_offsets({topic: [one]})
    assert offsets[topic][one].offset == 1
    admin.delete_groups([topic])
    assert topic not in str(admin.list_groups())


def test_the_cluster_describes_itself(admin: KafkaAdminClient, bootstrap: str) -> None:
    assert bootstrap.rpartition(":")[2] in str(admin.describe_cluster())


def test_quorum_and_directories_are_described(admin: KafkaAdminClient, topic: str) -> None:
    quorum = admin.describe_metadata_quorum()
    assert "current_voters" in str(quorum)
    assert topic in str(admin.describe_log_dirs())


def test_replicas_that_are_so_already_may_be_asked_for_and_nothing_is_cancelled(
    admin: KafkaAdminClient, topic: str
) -> None:
    one = TopicPartition(topic, 1)
    assert admin.alter_partition_reassignments({one: [1]}) == {one: None}
    assert admin.alter_partition_reassignments({one: None}) == {one: NoReassignmentInProgressError}
    assert admin.list_partition_reassignments() == {}
    assert admin.list_partition_reassignments({topic: [0, 1]}) == {}
