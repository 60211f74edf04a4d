"""Describing the frames of a log one by one: `penstock log dump`. Only reads.

Source: Kafka's `kafka-dump-log`; the byte tables are in docs/formats/commit-log.md.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.base.ids import NO_LEADER_EPOCH, Position, ProducerEpoch, ProducerId
from penstock.base.ports import Disk, DiskFile
from penstock.frames.frames import (
    KIND_BATCH,
    KIND_EPOCH,
    KIND_LOG_START,
    KIND_NAMES,
    LOG_START_PAYLOAD,
    FrameHeader,
)
from penstock.record.batch import BatchHeader, read_header
from penstock.storage.commit_log.segments import Segment, list_segments
from penstock.storage.commit_log.truncation import read_snapshots
from penstock.storage.errors import CorruptLog
from penstock.storage.recover.scan import SegmentScan, find_good_frames


class FrameDescription(NamedTuple):
    """One frame as text and numbers; fields that its kind does not have are -1."""

    position: int
    frame_bytes: int
    kind: str
    leader_epoch: int
    topic_id: str
    """32 hexadecimal digits; empty for frames of the whole set."""
    partition: int
    base_offset: int
    """Base offset of a batch; the new log start offset of a log start frame."""
    last_offset: int
    record_count: int
    max_timestamp: int
    codec: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


_NOBODY = ProducerId(-1), ProducerEpoch(-1)
NO_BATCH = BatchHeader(-1, -1, NO_LEADER_EPOCH, -1, -1, 0, -1, -1, -1, *_NOBODY, -1, -1)


def dump_frames(
    disk: Disk, directory: str, *, from_position: int = 0
) -> Iterator[FrameDescription]:
    """Yield the valid frames at or above `from_position`, in order; stops at the log's end.

    `from_position` need not be the start of a frame.

    Raises:
        CorruptLog: the frames end at damage and not at the log's end: there is more of the log
            behind it, or a snapshot shows that there was more. OSError.
    """
    segments = list_segments(disk, directory)
    for at, segment in enumerate(segments):
        if segment.end <= from_position:
            continue
        file = disk.open(segment.path)
        try:
            scan = SegmentScan(file, segment.base, segment.base, segment.end)
            for header, payload in scan:
                if header.position >= from_position:
                    yield _describe(header, payload)
            if scan.error is not None:
                if _goes_on(disk, directory, file, scan.position, segments[at:]):
                    raise CorruptLog(directory, scan.position, scan.error.reason)
                return
        finally:
            file.close()


def _goes_on(
    disk: Disk, directory: str, file: DiskFile, position: Position, segments: list[Segment]
) -> bool:
    """Whether the log has frames behind `position`, in the first of these segments or later."""
    first, *later = segments
    if any(snapshot.position > position for snapshot in read_snapshots(disk, directory)):
        return True
    if next(find_good_frames(file, first.base, position, first.end), None) is not None:
        return True
    return any(_has_frames(disk, segment) for segment in later)


def _has_frames(disk: Disk, segment: Segment) -> bool:
    """Whether a segment has frames; one that is allocated ahead has none."""
    file = disk.open(segment.path)
    try:
        scan = SegmentScan(file, segment.base, segment.base, segment.end)
        return next(iter(scan), None) is not None
    finally:
        file.close()


def _describe(frame: FrameHeader, payload: memoryview) -> FrameDescription:
    batch = NO_BATCH
    base_offset = last_offset = -1
    if frame.kind == KIND_BATCH:
        batch = read_header(payload)
        base_offset, last_offset = batch.base_offset, batch.last_offset
    elif frame.kind == KIND_LOG_START:
        (base_offset,) = LOG_START_PAYLOAD.unpack(payload)
    is_set_frame = frame.kind == KIND_EPOCH
    return FrameDescription(
        position=frame.position,
        frame_bytes=frame.frame_bytes,
        kind=KIND_NAMES[frame.kind],
        leader_epoch=frame.leader_epoch,
        topic_id="" if is_set_frame else frame.topic_id.hex(),
        partition=frame.partition,
        base_offset=base_offset,
        last_offset=last_offset,
        record_count=batch.record_count,
        max_timestamp=batch.max_timestamp,
        codec=batch.codec if frame.kind == KIND_BATCH else -1,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
