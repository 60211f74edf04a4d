"""Which partitions keep which segment, read from a log's files: `penstock log pins`. Only reads.

The log starts come from the newest snapshot and the frames behind it. What an extent file has too
keeps no segment: a node releases it in its next retention pass. While a node is running, log
starts that retention has raised since the last snapshot are not included, and files that are
deleted or made meanwhile are left out.

Source: ours; pins.py describes the report.
"""

from typing import NamedTuple

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import Disk
from penstock.inspection.dump import dump_frames
from penstock.storage.commit_log.pins import Pin, PinCollector, PinReport
from penstock.storage.commit_log.segments import Segment, index_path, list_segments
from penstock.storage.commit_log.snapshot import Snapshot, decode_snapshot
from penstock.storage.errors import CorruptFile
from penstock.storage.index.rebuild import scan_columns
from penstock.storage.index.sealed_index import read_directory, read_index_header
from penstock.storage.second_level.files import load_directory, read_manifest
from penstock.storage.second_level.held import HeldExtents
from penstock.storage.second_level.manifest import Cut
from penstock.storage.second_level.reading import ExtentPlace


class SecondLevelReport(NamedTuple):
    """What the extent files of a log have."""

    files: int
    size_bytes: int
    needed_bytes: int
    """Of them, what some partition needs; the rest is freed when files are shrunk, or go."""
    partitions: int
    extents: int


class MovedBytes(NamedTuple):
    """What one partition needs of the extent files of a log."""

    files: int
    extents: int
    batch_bytes: int


class LogPins(NamedTuple):
    """What keeps the segments of one log, and what lies behind them."""

    pins: PinReport
    second_level: SecondLevelReport
    moved: dict[TopicPartition, MovedBytes]
    """Those that need most, first."""


def read_pins(disk: Disk, directory: str) -> LogPins:
    """Return the pins of each segment of the log in `directory`. Raises OSError."""
    snapshot = _newest_snapshot(disk, directory)
    starts, end = _log_starts(disk, directory, snapshot)
    held, sizes = _held_extents(disk, directory)
    moved = _moved_bytes(held, starts)
    _skip_held(starts, held)
    used = [segment for segment in list_segments(disk, directory) if segment.base < max(end, 1)]
    collector = PinCollector(1)
    for segment in used[:-1]:
        try:
            ends = _end_offsets(disk, directory, segment)
        except FileNotFoundError:
            continue
        for partition, end_offset in ends.items():
            if starts.get(partition, end_offset) < end_offset:
                collector.pin(partition, is_movable=False)
        collector.end_segment(segment.base, segment.end - segment.base)
    for segment in used[-1:]:
        collector.add(segment.base, segment.end - segment.base, Pin.ACTIVE)
    second_level = SecondLevelReport(
        *(len(sizes), sum(sizes), held.files.held_bytes, len(moved)),
        sum(one.extents for one in moved.values()),
    )
    return LogPins(collector.report(), second_level, moved)


def _held_extents(disk: Disk, directory: str) -> tuple[HeldExtents, list[int]]:
    """Return the extents, by the directories of their files, and the sizes of the files.

    Raises ExtentError, CorruptFile, OSError.
    """
    place = ExtentPlace(disk, directory)
    manifest = read_manifest(place)
    held = HeldExtents()
    for step in manifest.steps():
        if isinstance(step, Cut):
            held.cut(step.topic_partition, step.end_offset)
        else:
            held.add(step.number, load_directory(place, step.number).data)
    return held, [file.size_bytes for file in manifest.files]


def _moved_bytes(
    held: HeldExtents, starts: dict[TopicPartition, int]
) -> dict[TopicPartition, MovedBytes]:
    """Drop extents that no partition needs, and return what is left of each partition."""
    found = {}
    for partition in held.partitions():
        held.drop_before(partition, starts.get(partition))
        if extents := list(held.of(partition)):
            files = len({one.file_number for one in extents})
            size = sum(one.batch_bytes for one in extents)
            found[partition] = MovedBytes(files, len(extents), size)
    return dict(sorted(found.items(), key=lambda item: (-item[1].batch_bytes, item[0])))


def _skip_held(starts: dict[TopicPartition, int], held: HeldExtents) -> None:
    """Let the log start of each partition be where the extents end that follow it."""
    for partition, start in starts.items():
        extents = held.held(partition)
        if extents is not None and extents.start_offset <= start < extents.end_offset:
            starts[partition] = extents.end_offset


def _newest_snapshot(disk: Disk, directory: str) -> Snapshot | None:
    newest: Snapshot | None = None
    for name in sorted(disk.list(f"{directory}/snapshot")):
        path = f"{directory}/snapshot/{name}"
        try:
            file = disk.open(path)
        except FileNotFoundError:
            continue
        try:
            newest = decode_snapshot(path, file.read(0, file.size()))
        except CorruptFile:
            continue
        finally:
            file.close()
    return newest


def _log_starts(
    disk: Disk, directory: str, snapshot: Snapshot | None
) -> tuple[dict[TopicPartition, int], int]:
    """Return the log start of each existing partition, and the end of the log."""
    starts: dict[TopicPartition, int] = {}
    end = 0
    if snapshot is not None:
        starts = {each.topic_partition: each.log_start_offset for each in snapshot.partitions}
        end = snapshot.position
    for frame in dump_frames(disk, directory, from_position=end):
        end = frame.position + frame.frame_bytes
        if not frame.topic_id:
            continue
        partition = TopicPartition(TopicId(bytes.fromhex(frame.topic_id)), frame.partition)
        if frame.kind == "log-start-offset":
            starts[partition] = frame.base_offset
        else:
            starts.setdefault(partition, 0)
    return starts, end


def _end_offsets(disk: Disk, directory: str, segment: Segment) -> dict[TopicPartition, int]:
    """Return the end offset of each partition in a closed segment, by its index or its frames."""
    path = index_path(directory, segment.base)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return _scanned_end_offsets(disk, segment)
    try:
        header = read_index_header(path, segment.base, file.read)
        entries = read_directory(path, header, file.read)
    except CorruptFile:
        return _scanned_end_offsets(disk, segment)
    finally:
        file.close()
    return {entry.topic_partition: entry.end_offset for entry in entries}


def _scanned_end_offsets(disk: Disk, segment: Segment) -> dict[TopicPartition, int]:
    file = disk.open(segment.path)
    try:
        parts, _ = scan_columns(file, segment.base, segment.base, segment.end)
    finally:
        file.close()
    return {partition: sealed.end_offset for partition, sealed in parts.items()}
