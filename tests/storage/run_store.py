"""A small second store for tests: runs of one partition, each a file of whole batches.

    runs/<topic id>-<partition>-<first offset>-<end offset>.run    batches as they lie in the log

What it holds stands in the names of its files; it looks into them for everything else.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from harness.log_world import World
from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from penstock.base.ports import Disk
from penstock.record.batch import BatchHeader, read_header
from penstock.storage.index.aborted import NO_ABORTED
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.read.chunk import NO_MORE, Chunk
from penstock.storage.read.needs_disk import Loaded, NeedsDisk
from penstock.storage.stores.port import (
    Decided,
    EpochEnd,
    EpochEndFound,
    Examine,
    Held,
    Judged,
    T,
    TimeSearch,
    TimestampHit,
)
from penstock.storage.stores.rules import RetentionRules

DIRECTORY = "runs"


class Run(NamedTuple):
    """One file; also a piece as retention has it."""

    first_offset: Offset
    end_offset: Offset
    path: str
    max_timestamp: int
    batch_bytes: int


Batch = tuple[BatchHeader, memoryview]


class RunStore:
    """The runs in one directory of a disk; work off the loop is the world's."""

    def __init__(self, world: World, disk: Disk, directory: str = DIRECTORY) -> None:
        self._world = world
        self._disk = disk
        self._directory = directory
        self.load()

    @property
    def is_used(self) -> bool:
        return True

    def load(self) -> None:
        directory = self._directory
        self._runs: dict[TopicPartition, list[Run]] = {}
        self._disk.make_directory(directory)
        for name in self._disk.list(directory):
            topic, *numbers = name.removesuffix(".run").split("-")
            partition, first, end = map(int, numbers)
            key = TopicPartition(TopicId(bytes.fromhex(topic)), partition)
            self._note(key, first, end, f"{directory}/{name}")

    def _note(self, key: TopicPartition, first: int, end: int, path: str) -> None:
        batches = self._batches_of(path)
        newest = max(header.max_timestamp for header, _ in batches)
        run = Run(Offset(first), Offset(end), path, newest, sum(len(data) for _, data in batches))
        self._runs.setdefault(key, []).append(run)
        self._runs[key].sort()

    def put(self, key: TopicPartition, batches: list[memoryview]) -> None:
        """Take whole batches over, durably."""
        first = read_header(batches[0]).base_offset
        end = read_header(batches[-1]).last_offset + 1
        name = f"{key.topic_id.hex()}-{key.partition}-{first:010d}-{end:010d}.run"
        self._disk.replace(f"{self._directory}/{name}", b"".join(batches))
        self._note(key, first, end, f"{self._directory}/{name}")

    def drop_all(self) -> None:
        """Lose everything."""
        for runs in self._runs.values():
            for run in runs:
                self._disk.remove(run.path)
        self._runs.clear()

    def _batches_of(self, path: str) -> list[Batch]:
        file = self._disk.open(path)
        data = file.read(0, file.size())
        file.close()
        found, at = [], 0
        while at < len(data):
            header = read_header(data, at)
            found.append((header, data[at : at + header.size_bytes]))
            at += header.size_bytes
        return found

    def _batches(self, key: TopicPartition, first: int, end: int) -> Iterator[Batch]:
        """Yield batches that reach above `first` and begin below `end`."""
        for run in self._runs.get(key, []):
            if first < run.end_offset and run.first_offset < end:
                for header, data in self._batches_of(run.path):
                    if header.last_offset >= first and header.base_offset < end:
                        yield header, data

    def held(self, topic_partition: TopicPartition) -> Held | None:
        runs = self._runs.get(topic_partition)
        return Held(runs[0].first_offset, runs[-1].end_offset) if runs else None

    def read(self, partition: PartitionLog, offset: int, max_bytes: int, limit: int) -> NeedsDisk:
        key = partition.topic_partition

        def work() -> Chunk:
            buffers: list[memoryview] = []
            first_offset = next_offset = offset
            size = 0
            for header, data in self._batches(key, offset, limit):
                if size and size + len(data) > max_bytes:
                    break
                first_offset = first_offset if buffers else header.base_offset
                buffers.append(data)
                size += len(data)
                next_offset = header.last_offset + 1
            return Chunk(buffers, size, first_offset, next_offset if buffers else NO_MORE)

        def load(done: Loaded) -> None:
            self._world.submit(work, done)

        return NeedsDisk(max_bytes, load)

    def search(self, partition: PartitionLog, limit: int) -> TimeSearch:
        start = partition.log_start_offset
        return RunSearch(lambda: self._batches(partition.topic_partition, start, limit))

    def find_epoch_end(
        self, partition: PartitionLog, leader_epoch: int, done: EpochEndFound
    ) -> None:
        key, start = partition.topic_partition, partition.log_start_offset

        def work() -> EpochEnd | None:
            newest, end = -1, -1
            for header, _ in self._batches(key, start, 1 << 62):
                if header.leader_epoch > leader_epoch:
                    break
                newest, end = header.leader_epoch, header.last_offset + 1
            return None if newest < 0 else EpochEnd(LeaderEpoch(newest), Offset(end))

        def finished(end: EpochEnd | None, error: BaseException | None) -> None:
            assert error is None or isinstance(error, PlatformError)
            done(end, error)

        self._world.submit(work, finished)

    def judge(self, rules: RetentionRules, done: Judged) -> None:
        gone: list[tuple[TopicPartition, Run]] = []
        for key, runs in self._runs.items():
            partition = rules.partitions.get(key)
            for run in runs:
                settings = rules.settings_of(key)
                if partition is None or not rules.is_needed(partition, settings, run):
                    gone.append((key, run))

        def let_go() -> None:
            for key, run in gone:
                self._runs[key].remove(run)
                self._disk.remove(run.path)

        done(let_go if gone else None)

    def cut(self, ends: Mapping[TopicPartition, int]) -> None:
        raise NotImplementedError(f"no test cuts runs: {ends}")

    def decided(self, partition: PartitionLog, start: int, limit: int) -> Iterator[Decided]:
        """Return that all is decided and nothing was aborted: no test aborts what runs have."""
        del partition, start
        return iter([Decided(limit, NO_ABORTED, limit)])

    def size_bytes(
        self, topic_partition: TopicPartition, start_offset: int, end_offset: int
    ) -> int:
        runs = self._runs.get(topic_partition, [])
        return sum(
            run.batch_bytes
            for run in runs
            if start_offset < run.end_offset and run.first_offset < end_offset
        )


class RunSearch:
    """A look by time through batches that are read for it."""

    def __init__(self, batches: Callable[[], Iterator[Batch]]) -> None:
        self._batches = batches

    def first_at(self, timestamp_ms: int, examine: Examine[T]) -> T | None:
        for header, data in self._batches():
            if header.max_timestamp >= timestamp_ms:
                found = examine(
                    TimestampHit(Offset(header.base_offset), header.max_timestamp, data)
                )
                if found is not None:
                    return found
        return None

    def newest(self) -> TimestampHit | None:
        best: TimestampHit | None = None
        for header, data in self._batches():
            if best is None or header.max_timestamp > best.max_timestamp:
                best = TimestampHit(Offset(header.base_offset), header.max_timestamp, data)
        return best
