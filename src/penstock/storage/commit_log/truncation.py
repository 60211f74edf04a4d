"""Planning the truncation of a log: what must be read before the tail is removed.

    snapshot at or below the cut,   yes: cut, recover from it   (always after a clean election)
    with all of its segments?
                                    no: rebuild from the first segment, helped by seeds

Seeds are the state of partitions that have no batches below the cut, since retention has deleted
them. If a partition's last batch lay below the cut, the newest snapshot has its end offset;
otherwise the first batch above the cut tells it. Both are read before anything is removed.

Source: KIP-101 for why a log is cut at all; the rebuild is ours. All of it waits for the disk.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from penstock.base.ids import Offset, Position, TopicPartition
from penstock.base.invariant import invariant
from penstock.base.ports import Disk
from penstock.storage.commit_log.pending_change import ChangeKind, PendingChange
from penstock.storage.commit_log.segments import segment_path
from penstock.storage.commit_log.snapshot import (
    PartitionState,
    Snapshot,
    decode_snapshot,
    encode_partition,
    encode_snapshot,
    snapshot_path,
)
from penstock.storage.errors import CorruptFile
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import ProducerKey, ProducerState, ProducerStates
from penstock.storage.index.rebuild import scan_columns
from penstock.storage.index.transactions import OPEN, Undecided
from penstock.storage.stores.older import OlderStores

SegmentBounds = tuple[Position, Position]
"""(base, end)"""


def plan_reset(segment_base: Position, segment_end: Position) -> PendingChange:
    """Return the change that leaves only one empty segment."""
    return PendingChange(ChangeKind.RESET, segment_base, segment_base, segment_end)


def plan_truncation(
    disk: Disk,
    directory: str,
    segments: Sequence[SegmentBounds],
    position: Position,
    *,
    last: SegmentBounds | None = None,
) -> PendingChange:
    """Return the change that removes everything from `position` on.

    `segments` are all of the log's, oldest first. `last` are the bounds of the segment that becomes
    the newest one; without it, that is the segment that holds the position.
    """
    base, end = last or [bounds for bounds in segments if bounds[0] <= position][-1]
    invariant(base <= position <= end, "a log is cut in its newest segment", at=position, base=base)
    snapshots = list(read_snapshots(disk, directory))
    usable = [snapshot for snapshot in snapshots if snapshot.position <= position]
    are_below = all(snapshot.active_base <= base for snapshot in usable)
    if usable and are_below and is_all_there(usable[0], segments):
        return PendingChange(ChangeKind.TRUNCATE, position, base, end)
    payload = b""
    if snapshots:
        seeds = _seeds(disk, directory, snapshots[0], segments, position)
        payload = encode_snapshot(seeds, [encode_partition(state) for state in seeds.partitions])
    else:
        payload = encode_snapshot(_no_seeds(position), [])
    return PendingChange(ChangeKind.REBUILD, position, base, end, payload)


def is_all_there(snapshot: Snapshot, segments: Sequence[SegmentBounds]) -> bool:
    """Whether all segments exist that the snapshot refers to: retention may have deleted some."""
    there = {base for base, _ in segments}
    return all(base in there for base in snapshot.segments if base < snapshot.position)


def read_snapshots(disk: Disk, directory: str) -> Iterator[Snapshot]:
    """Yield the snapshots that can be read, the newest first."""
    names = [name for name in disk.list(f"{directory}/snapshot") if name.endswith(".snap")]
    for name in reversed(names):
        path = snapshot_path(directory, Position(int(name[:20])))
        with suppress(CorruptFile, FileNotFoundError):
            yield decode_snapshot(path, read_whole(disk, path))


def read_whole(disk: Disk, path: str) -> memoryview:
    """Return all bytes of a file."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def _no_seeds(position: Position) -> Snapshot:
    return Snapshot(position, False, position, 0, 0, [], [], [], {})


