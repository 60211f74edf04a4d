"""aiokafka: old versions of the requests, asyncio."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from harness.waiting import UNTIL_SECONDS, until
from tests.compat.conftest import CODECS

pytestmark = pytest.mark.process


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(2 * UNTIL_SECONDS):
            await story()

    asyncio.run(bounded())


async def send(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> list[int]:
    """Send to partition 0 with a header; return the offsets."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        waiting = [
            await producer.send(
                topic, value, key=b"k", partition=0, timestamp_ms=5000, headers=[("h", b"1")]
            )
            for value in values
        ]
        return [(await report).offset for report in waiting]


def consumer_of(bootstrap: str, *topics: str, **settings: object) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30_000,
        heartbeat_interval_ms=500,
        **settings,
    )


@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_whole_with_every_codec(bootstrap: str, topic: str, codec: str) -> None:
    values = [b"value %d " % n + b"abc" * 40 for n in range(200)]

    async def story() -> None:
        chosen = None if codec == "none" else codec
        offsets = await send(bootstrap, topic, values, compression_type=chosen, linger_ms=20)
        assert offsets == list(range(200))
        async with consumer_of(bootstrap, topic) as consumer:
            taken = [await consumer.getone() for _ in values]
        assert [message.value for message in taken] == values
        assert (taken[0].key, taken[0].timestamp) == (b"k", 5000)
        assert tuple(taken[0].headers) == (("h", b"1"),)

    run(story)


def test_an_idempotent_producer_gets_dense_increasing_offsets(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        values = [b"%d" % n for n in range(300)]
        offsets = await send(bootstrap, topic, values, enable_idempotence=True, max_batch_size=500)
        assert offsets == list(range(300))

    run(story)


def test_two_members_share_the_partitions_and_the_last_takes_all(
    bootstrap: str, topic: str
) -> None:
    async def story() -> None:
        first = consumer_of(bootstrap, topic, group_id=topic)
        second = consumer_of(bootstrap, topic, group_id=topic)
        await first.start()
        await second.start()
        try:
            await until(lambda: sorted(len(c.assignment()) for c in (first, second)) == [1, 2])
            await first.stop()
            await until(lambda: len(second.assignment()) == 3)
        finally:
            await first.stop()
            await second.stop()

    run(story)


def test_positions_survive_a_restart_of_the_consumer(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        await send(bootstrap, topic, [b"%d" % n for n in range(20)])
        async with consumer_of(bootstrap, topic, group_id=topic) as first:
            taken = [(await first.getone()).value for _ in range(8)]
            await first.commit({TopicPartition(topic, 0): 8})
        async with consumer_of(bootstrap, topic, group_id=topic) as second:
            taken += [(await second.getone()).value for _ in range(12)]
            assert await second.committed(TopicPartition(topic, 0)) == 8
        assert taken == [b"%d" % n for n in range(20)]

    run(story)


def test_offsets_are_found_by_time_and_at_both_ends(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        await send(bootstrap, topic, [b"a", b"b"])
        one = TopicPartition(topic, 0)
        async with consumer_of(bootstrap) as consumer:
            consumer.assign([one])
            assert await consumer.beginning_offsets([one]) == {one: 0}
            assert await consumer.end_offsets([one]) == {one: 2}
            found = await consumer.offsets_for_times({one: 5000})
            assert found[one].offset == 0

    run(story)


def test_the_admin_client_works_on_topics(bootstrap: str, name: str) -> None:
    async def story() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([NewTopic(name, 2, 1)])
            await admin.create_partitions({name: NewPartitions(4)})
            (described,) = await admin.describe_topics([name])
            assert len(described["partitions"]) == 4
            resource = ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "777000"})
            await admin.alter_configs([resource])
            asked = ConfigResource(ConfigResourceType.TOPIC, name)
            (answer,) = await admin.describe_configs([asked])
            found = {entry[0]: entry[1] for entry in answer.resources[0][4]}
            assert found["retention.ms"] == "777000"
            await send(bootstrap, name, [b"%d" % n for n in range(10)])
            one = TopicPartition(name, 0)
            kept = await admin.delete_records({one: RecordsToDelete(before_offset=4)})
            assert kept == {one: 4}
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    run(story)


def test_the_admin_client_sees_groups(bootstrap: str, topic: str) -> None:
    async def story() -> None:
        await send(bootstrap, topic, [b"a"])
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            async with consumer_of(bootstrap, topic, group_id=topic) as consumer:
                await consumer.getone()
                await consumer.commit()
                assert topic in {group[0] for group in await admin.list_consumer_groups()}
                (answer,) = await admin.describe_consumer_groups([topic])
                assert answer.groups[0][2] == "Stable"
            offsets = await admin.list_consumer_group_offsets(topic)
            assert offsets[TopicPartition(topic, 0)].offset == 1
            assert (await admin.describe_cluster())["brokers"]
        finally:
            await admin.close()

    run(story)
