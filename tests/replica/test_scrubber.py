"""Which log the scrub reads next, at what pace, and what counts as a pass."""

from dataclasses import replace

from harness.log_world import SMALL, World, append, open_log, partition_number
from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.base.ports import DiskFile
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replica.scrubber import IDLE_MS, Scrubber
from penstock.storage.config import LogConfig
from tests.storage.faulty_disk import FaultyDisk

RATE = 50_000
"""Bytes per second: a slice, which is a segment here, takes a good second."""
INTERVAL_MS = 3_600_000
CONFIG = replace(SMALL, scrub_bytes_per_second=RATE, scrub_interval_ms=INTERVAL_MS)
ONE, TWO = ReplicaSetId(1), ReplicaSetId(2)


class NotingDisk(FaultyDisk):
    """Notes the segments that are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[tuple[int, int]] = []
        """Number of the set and base position of the segment."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        directory, _, name = path.partition("/")
        if name.startswith("log/") and not create:
            self.opened.append((int(directory[4:]), int(name[4:24])))
        return super().open(path, create=create)


class Reads:
    """A scrubber over the logs of two sets, and the segments that it reads."""

    def __init__(self, config: LogConfig = CONFIG) -> None:
        self.world, self.disk = World(), NotingDisk()
        members = {set_id: self._member(set_id, config) for set_id in (ONE, TWO)}
        self.scrubber = Scrubber(members, self.world)
        self.disk.opened.clear()
        self.scrubber.start()

    def _member(self, set_id: ReplicaSetId, config: LogConfig) -> ReplicaSetMember:
        world = self.world
        log = open_log(world, self.disk, config, f"set-{set_id}")
        partition = log.open_partition(partition_number(0))
        for _ in range(50):
            append(log, partition, size=4000)
            world.run()
        return ReplicaSetMember(set_id, BrokerId(1), log, world.call_soon)

    @property
    def sets(self) -> list[int]:
        return [set_id for set_id, _ in self.disk.opened]

    @property
    def passes(self) -> int:
        return self.scrubber.stats.passes


def test_a_hurried_set_is_read_at_once_and_the_pass_goes_on_where_it_stopped() -> None:
    whole, reads = Reads(), Reads()
    whole.world.advance(60_000)
    reads.world.advance(IDLE_MS + 2_000)
    assert 0 < len(reads.disk.opened) < whole.sets.count(ONE), "it is in the middle of the first"
    before = list(reads.disk.opened)
    reads.scrubber.hurry(TWO)
    reads.world.advance(500)
    hurried = reads.disk.opened[len(before) :]
    assert hurried[: whole.sets.count(TWO)] == [at for at in whole.disk.opened if at[0] == TWO]
    assert reads.passes == 0
    reads.world.advance(60_000)
    del reads.disk.opened[len(before) : len(before) + whole.sets.count(TWO)]
    assert reads.disk.opened == whole.disk.opened
    assert reads.passes == 1


def test_a_hurried_set_does_not_shorten_the_pause_between_passes() -> None:
    reads = Reads()
    reads.world.advance(60_000)
    count = len(reads.disk.opened)
    reads.scrubber.hurry(ONE)
    reads.world.advance(INTERVAL_MS - 1_000)
    assert reads.sets[count:] == [ONE] * reads.sets[:count].count(ONE)
    assert reads.passes == 1
    reads.world.advance(60_000)
    assert reads.passes == 2


def test_a_pass_ends_though_a_set_is_hurried_while_its_last_slice_is_read() -> None:
    whole, reads = Reads(), Reads()
    whole.world.advance(60_000)
    while len(reads.disk.opened) < len(whole.disk.opened):
        reads.world.advance(10)
    assert reads.passes == 0
    reads.scrubber.hurry(ONE)
    reads.world.advance(60_000)
    assert reads.passes == 1
    assert len(reads.disk.opened) == len(whole.disk.opened) + whole.sets.count(ONE)


def test_without_a_rate_nothing_is_read_or_counted_unless_it_is_hurried() -> None:
    reads = Reads(replace(CONFIG, scrub_bytes_per_second=0))
    reads.world.advance(60_000)
    assert (reads.disk.opened, reads.passes) == ([], 0)
    reads.scrubber.hurry(TWO)
    reads.world.advance(60_000)
    assert set(reads.sets) == {TWO}
    assert reads.passes == 0
    assert reads.scrubber.is_at_rest
