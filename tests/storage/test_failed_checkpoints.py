"""What a checkpoint took that was not written is in the next one, and in the log that is read."""

import errno
from typing import Any

import pytest

from harness.log_world import World, append, make_batch, open_log, partition_number, read_all
from penstock.base.ids import CoordinatorEpoch, Offset, ProducerEpoch, ProducerId
from penstock.record.batch import TRANSACTIONAL, read_header
from penstock.storage.config import LogConfig
from penstock.storage.index.transactions import TransactionEnd
from tests.storage.faulty_disk import FaultyDisk

CONFIG = LogConfig(
    segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, checkpoint_interval_ms=0,
    reserve_bytes=0,
)  # fmt: skip


def _aborted(world: World, log: Any, partition: Any, producer_id: int) -> None:
    """Append a transaction of one batch, and abort it."""
    batch = make_batch(size=300, producer=(producer_id, 0, 0), attributes=TRANSACTIONAL)
    log.append(partition, batch, read_header(batch))
    world.run()
    end = TransactionEnd(
        ProducerId(producer_id), ProducerEpoch(0), CoordinatorEpoch(1), is_commit=False
    )
    log.transactions.append_marker(partition, end)
    world.run()


def _checkpoint(world: World, log: Any) -> bool:
    worked: list[bool] = []
    log.checkpoint(worked.append)
    world.run()
    return worked[0]


@pytest.mark.parametrize("failing", [("write", ".side"), ("replace", ".snap")])
def test_a_checkpoint_after_one_that_failed_has_everything_since_the_last_that_worked(
    failing: tuple[str, str],
) -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    _aborted(world, log, partition, 7)
    assert _checkpoint(world, log)
    for number in range(3):
        append(log, partition, size=300, fill=number)
    _aborted(world, log, partition, 8)
    disk.fail(*failing, errno.EIO)
    assert not _checkpoint(world, log)
    disk.faults.clear()
    _aborted(world, log, partition, 9)
    assert _checkpoint(world, log)
    world = World()
    again = open_log(world, disk, CONFIG)
    assert again.recovery.replayed_bytes == 0, "all of it is in the checkpoint"
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == found.log_end_offset == log_end(log)
    told: list[Any] = []
    again.transactions.find_aborted(
        found, Offset(0), found.log_end_offset, lambda *one: told.append(one)
    )
    world.run()
    ((aborted, error),) = told
    assert error is None
    assert sorted(producer_id for producer_id, _ in aborted) == [7, 8, 9]


def log_end(log: Any) -> int:
    return int(log.open_partition(partition_number(0)).log_end_offset)


def test_a_log_that_is_closed_while_a_checkpoint_waits_leaves_everything_behind() -> None:
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    for number in range(3):
        append(log, partition, size=300, fill=number)
    world.run()
    assert _checkpoint(world, log)
    for number in range(3):
        append(log, partition, size=300, fill=number)
    log.is_sole_member = False
    log.checkpoint()
    world.run()  # the state is taken, and waits until its set confirms it
    for number in range(3):
        append(log, partition, size=300, fill=number)
    world.run()
    log.is_sole_member = True
    log.close()
    world = World()
    again = open_log(world, disk, CONFIG)
    assert again.recovery.was_clean
    found = again.open_partition(partition_number(0))
    assert len(read_all(world, again, found)) == found.log_end_offset == 9
