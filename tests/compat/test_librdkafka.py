"""librdkafka, through confluent-kafka."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from harness.waiting import UNTIL_SECONDS
from tests.compat.conftest import CODECS

pytestmark = pytest.mark.process
Headers = list[tuple[str, str | bytes | None]]


def produce(bootstrap: str, topic: str, values: list[str], **settings: object) -> list[Message]:
    """Send every value with itself as the key; return the delivery reports, none of them failed."""
    reports: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        reports.append(message)

    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, **dotted})
    for number, value in enumerate(values):
        headers: Headers = [("n", b"%d" % number), ("empty", b"")]
        producer.produce(
            topic, value, value, headers=headers, timestamp=1000 + number, on_delivery=delivered
        )
        producer.poll(0)
    assert producer.flush(UNTIL_SECONDS) == 0
    return reports


def consumer_of(bootstrap: str, group: str, **settings: object) -> Consumer:
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 500,
            **dotted,
        }
    )


def take(consumer: Consumer, count: int, seconds: float = UNTIL_SECONDS) -> list[Message]:
    """Poll until so many records came or the time is over."""
    taken: list[Message] = []
    deadline = time.monotonic() + seconds
    while len(taken) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(taken), 0.2):
            assert message.error() is None, message.error()
            taken.append(message)
    return taken


def poll_until(
    consumers: list[Consumer], holds: Callable[[], bool], seconds: float = UNTIL_SECONDS
) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        for consumer in consumers:
            consumer.poll(0.1)
    return holds()


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_whole_with_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    values = [f"value {n} " + "abc" * 50 for n in range(300)]
    produce(bootstrap, topic, values, compression_type=codec)
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic])
    taken = take(consumer, 300)
    consumer.close()
    assert sorted(bytes(m.value() or b"").decode() for m in taken) == sorted(values)
    assert all(m.key() == m.value() for m in taken)
    first = next(m for m in taken if bytes(m.value() or b"").startswith(b"value 7 "))
    assert first.timestamp()[1] == 1007
    assert first.headers() == [("n", b"7"), ("empty", b"")]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_delivers(bootstrap: str, topic: str, acks: str) -> None:
    produce(bootstrap, topic, [str(n) for n in range(50)], acks=acks)
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic])
    assert len(take(consumer, 50)) == 50
    consumer.close()


def test_an_idempotent_producer_gets_dense_increasing_offsets(bootstrap: str, topic: str) -> None:
    reports = produce(
        bootstrap, topic, [str(n) for n in range(500)], enable_idempotence=True, batch_size=2000
    )
    for partition in range(3):
        offsets = [r.offset() for r in reports if r.partition() == partition]
        assert offsets == list(range(len(offsets)))


def test_a_null_value_and_an_empty_value_stay_different(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value=None, key="k", partition=0)
    producer.produce(topic, value=b"", key="k", partition=0)
    producer.flush(UNTIL_SECONDS)
    consumer = consumer_of(bootstrap, topic)
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [m.value() for m in take(consumer, 2)] == [None, b""]
    consumer.close()


def test_positions_survive_a_restart_of_the_consumer(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [str(n) for n in range(40)])
    first = consumer_of(bootstrap, topic)
    first.subscribe([topic])
    seen = {m.value() for m in take(first, 15)}
    first.commit(asynchronous=False)
    first.close()
    second = consumer_of(bootstrap, topic)
    second.subscribe([topic])
    rest = {m.value() for m in take(second, 25)}
    second.close()
    assert len(seen) == 15
    assert len(seen | rest) == 40


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_the_partitions(bootstrap: str, topic: str, strategy: str) -> None:
    settings = {"partition_assignment_strategy": strategy}
    members = [consumer_of(bootstrap, f"{topic}-{strategy}", **settings) for _ in range(2)]
    for member in members:
        member.subscribe([topic])

    def is_shared() -> bool:
        return sorted(len(m.assignment()) for m in members) == [1, 2]

    assert poll_until(members, is_shared)
    members[0].close()
    assert poll_until(members[1:], lambda: len(members[1].assignment()) == 3)
    members[1].close()


def test_a_static_member_comes_back_to_its_partitions(bootstrap: str, topic: str) -> None:
    settings = {"group_instance_id": "static-1"}
    first = consumer_of(bootstrap, topic, **settings)
    first.subscribe([topic])
    assert poll_until([first], lambda: len(first.assignment()) == 3)
    first.close()
    second = consumer_of(bootstrap, topic, **settings)
    second.subscribe([topic])
    assert poll_until([second], lambda: len(second.assignment()) == 3)
    second.close()


def test_seeking_by_timestamp_finds_the_first_later_record(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.size": 200})
    for number in range(100):
        producer.produce(topic, str(number), partition=1, timestamp=10_000 + number * 10)
    producer.flush(UNTIL_SECONDS)
    consumer = consumer_of(bootstrap, topic)
    wanted = [TopicPartition(topic, 1, 10_055), TopicPartition(topic, 1, 999_999)]
    found = [consumer.offsets_for_times([one], UNTIL_SECONDS)[0].offset for one in wanted]
    assert found[0] == 6
    assert found[1] in {-1, 100}
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), UNTIL_SECONDS) == (0, 100)
    consumer.close()


def test_an_offset_out_of_range_is_reset_as_asked(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [str(n) for n in range(30)])
    consumer = consumer_of(bootstrap, topic)
    consumer.assign([TopicPartition(topic, 0, 10_000)])
    taken = take(consumer, 1)
    assert taken[0].offset() == 0
    consumer.close()


def test_a_record_above_the_limit_is_refused_and_the_next_one_is_not(
    bootstrap: str, name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    small = NewTopic(name, 1, 1, config={"max.message.bytes": "2000"})
    admin.create_topics([small])[name].result(UNTIL_SECONDS)
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for value in (b"x" * 5000, b"small"):
        producer.produce(name, value, on_delivery=lambda e, _m: codes.append(e.code() if e else 0))
        producer.flush(UNTIL_SECONDS)
    assert codes == [KafkaError.MSG_SIZE_TOO_LARGE, 0]


def test_a_topic_can_stamp_records_with_the_time_of_the_broker(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    stamped = NewTopic(name, 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin.create_topics([stamped])[name].result(UNTIL_SECONDS)
    begun = int(time.time() * 1000)
    produce(bootstrap, name, ["a"])
    consumer = consumer_of(bootstrap, name)
    consumer.assign([TopicPartition(name, 0, 0)])
    kind, timestamp = take(consumer, 1)[0].timestamp()
    consumer.close()
    assert kind == TIMESTAMP_LOG_APPEND_TIME
    assert begun - 1000 < timestamp < int(time.time() * 1000) + 1000


@pytest.mark.parametrize("codec", ["gzip", "zstd", "uncompressed"])
def test_a_topic_can_choose_the_codec(bootstrap: str, name: str, codec: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config={"compression.type": codec})])[name].result(
        UNTIL_SECONDS
    )
    values = [f"value {n} " + "abc" * 50 for n in range(200)]
    produce(bootstrap, name, values, compression_type="lz4", enable_idempotence=True)
    consumer = consumer_of(bootstrap, name)
    consumer.assign([TopicPartition(name, 0, 0)])
    taken = take(consumer, 200)
    consumer.close()
    assert [bytes(message.value() or b"").decode() for message in taken] == values


def test_an_unknown_topic_is_said_to_be_unknown(bootstrap: str, name: str) -> None:
    consumer = consumer_of(bootstrap, name)
    found = consumer.list_topics(name, timeout=UNTIL_SECONDS).topics[name]
    consumer.close()
    assert found.error is not None
    assert found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_topics_are_created_listed_described_grown_and_deleted(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "60000"})])[name].result(
        UNTIL_SECONDS
    )
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(UNTIL_SECONDS)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(name, 5)])[name].result(UNTIL_SECONDS)
    assert len(admin.list_topics(name, timeout=UNTIL_SECONDS).topics[name].partitions) == 5
    admin.delete_topics([name])[name].result(UNTIL_SECONDS)
    assert name not in admin.list_topics(timeout=UNTIL_SECONDS).topics


def test_topic_configs_are_changed_and_described(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    change = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(UNTIL_SECONDS)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    described = admin.describe_configs([asked])[asked].result(UNTIL_SECONDS)
    assert described["retention.ms"].value == "123456"
    bad = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[bad])
    with pytest.raises(KafkaException) as refused:
        admin.incremental_alter_configs([resource])[resource].result(UNTIL_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_CONFIG


def test_records_are_deleted_up_to_an_offset(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce(topic, str(number), partition=0)
    producer.flush(UNTIL_SECONDS)
    target = TopicPartition(topic, 0, 12)
    admin.delete_records([target])[target].result(UNTIL_SECONDS)
    spec = {TopicPartition(topic, 0): OffsetSpec.earliest()}
    assert next(iter(admin.list_offsets(spec).values())).result(UNTIL_SECONDS).offset == 12
    consumer = consumer_of(bootstrap, topic)
    consumer.assign([TopicPartition(topic, 0, 12)])
    assert take(consumer, 1)[0].value() == b"12"
    consumer.close()


def test_groups_are_listed_described_moved_and_deleted(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, [str(n) for n in range(30)])
    consumer = consumer_of(bootstrap, topic)
    consumer.subscribe([topic])
    take(consumer, 30)
    consumer.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([topic])[topic].result(UNTIL_SECONDS)
    assert described.state == ConsumerGroupState.STABLE
    assert len(described.members) == 1
    consumer.close()
    listed = admin.list_consumer_groups().result(UNTIL_SECONDS)
    assert topic in {group.group_id for group in listed.valid}
    moved = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([moved])[topic].result(UNTIL_SECONDS)
    asked = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0)])
    kept = admin.list_consumer_group_offsets([asked])[topic].result(UNTIL_SECONDS)
    assert kept.topic_partitions[0].offset == 3
    admin.delete_consumer_groups([topic])[topic].result(UNTIL_SECONDS)
    listed = admin.list_consumer_groups().result(UNTIL_SECONDS)
    assert topic not in {group.group_id for group in listed.valid}


def test_the_cluster_describes_itself(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_cluster().result(UNTIL_SECONDS)
    assert [f"{node.host}:{node.port}" for node in described.nodes] == [bootstrap]
    assert described.controller is not None
    assert described.cluster_id
