"""What of a store belongs to nobody, what of it may go, and what is missing is told by name."""

from collections.abc import Sequence

import pytest

from penstock.base.ids import LeaderEpoch, TopicId
from penstock.tier.metadata.commands import Fence, Fenced
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.metadata.objects import ObjectRow, State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from penstock.tier.read.repair import Book, Finding, Judge, Kind, delete, examine, store_clock
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, Part, batch, key
from tests.tier.objects import change, manifest_of, name, put
from tests.tier.store_contract import run

ONE, OTHER = key(1, 0), key(2, 0)
GRACE_MS = 1_000
EPOCH = 4
"""Of the mastership that the metadata has."""
NEXT_ID = 10


class World:
    """A bucket, and the metadata of one set."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.bucket.now_ms = 10_000
        self.store = ModelledStore(self.bucket)
        self.metadata = TierMetadata(CLUSTER, TierTimes())
        assert isinstance(self.metadata.apply(Fence(SET, LeaderEpoch(EPOCH), b"n"), 0), Fenced)
        self.metadata.objects.next_id = NEXT_ID
        self.gone: set[TopicId] = set()
        self.book: Book = {SET: self.metadata}

    def live(self, of: ObjectName, parts: Sequence[Part]) -> list[Run]:
        """Put an object that the metadata has."""
        runs = put(self.bucket, of, parts)
        size = len(self.bucket.get(str(of))[0])
        self.metadata.objects.restore(ObjectRow(of, State.LIVE, 0, size, len(runs)))
        self.metadata.objects.next_id = NEXT_ID
        for run_ in runs:
            self.metadata.restore(run_.entry.topic_partition, manifest_of([run_]))
        return runs

    def examined(self, later_ms: int = GRACE_MS) -> list[Finding]:
        judge = Judge(self.gone.__contains__, self.bucket.now_ms + later_ms, GRACE_MS)

        async def books() -> Book:
            return self.book

        return run(examine(self.store, CLUSTER, books, judge))

    def orphan(self, later_ms: int = GRACE_MS) -> Finding:
        (found,) = self.examined(later_ms)
        assert found.kind is Kind.ORPHAN
        return found


@pytest.fixture
def world() -> World:
    return World()


def records(first: int, end: int) -> list[Part]:
    return [Part(ONE, [batch(offset) for offset in range(first, end)])]


def test_an_orphan_goes_whose_records_the_tier_has_elsewhere_and_nothing_else(
    world: World,
) -> None:
    put(world.bucket, name(2, EPOCH), records(0, 3))
    world.live(name(3, EPOCH), records(0, 3))
    found = world.orphan()
    assert (found.name, found.may_go) == (str(name(2, EPOCH)), True)
    assert run(delete(world.store, [found])) == 1
    assert sorted(world.bucket.objects) == [str(name(3, EPOCH))]
    assert world.examined() == []


def test_an_orphan_stays_that_has_one_record_more_than_the_tier(world: World) -> None:
    put(world.bucket, name(2, EPOCH), records(0, 4))
    world.live(name(3, EPOCH), records(0, 3))
    found = world.orphan()
    assert not found.may_go
    assert f"offsets 0 to 3 of partition 0 of topic {ONE.topic_id.hex()}" in found.text
    assert run(delete(world.store, [found])) == 0
    assert len(world.bucket.objects) == 2


def test_of_several_partitions_one_that_only_the_orphan_has_keeps_it(world: World) -> None:
    put(world.bucket, name(2, EPOCH), [*records(0, 3), Part(OTHER, [batch(0)])])
    world.live(name(3, EPOCH), records(0, 3))
    assert not world.orphan().may_go
    world.gone.add(OTHER.topic_id)
    assert world.orphan().may_go


def test_what_retention_has_deleted_from_the_tier_is_not_missed(world: World) -> None:
    put(world.bucket, name(2, EPOCH), records(0, 3))
    manifest = Manifest()
    manifest.start_offset = manifest.end_offset = 3
    world.metadata.restore(ONE, manifest)
    assert world.orphan().may_go


def test_an_orphan_of_a_deleted_topic_goes(world: World) -> None:
    put(world.bucket, name(2, 1), records(0, 3))
    assert not world.orphan().may_go
    world.gone.add(ONE.topic_id)
    assert world.orphan().may_go


def test_what_is_younger_than_the_grace_stays(world: World) -> None:
    world.gone.add(ONE.topic_id)
    put(world.bucket, name(2, EPOCH), records(0, 3))
    assert not world.orphan(GRACE_MS - 1).may_go
    assert world.orphan(GRACE_MS).may_go


@pytest.mark.parametrize(
    ("of", "may_go"),
    [
        (name(NEXT_ID - 1, EPOCH), True),
        (name(NEXT_ID, EPOCH), False),
        (name(NEXT_ID, EPOCH - 1), True),
        (name(2, EPOCH + 1), False),
        (name(2, 1, SET + 1), False),
    ],
)
def test_only_a_name_goes_that_no_mastership_can_give_any_more(
    world: World, of: ObjectName, may_go: bool
) -> None:
    world.gone.add(ONE.topic_id)
    put(world.bucket, of, records(0, 3))
    assert world.orphan().may_go is may_go


def test_an_orphan_that_can_not_be_read_stays_for_a_person(world: World) -> None:
    world.gone.add(ONE.topic_id)
    put(world.bucket, name(2, EPOCH), records(0, 3))
    change(world.bucket, name(2, EPOCH), len(world.bucket.get(str(name(2, EPOCH)))[0]) - 1)
    found = world.orphan()
    assert not found.may_go
    assert "damaged at byte" in found.text


def test_a_missing_object_and_one_of_another_size_are_told_with_their_offsets(
    world: World,
) -> None:
    world.live(name(3, EPOCH), records(0, 3))
    world.live(name(4, EPOCH), [Part(OTHER, [batch(5)])])
    del world.bucket.objects[str(name(3, EPOCH))]
    data, version = world.bucket.objects[str(name(4, EPOCH))]
    world.bucket.objects[str(name(4, EPOCH))] = data[:-1], version
    lost, wrong = world.examined()
    assert (lost.kind, lost.name) == (Kind.LOST, str(name(3, EPOCH)))
    assert f"offsets 0 to 2 of partition 0 of topic {ONE.topic_id.hex()}" in lost.text
    assert (wrong.kind, wrong.name) == (Kind.WRONG_SIZE, str(name(4, EPOCH)))
    assert "offsets 5 to 5" in wrong.text
    assert [lost.may_go, wrong.may_go] == [False, False]


def test_probes_that_a_node_has_left_go_and_strangers_stay(world: World) -> None:
    probe = f"{CLUSTER.hex()}/probes/{'0a' * 8}"
    no_probe = f"{CLUSTER.hex()}/probes/notes.txt"
    stranger = f"{CLUSTER.hex()}/sets/notes.txt"
    of_another = f"{bytes(16).hex()}/probes/{'0b' * 8}"
    for one in (probe, no_probe, stranger, of_another):
        run(world.store.put(one, [b"x"]))
    assert not any(one.may_go for one in world.examined(GRACE_MS - 1))
    found = {one.name: one for one in world.examined()}
    assert set(found) == {probe, no_probe, stranger}
    assert [one.name for one in found.values() if one.may_go] == [probe]
    run(delete(world.store, list(found.values())))
    assert set(world.bucket.objects) == {no_probe, stranger, of_another}


def test_the_clock_is_that_of_the_store_and_asking_for_it_leaves_nothing(world: World) -> None:
    assert run(store_clock(world.store, "probe")) == world.bucket.now_ms
    assert not world.bucket.objects
