"""From a log into a store, through a change of masters, and back: over each kind of store."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from harness import s3_server
from harness.s3_server import S3Server
from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.extents.reader import read_summary
from penstock.record.batch import read_header
from penstock.runtime.io.object_store import open_directory, open_s3
from penstock.tier.copies.alignment import OwnLog
from penstock.tier.copies.copier import Copier, Step
from penstock.tier.copies.effects import Ask, Built, Look, Part, Plan, Upload
from penstock.tier.copies.transfer import put_object, size_of, sweep
from penstock.tier.envelope import ENVELOPE_BYTES
from penstock.tier.errors import StoreError
from penstock.tier.metadata.commands import Fence, Tick
from penstock.tier.metadata.manifest import Snapshot
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName, prefix_of
from penstock.tier.port import Capabilities, ObjectStore
from penstock.tier.probe import probe
from penstock.tier.read.check import check_object
from penstock.tier.read.reader import TierReader
from penstock.tier.read.rebuild import rebuild
from penstock.tier.read.scrub import scrub
from simulator.kernel.object_store import Bucket, ModelledStore
from tests.extents.files import CLUSTER, SET, batch, key, reading, written_with_directory
from tests.extents.files import Part as FilePart
from tests.tier.store_contract import listed, run
from tests.tier.test_stores import settings_of

KEYS = (key(1, 0), key(2, 5))
TIMES = TierTimes()
Logs = Mapping[TopicPartition, list[bytes]]
"""Batches of one record each: the offset of a batch is its place."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(
    params=["modelled", "no conditions", "directory", pytest.param("s3", marks=pytest.mark.compat)]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    match request.param:
        case "modelled":
            return ModelledStore(Bucket())
        case "no conditions":
            return ModelledStore(Bucket(Capabilities(creates=False, swaps=False)))
        case "directory":
            return open_directory(tmp_path / "tier")
        case _:
            return open_s3(settings_of(request.getfixturevalue("server").endpoint, "whole/way"))


