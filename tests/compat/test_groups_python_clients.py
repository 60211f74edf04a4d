"""Assignors and static members of the two pure Python clients."""

import asyncio
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (
    StickyPartitionAssignor as AioSticky,
)

from harness.waiting import UNTIL_SECONDS, until

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    from kafka import KafkaConsumer

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.process,
]
SECONDS = UNTIL_SECONDS


def member_of(bootstrap: str, topic: str, **settings: object) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        session_timeout_ms=20_000,
        heartbeat_interval_ms=300,
        **settings,
    )


def poll_until(members: list[KafkaConsumer], holds: Callable[[], bool]) -> None:
    """Poll all members at the same time, each in a thread, as separate processes would.

    One after the other will not do: a join that completes while kafka-python 3.0 is not polling is
    sent again, and a leader that joins again has the whole group rebalance.
    """
    deadline = time.monotonic() + SECONDS
    with ThreadPoolExecutor(len(members)) as threads:
        while not holds():
            assert time.monotonic() < deadline, [m.assignment() for m in members]
            for done in [threads.submit(member.poll, 300) for member in members]:
                done.result(SECONDS)


@pytest.mark.parametrize(
    "assignor", [RangePartitionAssignor, StickyPartitionAssignor, CooperativeStickyAssignor]
)
def test_kafka_python_divides_by_each_of_its_assignors(
    bootstrap: str, topic: str, assignor: type
) -> None:
    settings = {"partition_assignment_strategy": [assignor]}
    first = member_of(bootstrap, topic, **settings)
    poll_until([first], lambda: len(first.assignment()) == 3)
    second = member_of(bootstrap, topic, **settings)
    both = [first, second]
    poll_until(both, lambda: sorted(len(m.assignment()) for m in both) == [1, 2])
    assert not first.assignment() & second.assignment()
    first.close()
    poll_until([second], lambda: len(second.assignment()) == 3)
    second.close()


def test_a_static_member_of_kafka_python_comes_back_to_its_partitions(
    bootstrap: str, topic: str
) -> None:
    members = [member_of(bootstrap, topic, group_instance_id=f"i{n}") for n in range(2)]
    poll_until(members, lambda: sorted(len(m.assignment()) for m in members) == [1, 2])
    mine, theirs = (set(member.assignment()) for member in members)
    members[0].close()
    back = member_of(bootstrap, topic, group_instance_id="i0")
    poll_until([back, members[1]], lambda: back.assignment() == mine)
    assert members[1].assignment() == theirs
    for member in (back, members[1]):
        member.close()


async def aio_member(bootstrap: str, topic: str, **settings: object) -> AIOKafkaConsumer:
    member = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        enable_auto_commit=False,
        session_timeout_ms=20_000,
        heartbeat_interval_ms=300,
        **settings,
    )
    await member.start()
    return member


@pytest.mark.parametrize("assignor", [AioRange, AioSticky])
def test_aiokafka_divides_by_each_of_its_assignors(
    bootstrap: str, topic: str, assignor: type
) -> None:
    async def story() -> None:
        settings = {"partition_assignment_strategy": [assignor]}
        first = await aio_member(bootstrap, topic, **settings)
        second = await aio_member(bootstrap, topic, **settings)
        await until(lambda: sorted(len(m.assignment()) for m in (first, second)) == [1, 2], SECONDS)
        assert not first.assignment() & second.assignment()
        await first.stop()
        await until(lambda: len(second.assignment()) == 3, SECONDS)
        await second.stop()

    asyncio.run(story())


def test_a_static_member_of_aiokafka_comes_back_to_its_partitions(
    bootstrap: str, topic: str
) -> None:
    async def story() -> None:
        first = await aio_member(bootstrap, topic, group_instance_id="i0")
        second = await aio_member(bootstrap, topic, group_instance_id="i1")
        await until(lambda: sorted(len(m.assignment()) for m in (first, second)) == [1, 2], SECONDS)
        mine, theirs = set(first.assignment()), set(second.assignment())
        await first.stop()
        back = await aio_member(bootstrap, topic, group_instance_id="i0")
        await until(lambda: len(back.assignment()) > 0, SECONDS)
        assert (back.assignment(), second.assignment()) == (mine, theirs)
        await back.stop()
        await second.stop()

    asyncio.run(story())
