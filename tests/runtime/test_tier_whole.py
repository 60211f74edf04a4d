"""From a log's second level into a real store, through a change of masters, and read back."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from harness import hdfs_server, s3_server
from harness.hdfs_server import HdfsServer
from harness.log_world import DIRECTORY
from harness.s3_server import S3Server
from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.io.hdfs_store import HdfsSettings, open_hdfs
from penstock.runtime.io.object_store import open_directory, open_s3
from penstock.runtime.tier.asking import OwnMetadata
from penstock.runtime.tier.copying import CopyConfig, Copying, Surroundings
from penstock.storage.second_level.objects import Waiting, build_object, plan_objects, waiting
from penstock.storage.second_level.reading import ExtentPlace
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.copies.copier import Copier
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.copies.effects import Plan
from penstock.tier.copies.source import Image
from penstock.tier.metadata.commands import Fence, Tick
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName
from penstock.tier.port import ObjectStore
from penstock.tier.probe import probe
from penstock.tier.read.reader import TierReader
from penstock.tier.read.scrub import scrub
from penstock.tier.service.config import TierServiceConfig
from penstock.tier.service.coordinator import TierCoordinator
from tests.coordinator.held_journal import HeldJournal
from tests.coordinator.shard_contract import load
from tests.runtime.tier_running import LoopClock, SyncingJournal
from tests.storage.second_level import IDENTITY, split, take_over
from tests.storage.test_second_level import Level
from tests.storage.test_stores import KEY, OTHER
from tests.tier.store_contract import run
from tests.tier.test_stores import settings_of

CLUSTER, SET = IDENTITY
KEYS = (KEY, OTHER)
TIMES = TierTimes(upload_ms=60_000, skew_ms=30_000, lease_ms=60_000, grace_ms=120_000)
CONFIG = CopyConfig(pause_ms=20, retry_ms=10)
OBJECT_BYTES = 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    reason = hdfs_server.why_not()
    if reason is not None:
        pytest.skip(reason)
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture(
    params=[
        "directory",
        pytest.param("s3", marks=pytest.mark.compat),
        pytest.param("hdfs", marks=pytest.mark.compat),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return open_directory(tmp_path / "tier")
    if request.param == "hdfs":
        place = request.getfixturevalue("hadoop").place(f"/{tmp_path.name}/store")
        return open_hdfs(HdfsSettings(place=place, call_ms=120_000))
    return open_s3(settings_of(request.getfixturevalue("server").endpoint, "whole/level"))


class LevelSource:
    """Implements Source over the second level of one member."""

    def __init__(self, level: Level) -> None:
        self._level = level
        self._place = ExtentPlace(level.disk, DIRECTORY)
        batches = level.filling.batches
        firsts = {one.leader_epoch: one.first for one in reversed(batches)}
        self._epochs = tuple(sorted(firsts.items()))

    def partitions(self) -> Sequence[TopicPartition]:
        return KEYS

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        end = self._level.log.open_partition(topic_partition).log_end_offset
        return OwnLog(self._epochs if topic_partition == KEY else (), 0, end)

    def _waiting(self, ends: Mapping[TopicPartition, int]) -> Waiting:
        held = {key: self._level.second.extents(key) for key in KEYS}
        return {key: waiting(held[key], ends.get(key, 0), 1 << 40) for key in KEYS}

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        return plan_objects(self._place, self._waiting(ends), ends, count_max, OBJECT_BYTES)

    async def build(self, plan: Plan) -> Image:
        return await asyncio.to_thread(build_object, self._place, self._waiting({}), plan, IDENTITY)


class Master:
    """A member that leads the set for a while."""

    def __init__(self, level: Level, journal: HeldJournal, epoch: int) -> None:
        self._source = LevelSource(level)
        self._fence = Fence(SET, LeaderEpoch(epoch), b"%d" % epoch)
        config = TierServiceConfig(times=TIMES)
        self.coordinator = TierCoordinator(LoopClock(), journal, cluster_id=CLUSTER, config=config)
        load(self.coordinator, journal.log(with_all=True))  # type: ignore[arg-type]
        self.counters = CopyCounters()

    @property
    def metadata(self) -> TierMetadata:
        return self.coordinator._shard.by_partition[0].metadata

    async def copy(self, store: ObjectStore, *, objects: int | None = None) -> None:
        """Copy until so many objects are put, or the tier has all that the level has."""
        own = OwnMetadata(self.coordinator, lambda: 0)
        capabilities = await probe(store, "probe")
        copier = Copier(self._fence, CLUSTER, self._source, TIMES)
        between = Surroundings(self._source, own, store, capabilities, LoopClock())
        copying = Copying(copier, between, config=CONFIG, counters=self.counters)
        task = asyncio.create_task(copying.run())
        while not self._is_over(objects):
            assert not task.done(), task
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _is_over(self, objects: int | None) -> bool:
        if objects is not None:
            return self.counters.objects >= objects
        held = {key: self._source._level.second.held(key) for key in KEYS}
        return all(
            one is not None and self.metadata.manifest(key).end_offset == one.end_offset
            for key, one in held.items()
        )


def test_a_second_level_is_read_back_from_the_store_after_a_master_died(
    store: ObjectStore, tmp_path: Path
) -> None:
    """It dies with objects that are put and not committed; the next one has other extents."""

    async def story() -> None:
        journal = SyncingJournal()
        first = _level(tmp_path / "first")
        first.take_all()
        old = Master(first, journal, 1)
        await old.copy(store, objects=3)
        journal.lose(0)

        second = _level(tmp_path / "second")
        split(second.disk, second.second, second.segments, KEYS)
        assert take_over(second.world, second.second) is None
        new = Master(second, journal, 2)
        await new.copy(store)
        assert await _read_all(store, new.metadata) == [
            one.body for one in second.filling.batches if one.end <= second.held.end_offset
        ]
        await _settle(store, new, journal)

    run(story())


def _level(place: Path) -> Level:
    place.mkdir()
    return Level(FileDisk(place))


async def _read_all(store: ObjectStore, metadata: TierMetadata) -> list[bytes]:
    manifest, reader, offset = metadata.manifest(KEY), TierReader(store), 0
    found: list[bytes] = []
    while offset < manifest.end_offset:
        batches, offset = await reader.read(manifest, KEY, offset, 5_000)
        found += [bytes(one[16:]) for one in batches]
    return found


async def _settle(store: ObjectStore, master: Master, journal: HeldJournal) -> None:
    """Let all deadlines pass; then the store has the objects of the metadata and no others."""
    for hours in range(1, 5):
        master.metadata.apply(Tick(), LoopClock().wall_ms() + hours * 3_600_000)
        due = master.metadata.due()
        await store.delete([str(one.name) for one in due])
        for one in due:
            master.metadata.objects.swept(one.name.object_id, one.due_ms)
    assert journal.under_way == []

    async def rows() -> Mapping[ObjectName, ObjectRow]:
        return {row.name: row for row in master.metadata.objects.rows.values()}

    assert await scrub(store, CLUSTER, rows) == ({}, [], [], [])
