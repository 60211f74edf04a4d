"""A start that is cut off at any operation of its disk, a next one, and a loss of power."""

from collections.abc import Callable, Iterator
from itertools import count
from random import Random

import pytest

from harness.log_world import DIRECTORY, Crashed, World, append, partition_number
from penstock.base.ids import LeaderEpoch, Position
from penstock.storage.commit_log.pending_change import PendingChange
from penstock.storage.commit_log.set_log import SetLog
from penstock.storage.config import LogConfig
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import open_member

CONFIG = LogConfig(
    segment_bytes=8_192,
    staging_bytes=8_192,
    large_batch_bytes=4_096,
    checkpoint_interval_bytes=1 << 30,
    reserve_bytes=0,
)
BATCHES = 30
LOSSES = 4
"""Each keeps another part of what was not synced."""


def crash_at(operations: int) -> Callable[[str, str], None]:
    left = operations

    def crash(_operation: str, _path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Crashed

    return crash


def crash_before(operation: str, path: str) -> Callable[[str, str], None]:
    def crash(found: str, at: str) -> None:
        if found == operation and at.endswith(path):
            raise Crashed

    return crash


def stopped(disk: FaultyDisk, crash: Callable[[str, str], None], work: Callable[[], None]) -> bool:
    """Let the process end where `crash` says; return whether it did."""
    disk.on_operation = crash
    try:
        work()
    except Crashed:
        return True
    finally:
        disk.on_operation = None
        disk.kill()
    return False


def write(world: World, log: SetLog, batches: int) -> int:
    """Write in a mastership of its own; return the end, which is durable."""
    log.begin_epoch(LeaderEpoch(log.leader_epoch + 1))
    for number in range(batches):
        append(log, log.open_partition(partition_number(0)), size=1000, fill=number)
        world.run()
    assert log.durable_position == log.end_position
    return log.end_position


def with_segments_behind_its_end() -> tuple[FaultyDisk, int]:
    """Return a disk that lost what was in the newest segments, and where its log ends."""
    world, disk = World(), FaultyDisk()
    log = open_member(world, disk, CONFIG)
    end = write(world, log, 3)
    kept = {path: bytes(inode.data) for path, inode in disk.names.items()}
    write(world, log, BATCHES)
    for path in [path for path in disk.names if path.endswith(".log")]:
        file = disk.open(path)
        file.write(0, [kept.get(path, bytes(CONFIG.segment_bytes))])
        file.sync()
    disk.remove(f"{DIRECTORY}/durable")
    disk.sync_directory(DIRECTORY)
    disk.kill()
    return disk, end


def with_a_truncation_under_way() -> tuple[FaultyDisk, int]:
    """Return the disk of a log that was stopped while it was cut, and where it is cut."""
    world, disk = World(), FaultyDisk()
    log = open_member(world, disk, CONFIG)
    end = write(world, log, 3)
    write(world, log, BATCHES)

    def cut() -> None:
        log.truncate(Position(end), lambda _: None)
        world.run()

    assert stopped(disk, crash_before("remove", "8192.log"), cut)
    assert PendingChange.path(DIRECTORY) in disk.names
    return disk, end


def copied(disk: FaultyDisk) -> FaultyDisk:
    copy = FaultyDisk()
    copy.files = disk.files.duplicate("")
    return copy


def copies_of(disk: FaultyDisk) -> Iterator[FaultyDisk]:
    """Yield copies on which a start was cut off, each one operation later."""
    is_cut_off = True
    for operations in count():
        if not is_cut_off:
            return
        copy = copied(disk)
        is_cut_off = stopped(copy, crash_at(operations), lambda: open_it(copy))  # noqa: B023  now
        yield copy


def open_it(disk: FaultyDisk) -> None:
    open_member(World(), disk, CONFIG)


@pytest.mark.parametrize("make", [with_segments_behind_its_end, with_a_truncation_under_way])
@pytest.mark.parametrize("is_power_lost", [True, False])
def test_what_is_written_after_a_start_that_was_cut_off_anywhere_outlives_a_loss_of_power(
    make: Callable[[], tuple[FaultyDisk, int]], is_power_lost: bool
) -> None:
    disk, end = make()
    for number, copy in enumerate(copies_of(disk)):
        if is_power_lost:
            copy.power_loss(Random(number))
        world = World()
        log = open_member(world, copy, CONFIG)
        assert log.end_position == end
        written = write(world, log, BATCHES)
        for seed in range(LOSSES):
            left = copied(copy)
            left.power_loss(Random(seed))
            assert open_member(World(), left, CONFIG).end_position == written
