"""A snapshot of the metadata in slices: of one moment, and of no other."""

import asyncio

from penstock.controller.commands.command import (
    CreateTopics,
    DeleteTopics,
    NewTopic,
    TopicReference,
)
from penstock.controller.metadata.record_codec import encode_records
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.runtime.image_writing import SLICE_RECORDS, ImageWriting
from tests.controller.cluster import Cluster
from tests.runtime.raft_harness import ReservingDisk
from tests.runtime.test_controller_driver import Node, on_loop


def with_topics(count: int) -> Cluster:
    cluster = Cluster()
    configs = {"retention.ms": "1", "retention.bytes": "2"}
    for first in range(0, count, 100):
        cluster.create(
            *(
                NewTopic(name=f"t{one}", configs=configs)
                for one in range(first, min(first + 100, count))
            )
        )
    return cluster


async def turns_until(written: list[bytes]) -> int:
    """Return how many turns of the loop pass until something is written."""
    for turn in range(1_000):
        if written:
            return turn
        await asyncio.sleep(0)
    raise TimeoutError


def test_a_small_image_is_written_in_the_same_call() -> None:
    cluster, written = with_topics(10), list[bytes]()
    ImageWriting(cluster.image, written.append).go_on()
    assert written == [encode_records(snapshot_records(cluster.image))]


def test_a_large_image_takes_many_turns() -> None:
    cluster, written = with_topics(1_000), list[bytes]()

    async def scenario() -> None:
        ImageWriting(cluster.image, written.append).go_on()
        assert await turns_until(written) >= 3_000 // SLICE_RECORDS

    asyncio.run(scenario())
    assert written == [encode_records(snapshot_records(cluster.image))]


def test_what_changes_meanwhile_is_not_in_it() -> None:
    cluster, written = with_topics(1_000), list[bytes]()
    before = encode_records(snapshot_records(cluster.image))

    async def scenario() -> None:
        ImageWriting(cluster.image, written.append).go_on()
        cluster.submit(DeleteTopics(topics=(TopicReference(name="t999"),)))
        cluster.submit(CreateTopics(topics=(NewTopic(name="t9990", partition_count=2),)))
        await turns_until(written)

    asyncio.run(scenario())
    assert written == [before]


def test_what_is_cancelled_is_told_to_nobody() -> None:
    cluster, written = with_topics(1_000), list[bytes]()

    async def scenario() -> None:
        writing = ImageWriting(cluster.image, written.append)
        writing.go_on()
        writing.cancel()
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert not written


@on_loop
async def test_a_driver_goes_on_while_it_writes_a_large_image() -> None:
    """Entries that are applied meanwhile stay behind the snapshot: a start finds all of them."""
    disk = ReservingDisk()
    node = Node(disk, snapshot_after_bytes=40_000)
    await node.found()
    topics = [NewTopic(name=f"many-{number}") for number in range(1_500)]
    was_on_its_way = False
    for first in range(0, len(topics), 100):
        await node.driver.submit(CreateTopics(topics=tuple(topics[first : first + 100])))
        writing = node.driver._writing
        was_on_its_way |= writing is not None and not writing.is_over
    assert was_on_its_way
    await node.create("last")
    for _ in range(100):
        await asyncio.sleep(0.001)
    assert node.log._snapshots.index > 0
    disk.crash()
    again = Node(disk)
    assert again.image == node.image
    assert len(again.image.topics_by_name) == 1_501