def _seeds(
    disk: Disk,
    directory: str,
    newest: Snapshot,
    segments: Sequence[SegmentBounds],
    position: Position,
) -> Snapshot:
    """Return the part of the newest snapshot that is still true when the log ends at `position`."""
    wanted = {
        state.topic_partition for state in newest.partitions if state.last_end_position > position
    }
    firsts = _first_offsets(disk, directory, segments, position, wanted)
    first_base = Position(max(segments[0][0], 1))
    partitions: list[PartitionState] = []
    for state in newest.partitions:
        if state.last_end_position <= position:
            partitions.append(state)
        elif firsts.get(state.topic_partition, 0) > 0:
            end = firsts[state.topic_partition]
            start = min(state.log_start_offset, end)
            last_end = min(first_base, position)
            partitions.append(
                state._replace(
                    log_start_offset=start, log_end_offset=end, last_end_position=last_end
                )
            )
    ends = {state.serial: state.log_end_offset for state in partitions}
    return _no_seeds(position)._replace(
        partitions=partitions,
        producers=dict(_producers_below(newest, ends)),
        transactions=list(_undecided_below(newest, segments[0][0], position)),
    )


def _first_offsets(
    disk: Disk,
    directory: str,
    segments: Sequence[SegmentBounds],
    position: Position,
    wanted: set[TopicPartition],
) -> dict[TopicPartition, Offset]:
    """Return the first offset at or above `position` of each wanted partition."""
    found: dict[TopicPartition, Offset] = {}
    if _is_whole_below(segments, position):
        return found  # a partition without a batch below the position begins behind it
    for base, end in segments:
        if end <= position or len(found) == len(wanted):
            continue
        file = disk.open(segment_path(directory, base))
        try:
            parts, _ = scan_columns(file, base, max(base, position), end)
        finally:
            file.close()
        for topic_partition, sealed in parts.items():
            if topic_partition in wanted:
                found.setdefault(topic_partition, Offset(sealed.columns.bases[0]))
    return found


def _is_whole_below(segments: Sequence[SegmentBounds], position: Position) -> bool:
    """Whether no segment below `position` was ever deleted."""
    reached = 0
    for base, end in segments:
        if base != reached or base >= position:
            break
        reached = end
    return reached >= position


def _producers_below(
    newest: Snapshot, ends: dict[int, Offset]
) -> Iterator[tuple[ProducerKey, ProducerState]]:
    """Yield the producers' states without the batches that are cut off."""
    for key, (epoch, last_ms, window, coordinator_epoch) in newest.producers.items():
        kept = tuple(span for span in window if span[2] < ends.get(key[0], 0))
        if kept:
            yield key, (epoch, last_ms, kept, coordinator_epoch)


def _undecided_below(newest: Snapshot, start: Position, position: Position) -> Iterator[Undecided]:
    """Yield the transactions that began before the first segment; the segments have the others.

    A marker that is cut off opens its transaction again.
    """
    for one in newest.transactions:
        if one.first_position < start:
            yield one._replace(marker_end=OPEN) if one.marker_end > position else one


def add_seeds(
    partitions: dict[TopicPartition, PartitionLog],
    seeds: Snapshot,
    states: ProducerStates,
    next_serial: int,
    older: OlderStores,
) -> int:
    """Add to `partitions`, which were built from the segments, the state that only seeds have.

    The segments tell of the commit log alone: a partition goes on to begin where the `older` stores
    have it. New ones get serials from `next_serial` on; returns the next free one.
    """
    serials: dict[int, int] = {}
    for state in seeds.partitions:
        partition = partitions.get(state.topic_partition)
        if partition is None:
            partition = PartitionLog(state.topic_partition, next_serial, states)
            next_serial += 1
            partition.begin_at(state.log_end_offset)
            partition.last_end_position = state.last_end_position
            partitions[state.topic_partition] = partition
        partition.raise_log_start(min(state.log_start_offset, partition.log_end_offset))
        partition.reach_back(max(state.log_start_offset, older.start_offset(partition)))
        partition.max_timestamp = max(partition.max_timestamp, state.max_timestamp)
        serials[state.serial] = partition.serial
    for (serial, producer_id), producer in seeds.producers.items():
        if serial in serials:
            states.entries.setdefault((serials[serial], producer_id), producer)
    states.transactions.add_older(
        one._replace(serial=serials[one.serial])
        for one in seeds.transactions
        if one.serial in serials
    )
    return next_serial
