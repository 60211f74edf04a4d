"""A snapshot of the metadata installed in slices: all of it at once for those who read."""

import asyncio

import pytest

from penstock.base.ids import BrokerId
from penstock.base.invariant import InvariantViolation
from penstock.controller.commands.command import AllocateProducerIds, NewTopic
from penstock.controller.metadata.install import Installation
from penstock.controller.metadata.record_codec import encode_records
from penstock.controller.metadata.records import MetadataRecord
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.runtime.image_installing import SLICE_RECORDS, ImageInstalling, slices
from tests.controller.cluster import Cluster
from tests.runtime.test_image_writing import with_topics


def far_behind(topics: int) -> tuple[Cluster, bytes]:
    """Return a cluster that lacks all but one topic of a snapshot, and the snapshot."""
    newer = with_topics(1)
    records = snapshot_records(newer.image)
    behind = Cluster()
    behind.controller.install(records)
    for first in range(1, topics, 100):
        names = range(first, min(first + 100, topics))
        newer.create(*(NewTopic(name=f"t{name}", configs={"retention.ms": "1"}) for name in names))
    return behind, encode_records(snapshot_records(newer.image))


def installing(cluster: Cluster, snapshot: bytes, done: list[bool]) -> ImageInstalling:
    def finish(installation: Installation) -> None:
        cluster.controller.finish_install(installation)
        done.append(True)

    return ImageInstalling(cluster.image, snapshot, finish)


def test_a_small_snapshot_is_installed_in_the_same_call() -> None:
    behind, snapshot = far_behind(10)
    done = list[bool]()
    installing(behind, snapshot, done).go_on()
    assert done == [True]
    assert encode_records(snapshot_records(behind.image)) == snapshot


def test_readers_see_the_old_image_until_all_of_a_large_one_is_there() -> None:
    behind, snapshot = far_behind(1_000)
    done, deltas = list[bool](), list[int]()
    behind.image.subscribe(lambda delta: deltas.append(len(delta.created_topics)))

    async def scenario() -> int:
        installing(behind, snapshot, done).go_on()
        turns = 0
        while not done:
            assert len(behind.image.topics_by_name) == 1
            assert deltas == []
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(scenario()) >= 2_000 // (2 * SLICE_RECORDS)
    assert deltas == [999]
    assert encode_records(snapshot_records(behind.image)) == snapshot


def test_what_is_abandoned_changes_nothing() -> None:
    behind, snapshot = far_behind(1_000)
    before = encode_records(snapshot_records(behind.image))
    done = list[bool]()

    async def scenario() -> None:
        begun = installing(behind, snapshot, done)
        begun.go_on()
        await asyncio.sleep(0)
        begun.cancel()
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert done == []
    assert encode_records(snapshot_records(behind.image)) == before


def test_an_older_snapshot_is_refused_and_changes_nothing() -> None:
    ahead, snapshot = far_behind(10)
    ahead.submit(AllocateProducerIds(broker_id=BrokerId(0)))
    before = encode_records(snapshot_records(ahead.image))
    with pytest.raises(InvariantViolation, match="handed out once"):
        installing(ahead, snapshot, list[bool]()).go_on()
    assert encode_records(snapshot_records(ahead.image)) == before


def test_the_records_of_a_topic_stay_together() -> None:
    records = snapshot_records(with_topics(500).image)
    parts = list(slices(records))
    assert len(parts) > 5
    assert [record for part in parts for record in part] == records
    for part in parts[1:]:
        assert type(part[0]).__name__ == "TopicCreated"


def test_nothing_is_one_part_of_nothing() -> None:
    assert list(slices(list[MetadataRecord]())) == [[]]