class Master:
    """A master with its log, its copier, and everything that the copier asks of others."""

    def __init__(self, epoch: int, logs: Logs, metadata: TierMetadata, store: ObjectStore) -> None:
        self.logs = logs
        self.metadata = metadata
        self.store = store
        fence = Fence(SET, LeaderEpoch(epoch), bytes([epoch]))
        self.copier = Copier(fence, CLUSTER, self, TIMES)
        self.capabilities = Capabilities(creates=False, swaps=False)
        self.held_back: list[Upload] = []
        """Uploads that this master does not get done before it is deposed."""

    def partitions(self) -> Sequence[TopicPartition]:
        return KEYS

    def own(self, topic_partition: TopicPartition) -> OwnLog:
        epochs: list[tuple[int, int]] = []
        for offset, one in enumerate(self.logs[topic_partition]):
            epoch = read_header(memoryview(one)).leader_epoch
            if not epochs or epochs[-1][0] != epoch:
                epochs.append((epoch, offset))
        return OwnLog(tuple(epochs), 0, len(self.logs[topic_partition]))

    def plans(self, ends: Mapping[TopicPartition, int], count_max: int) -> Sequence[Plan]:
        """Return two objects, with a half each of what is missing."""
        halves = {one: (ends[one] + len(self.logs[one]) + 1) // 2 for one in KEYS}
        first = [Part(one, ends[one], halves[one]) for one in KEYS]
        second = [Part(one, halves[one], len(self.logs[one])) for one in KEYS]
        both = [tuple(part for part in of if part[1] < part[2]) for of in (first, second)]
        return [plan for plan in both if plan][:count_max]

    async def work(self, *, hold_back: int = 0) -> None:
        """Do what the copier wants, but for the last uploads of a round, until it wants no more."""
        self.capabilities = await probe(self.store, "probe")
        while effects := self.copier.take(0):
            for effect in effects:
                match effect:
                    case Ask(command):
                        self.copier.answered(command, self.metadata.apply(command, 0))
                    case Upload():
                        uploads = [one for one in effects if isinstance(one, Upload)]
                        if effect in uploads[len(uploads) - hold_back :]:
                            self.held_back.append(effect)
                        else:
                            await self.upload(effect)
                    case Look(name):
                        self.copier.looked(name.object_id, await size_of(self.store, name))

    async def upload(self, upload: Upload) -> None:
        parts = [FilePart(one, self.logs[one][first:end]) for one, first, end in upload.plan]
        data, entries = written_with_directory(parts)
        epochs = [read_summary("a", entry, reading(data)).notes.epochs for entry in entries]
        told = Built(
            tuple(entries), tuple(tuple(one) for one in epochs), ENVELOPE_BYTES + len(data)
        )
        object_id = upload.name.object_id
        try:
            await put_object(self.store, self.capabilities, upload.name, [data])
        except StoreError:
            self.copier.failed(object_id, told)
        else:
            self.copier.put(object_id, told)


def logs_of(first: int, second: int, epoch: int, base: Logs | None = None) -> Logs:
    """Return logs of so many batches; what `base` has not is of this leader epoch."""
    found = {}
    for one, count in zip(KEYS, (first, second), strict=True):
        old = [] if base is None else base[one]
        found[one] = [*old[:count], *(batch(at, epoch=epoch) for at in range(len(old), count))]
    return found


async def read_all(store: ObjectStore, metadata: TierMetadata, one: TopicPartition) -> list[bytes]:
    manifest, reader, offset, found = metadata.manifest(one), TierReader(store), 0, []
    while offset < manifest.end_offset:
        batches, offset = await reader.read(manifest, one, offset, 150)
        found += [bytes(each) for each in batches]
    return found


async def settle(store: ObjectStore, metadata: TierMetadata) -> None:
    """Let enough time pass, and delete all that is due."""
    for now_ms in range(0, 4 * TIMES.grace_ms, TIMES.skew_ms):
        metadata.apply(Tick(), now_ms)
        for swept in await sweep(store, metadata.due()):
            metadata.apply(swept, now_ms)


def test_what_was_copied_through_a_change_of_masters_is_read_back(store: ObjectStore) -> None:
    """The old master has more than the new one, is slow, and its last object lands late."""

    async def work() -> None:
        metadata = TierMetadata(CLUSTER, TIMES)
        start = logs_of(6, 3, epoch=1)
        old = Master(1, start, metadata, store)
        await old.work()
        assert old.copier.step is Step.IDLE
        old.logs = logs_of(12, 9, 1, start)
        await old.work(hold_back=1)

        logs = logs_of(15, 11, 2, logs_of(5, 8, 1, old.logs))
        new = Master(2, logs, metadata, store)
        await new.work()
        await old.upload(old.held_back[0])
        await old.work()
        assert (old.copier.step, new.copier.step) == (Step.DEPOSED, Step.IDLE)
        for one in KEYS:
            assert await read_all(store, metadata, one) == logs[one]

        before = len(await listed(store, prefix_of(CLUSTER)))
        await settle(store, metadata)
        names = await listed(store, prefix_of(CLUSTER))
        assert len(names) < before
        for name in names:
            await check_object(store, name)

        async def rows() -> Mapping[ObjectName, ObjectRow]:
            return {row.name: row for row in metadata.objects.rows.values()}

        assert await scrub(store, CLUSTER, rows) == ({}, [], [], [])
        again = await rebuild(store, CLUSTER, TIMES, 1)
        assert (again.refused, again.unused, again.gaps) == ([], [], [])
        for one in KEYS:
            assert as_told(again.metadata, one) == as_told(metadata, one)
            assert await read_all(store, again.metadata, one) == logs[one]

    run(work())


def as_told(metadata: TierMetadata, one: TopicPartition) -> Snapshot:
    """Return a partition but for the number of its last event."""
    return metadata.manifest(one).snapshot()._replace(last_event_id=0)
