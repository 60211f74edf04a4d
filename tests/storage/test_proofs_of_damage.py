"""Damage in durable records is told from a torn end by either of two proofs alone.

The claims of frames behind it, and the note of the last sync: a power cut may take the note, and
behind the last record there is no frame.
"""

import pytest

from harness.log_world import DIRECTORY, World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch
from penstock.frames.frames import (
    EPOCH_PAYLOAD,
    FRAME_HEADER_BYTES,
    KIND_EPOCH,
    WHOLE_SET,
    build_frame,
)
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptLog
from penstock.storage.recover.scan import WINDOW_BYTES
from tests.storage.faulty_disk import FaultyDisk

CONFIG = LogConfig(segment_bytes=1 << 20, checkpoint_interval_bytes=1 << 30, reserve_bytes=0)
LARGE = LogConfig(segment_bytes=4 << 20, checkpoint_interval_bytes=1 << 30, reserve_bytes=0)
NOTE = f"{DIRECTORY}/durable"


def damaged(at_record: int, *, has_note: bool) -> FaultyDisk:
    """Damage one of three records, each of which was synced before the next one was appended."""
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    partition = log.open_partition(partition_number(0))
    starts = []
    for number in range(3):
        starts.append(log.end_position)
        append(log, partition, size=200, fill=number)
        world.run()
    disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", starts[at_record] + 100)
    if not has_note:
        disk.remove(NOTE)
    return disk


def reopen(disk: FaultyDisk) -> int:
    log = open_log(World(), disk, CONFIG)
    return log.open_partition(partition_number(0)).log_end_offset


@pytest.mark.parametrize("at_record", [0, 1])
def test_a_later_records_claim_is_proof_without_the_note(at_record):
    with pytest.raises(CorruptLog):
        reopen(damaged(at_record, has_note=False))


def test_the_note_is_proof_where_no_record_follows():
    with pytest.raises(CorruptLog):
        reopen(damaged(2, has_note=True))


def test_without_either_the_last_record_counts_as_torn():
    assert reopen(damaged(2, has_note=False)) == 2


@pytest.mark.parametrize("before_edge", [0, 1, 20, FRAME_HEADER_BYTES - 1, FRAME_HEADER_BYTES])
def test_a_claim_is_found_wherever_it_lies_behind_a_large_damaged_record(before_edge):
    # Behind damage, frames are looked for in windows: one may begin in one and end in the next.
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, LARGE)
    partition = log.open_partition(partition_number(0))
    world.run()
    start = log.end_position
    append(log, partition, size=WINDOW_BYTES - before_edge - FRAME_HEADER_BYTES)
    world.run()
    assert log.end_position == start + WINDOW_BYTES - before_edge
    append(log, partition, size=200)
    world.run()
    disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", start + 100)
    disk.remove(NOTE)
    with pytest.raises(CorruptLog):
        open_log(World(), disk, LARGE)


def test_a_frame_of_an_older_mastership_behind_a_newer_one_is_no_part_of_the_log():
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, CONFIG)
    log.begin_epoch(LeaderEpoch(5))
    world.run()
    end = log.end_position
    payload = EPOCH_PAYLOAD.pack(3, end)
    frame = build_frame(KIND_EPOCH, WHOLE_SET, payload, leader_epoch=3, position=end, unflushed=end)
    file = disk.open(f"{DIRECTORY}/log/{0:020d}.log")
    file.write(end, [frame])
    file.sync()
    with pytest.raises(CorruptLog, match="leader epoch went back"):
        reopen(disk)


def test_a_closed_segment_that_is_damaged_and_has_no_index_is_damage_of_the_log():
    """It is told apart from a failure of the process: the log is repaired from a peer, or kept."""
    config = LogConfig(segment_bytes=65_536, large_batch_bytes=16_384, reserve_bytes=0)
    world, disk = World(), FaultyDisk()
    log = open_log(world, disk, config)
    partition = log.open_partition(partition_number(0))
    world.run()
    for number in range(60):
        append(log, partition, size=1500, fill=number)
        world.run()
    log.close()
    disk.remove(f"{DIRECTORY}/index/{0:020d}.idx")
    disk.flip_bit(f"{DIRECTORY}/log/{0:020d}.log", 3000)
    with pytest.raises(CorruptLog):
        reopen(disk)
