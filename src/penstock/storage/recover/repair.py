"""Cutting a damaged, closed log below the damage, so that the rest can be copied from a master.

    damage found at X ─► first bad frame Y <= X of its segment ─► how is the state at Y known?
         a snapshot at or below Y, of which     cut at Y, recover from it          (truncate)
         retention has taken no segment since
         a log that is whole from position 0    cut at Y, read its frames again    (rebuild)
         neither                                begin empty, copy a base           (reset)

Only for a member whose log does not count in its set, since it discards bytes that another member
has; replica/mending.py decides when it may be called. The plan is a pending change, which the next
start completes. If that start finds other damage at a lower position, the log is cut again.

Source: ADR 0020. All of it waits for the disk.
"""

from penstock.base.ids import Position
from penstock.base.ports import Disk
from penstock.storage.commit_log.pending_change import ChangeKind, PendingChange, write_change
from penstock.storage.commit_log.segments import Segment, list_segments
from penstock.storage.commit_log.snapshot import Snapshot, encode_snapshot
from penstock.storage.commit_log.truncation import is_all_there, plan_reset, read_snapshots
from penstock.storage.config import LogConfig
from penstock.storage.recover.scan import SegmentScan

NOTHING_KEPT = Position(-1)
"""A position of damage that leaves nothing of the log."""


def cut_below_damage(disk: Disk, directory: str, position: Position, config: LogConfig) -> Position:
    """Write a pending change, so that the next start cuts the log below the damage.

    Returns the position at which the log will end. Raises OSError.
    """
    change = plan_repair(disk, directory, position, config.segment_bytes)
    disk.make_directory(directory)
    write_change(disk, directory, change)
    return change.position


def plan_repair(
    disk: Disk, directory: str, position: Position, segment_bytes: int
) -> PendingChange:
    """Return the change that removes the damage at `position` and everything behind it.

    `segment_bytes` is the size of the first segment if nothing is kept.
    """
    segments = list_segments(disk, directory)
    below = [segment for segment in segments if segment.base <= position]
    if not below:
        return plan_reset(Position(0), Position(segment_bytes))
    last = below[-1]
    cut = _last_good_end(disk, last, position)
    usable = [snapshot for snapshot in read_snapshots(disk, directory) if snapshot.position <= cut]
    are_below = all(one.active_base <= last.base for one in usable)
    bounds = [(segment.base, segment.end) for segment in segments]
    if usable and are_below and is_all_there(usable[0], bounds):
        return PendingChange(ChangeKind.TRUNCATE, cut, last.base, _end_of(last, segments))
    if _is_whole(below):
        nothing_else = Snapshot(cut, False, cut, 0, 0, [], [], [], {})
        payload = encode_snapshot(nothing_else, [])
        return PendingChange(ChangeKind.REBUILD, cut, last.base, _end_of(last, segments), payload)
    return plan_reset(Position(0), Position(segment_bytes))


def _last_good_end(disk: Disk, segment: Segment, position: Position) -> Position:
    """Return the end of the last good frame of a segment that ends at or below `position`."""
    file = disk.open(segment.path)
    try:
        scan = SegmentScan(file, segment.base, segment.base, segment.end)
        good = segment.base
        for _ in scan:
            if scan.position > position:
                break
            good = scan.position
        return good
    finally:
        file.close()


def _end_of(last: Segment, segments: list[Segment]) -> Position:
    """Return where the segment's file must end; a file that lost bytes ends too early."""
    behind = [segment.base for segment in segments if segment.base > last.base]
    return min(behind, default=last.end)


def _is_whole(segments: list[Segment]) -> bool:
    """Whether the segments follow one another from position 0 on."""
    reached = 0
    for segment in segments:
        if segment.base != reached:
            return False
        reached = segment.end
    return True
