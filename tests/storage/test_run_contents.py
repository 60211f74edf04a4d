"""A slave takes no batch that can not be, and nothing behind the end of a segment.

Checksums agree here: what lies is the master, or the disk that it read from.
"""

import pytest
from crc32c import crc32c

from harness.log_world import World, append, open_log, partition_number
from penstock.base.ids import LeaderEpoch, Offset, Position
from penstock.frames.frames import (
    FRAME_HEADER_BYTES,
    KEY,
    KIND_END,
    KIND_LOG_START,
    LOG_START_PAYLOAD,
    WHOLE_SET,
    build_frame,
)
from penstock.frames.run import Run
from penstock.frames.run_check import COVERED_END, Checked, Follows, check_run
from penstock.storage.errors import BadRun
from tests.storage.faulty_disk import FaultyDisk
from tests.storage.replicas import take_run

BASE_OFFSET = slice(FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 8)
BATCH_CRC = slice(FRAME_HEADER_BYTES + 17, COVERED_END)
LAST_OFFSET_DELTA = slice(FRAME_HEADER_BYTES + 23, FRAME_HEADER_BYTES + 27)


@pytest.fixture
def run() -> Run:
    """A run of one batch."""
    world = World()
    log = open_log(world, FaultyDisk())
    behind = log.end_position
    append(log, log.open_partition(partition_number(0)))
    world.run()
    return take_run(world, log, behind)


def changed(run: Run, where: slice, value: int) -> Run:
    """The same with another value in the batch's header, and right checksums."""
    data = bytearray(run.data)
    data[where] = value.to_bytes(where.stop - where.start, "big", signed=True)
    data[BATCH_CRC] = crc32c(data[COVERED_END:]).to_bytes(4, "big")
    data[:4] = crc32c(data[4:COVERED_END]).to_bytes(4, "big")
    return run._replace(data=memoryview(data))


def check(run: Run, expected: int = -1) -> Checked:
    """Check a run of epoch 1; `expected` is the partition's next offset, -1 where any may come."""
    return check_run(
        run,
        Follows(
            LeaderEpoch(1), Position(0), Position(1 << 20), True, lambda _key: Offset(expected)
        ),
    )


@pytest.mark.parametrize("offset", [0, 7, 1 << 40])
def test_a_partition_that_is_not_known_begins_at_any_offset(run, offset):
    assert len(check(changed(run, BASE_OFFSET, offset)).frames) == 1


@pytest.mark.parametrize("offset", [-1, -2, -(1 << 40)])
def test_no_partition_begins_below_offset_zero(run, offset):
    with pytest.raises(BadRun, match=f"offset {offset}, expected"):
        check(changed(run, BASE_OFFSET, offset))


@pytest.mark.parametrize("offset", [-1, 0, 4, 6])
def test_a_partition_that_is_known_goes_on_at_its_end_and_nowhere_else(run, offset):
    assert len(check(changed(run, BASE_OFFSET, 5), 5).frames) == 1
    with pytest.raises(BadRun, match=f"offset {offset}, expected 5"):
        check(changed(run, BASE_OFFSET, offset), 5)


@pytest.mark.parametrize("delta", [-1, -100])
def test_a_batch_does_not_end_before_it_begins(run, delta):
    with pytest.raises(BadRun, match="does not agree with its frame"):
        check(changed(run, LAST_OFFSET_DELTA, delta))


def test_nothing_follows_the_marker_that_ends_a_segment(run):
    end = build_frame(KIND_END, WHOLE_SET, b"", leader_epoch=1, position=100, unflushed=0)
    start = build_frame(
        KIND_LOG_START,
        KEY.pack(0, partition_number(0).topic_id),
        LOG_START_PAYLOAD.pack(0),
        leader_epoch=1,
        position=100 + len(end),
        unflushed=0,
    )
    ended = Run(LeaderEpoch(1), Position(100), Position(0), Position(1 << 16), memoryview(end))
    assert len(check(ended).frames) == 1
    with pytest.raises(BadRun, match="no frame begins here"):
        check(ended._replace(data=memoryview(end + start)))
