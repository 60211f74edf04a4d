"""What the merges of a node share: one place, one rate; and what is left alone after a failure."""

import asyncio
from typing import Any

import pytest

from harness.log_world import World
from penstock.base.ids import TopicPartition
from penstock.runtime.tier import merging
from penstock.runtime.tier.merging import DAMAGED_MS, FAILED_MS, MergeRoom, Merging
from penstock.tier.copies.effects import Replacement
from penstock.tier.copies.merge_plan import Bounds, MergePlanner, MergeRules
from penstock.tier.copies.source import Image
from penstock.tier.errors import LostObject, LyingObject, StoreUnavailable
from penstock.tier.metadata.manifest import Run
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, key
from tests.tier.test_merge_plan import manifest_of, run_of

KEYS = [key(1, number) for number in range(3)]
RULES = MergeRules(object_bytes=1000, age_ms=0, runs_min=2)


class Node:
    """A planner with three partitions that have enough to merge, and who builds."""

    def __init__(self) -> None:
        self.world = World()
        self.world.now_ms = 1_000
        bounds = Bounds(lambda _: 0, self.world.wall_ms)
        self.planner = MergePlanner(RULES, bounds)
        self.room = MergeRoom(self.world, 1 << 30)
        store = ModelledStore(Bucket())
        self.merging = Merging(store, self.planner, self.room, (CLUSTER, SET))
        self.manifests = {of: manifest_of([run_of(at, 1, of) for at in range(2)]) for of in KEYS}

    def planned(self) -> list[TopicPartition]:
        return [one.part.topic_partition for one in self.planner.plan(self.manifests)]


def test_a_merge_has_its_place_until_it_is_put_and_the_rate_is_asked_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node, seen = Node(), list[Any]()
    image = Image([b"a" * 10, b"b" * 5], (), ())

    async def build(*_: object, **__: object) -> Image:
        seen.append(("built", node.room.has_place()))
        return image

    async def pace(size: int) -> None:
        seen.append(("paced", size))

    async def put(of: Image) -> None:
        assert of is image
        seen.append(("put", node.room.has_place()))

    monkeypatch.setattr(merging, "build_merged", build)
    monkeypatch.setattr(node.room, "pace", pace)
    assert node.room.has_place()
    asyncio.run(node.merging.put((), put))
    assert seen == [("built", False), ("paced", 15), ("put", False)]
    assert node.room.has_place()


def shared(of: TopicPartition, name_of: Run) -> Replacement:
    """Return runs of a partition of which the second is in the object of another run."""
    runs = [run_of(at, 1, of) for at in range(2)]
    return Replacement((runs[0], Run(name_of.name, *runs[1][1:])))


def test_each_partition_of_a_lying_object_is_left_alone_and_no_other() -> None:
    node = Node()
    lying = run_of(50, 1)
    plan = (
        shared(KEYS[0], lying),
        Replacement(tuple(run_of(at, 1, KEYS[1]) for at in range(2))),
        shared(KEYS[2], lying),
    )
    assert node.planned() == KEYS
    node.merging.failed(plan, LyingObject(str(lying.name), 0, "damaged"))
    assert node.planned() == [KEYS[1]]
    node.world.now_ms += DAMAGED_MS - 1
    assert node.planned() == [KEYS[1]]
    node.world.now_ms += 1
    assert node.planned() == KEYS


def test_the_partition_of_a_lost_object_is_left_alone() -> None:
    node = Node()
    node.merging.failed((), LostObject("name", KEYS[1], 0))
    assert node.planned() == [KEYS[0], KEYS[2]]


def test_after_a_store_that_failed_nothing_is_merged_for_a_time() -> None:
    node = Node()
    node.merging.failed((), StoreUnavailable("name", "no answer"))
    assert node.planned() == []
    node.world.now_ms += FAILED_MS - 1
    assert node.planned() == []
    node.world.now_ms += 1
    assert node.planned() == KEYS
