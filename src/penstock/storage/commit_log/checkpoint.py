"""Checkpoints: take the log's state at a position and make it a snapshot, off the loop.

    capture on the loop (only partitions that changed) ─► wait until the log is flushed up to it
      ─► off the loop: side file appended and synced, snapshot replaced, old ones removed

A snapshot is written only when the replica set has confirmed its position, so that no truncation
ever has to cut below one; until then the captured state waits. A log that is alone in its set
confirms itself. The snapshot that ends a rebuild can not wait and is marked as not confirmed.

One checkpoint runs at a time. One that fails is abandoned, and the next one begins a new side file.
Only the length of a recovery and the deletion of old segments depend on it.

Source: Kafka's `recovery-point-offset-checkpoint`; here one file for the whole log.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicPartition
from penstock.base.ports import Clock, Disk, DiskFile, Offload
from penstock.frames.claim import EVERYWHERE
from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.commit_log.snapshot import (
    PartitionState,
    Snapshot,
    encode_partition,
    encode_snapshot,
    snapshot_path,
)
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import LogConfig
from penstock.storage.index.aborted import NO_ABORTED, Aborted
from penstock.storage.index.partition_log import Columns, PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.index.sealed_index import Sealed
from penstock.storage.index.side_file import encode_side, side_path
from penstock.storage.index.transactions import LogTransactions

SNAPSHOTS_KEPT = 2
NOWHERE = Position(-1)


CapturedPartition: TypeAlias = tuple[
    TopicPartition,
    int,
    Offset,
    Offset,
    Position,
    int,
    Position,
    int,
    int,
    int,
    tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    Aborted,
]
"""(partition, the numbers of PartitionState from `serial` on, first new index entry, end of the
entries, the columns, the new aborted transactions)"""


class Capture(NamedTuple):
    """The state of the log at one instant, as far as it changed since the last checkpoint."""

    snapshot: Snapshot
    partitions: list[CapturedPartition]
    dropped: list[int]
    is_new_side: bool
    transactions: LogTransactions
    """Listed and sorted off the loop."""


def capture_partition(partition: PartitionLog) -> CapturedPartition:
    """Take one partition's state: a plain tuple, since one loop turn may take ten thousand."""
    bases = partition.bases
    count = len(bases)
    start = partition.side_count
    partition.side_count = count
    aborted = partition.aborted
    if aborted is not NO_ABORTED:
        aborted = aborted.part(partition.aborted_side_count)
        partition.aborted_side_count += len(aborted.last_offsets)
    return (
        partition.topic_partition,
        partition.serial,
        partition.log_start_offset,
        partition.log_end_offset,
        partition.last_end_position,
        partition.size_bytes,
        partition.sized_from,
        partition.max_timestamp,
        start,
        count,
        (bases, partition.positions, partition.sizes, partition.timestamps),
        aborted,
    )


def _state_of(captured: CapturedPartition) -> PartitionState:
    partition, serial, start, end, last_end, size, sized_from, newest = captured[:8]
    return PartitionState(*partition, serial, start, end, last_end, size, sized_from, newest)


def _side_entries(
    partitions: Iterable[CapturedPartition],
) -> Iterator[tuple[TopicPartition, Sealed]]:
    """Yield the entries that each partition has gained since the last checkpoint."""
    for captured in partitions:
        start, count, columns, aborted = captured[8:]
        if count > start:
            gained = Columns(*(column[start:count] for column in columns))
            yield captured[0], Sealed(gained, captured[3], aborted)


class CheckpointFiles:
    """State that `_write` keeps between checkpoints. One work off the loop owns it at a time."""

    __slots__ = ("blobs", "is_abandoned", "side_bytes", "side_file")

    def __init__(self) -> None:
        self.blobs: dict[int, bytes] = {}
        """Each partition's part of a snapshot, by serial: most do not change in between."""
        self.side_file: DiskFile | None = None
        self.side_bytes = 0
        self.is_abandoned = False
        """Set when the log was closed meanwhile and has written a snapshot of its own."""

    def close(self) -> None:
        if self.side_file is not None:
            self.side_file.close()
            self.side_file = None


class Checkpointer:
    """Writes the snapshots of one log. The loop captures; the rest happens in `_write`."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        config: LogConfig,
        store: SegmentStore,
        writer: LogWriter,
        states: ProducerStates,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._config = config
        self._store = store
        self._writer = writer
        self._states = states
        self.epochs: list[tuple[LeaderEpoch, Position]] = []
        self.dropped: list[int] = []
        """Serials of partitions dropped since the last checkpoint."""
        self.last_error: Exception | None = None
        """Why the last checkpoint failed; None when it worked."""
        self.last_position = self.saved_position = Position(0)
        """Position of the newest snapshot on the disk; of the log's start without one."""
        self._is_sole_member = True
        self.confirmed_position = Position(0)
        """The newest confirm position that `note_confirmed` was given."""
        self.every_partition: Callable[[], Iterable[PartitionLog]] = tuple
        self._holds_all = False
        """Whether `_files` holds every partition, so that those that changed are enough."""
        self._files = CheckpointFiles()
        self._side_base = NOWHERE
        self._side_number = 0
        self._kept: list[tuple[str, str]] = []
        """The snapshots that are kept, each with its side file; oldest first."""
        self._captured: Capture | None = None
        self._is_writing = False
        self._wanted = False
        self._is_urgent = False
        self._waiting: list[Callable[[bool], None]] = []
        """Told of the next checkpoint that begins."""
        self._served: list[Callable[[bool], None]] = []
        """Told of the one that is under way."""
        self._not_before_ms = 0

    def start(self, position: Position, side_number: int, *, confirmed: Position) -> None:
        """Begin after recovery, which found a snapshot at `position`."""
        self.last_position = self.saved_position = position
        self.confirmed_position = confirmed
        self._side_number = side_number
        self._limit_claim()

    @property
    def is_sole_member(self) -> bool:
        """Whether the log confirms itself."""
        return self._is_sole_member

    @is_sole_member.setter
    def is_sole_member(self, is_sole: bool) -> None:
        self._is_sole_member = is_sole
        self._limit_claim()

    def _limit_claim(self) -> None:
        limit = EVERYWHERE if self._is_sole_member else self.confirmed_position
        self._writer.claim.limit_to(limit)

    def may_write(self, position: Position) -> bool:
        """Whether a snapshot at `position` can never be truncated away."""
        return self._is_sole_member or position <= self.confirmed_position

    def note_confirmed(self, position: Position) -> bool:
        """Note the confirm position; return whether a captured state was waiting for it."""
        position = min(position, self._writer.end_position)
        self.confirmed_position = max(self.confirmed_position, position)
        if not self._is_sole_member:
            self._limit_claim()
        return self._captured is not None

    def discard(self) -> None:
        """Drop the captured state and its callbacks: the log is being opened anew."""
        self._captured = None
        self._wanted = False
        given_up = [*self._served, *self._waiting] if not self._is_writing else self._waiting
        self._waiting = []
        if not self._is_writing:
            self._served = []
        for then in given_up:
            then(False)

    def request(
        self, then: Callable[[bool], None] | None = None, *, is_urgent: bool = True
    ) -> None:
        """Have a checkpoint of the present state taken; `then(worked)` is called on the loop.

        One that is not urgent waits for checkpoint_interval_ms since the last one.
        """
        self._wanted = True
        self._is_urgent = self._is_urgent or is_urgent
        if then is not None:
            self._waiting.append(then)

    def poll(self, clock: Clock, offload: Offload) -> None:
        """Continue the checkpoint under way, or begin one that is due. Cheap when idle."""
        writer = self._writer
        grown = writer.end_position - self.last_position
        if self._captured is None:
            if not self._wanted and grown < self._config.checkpoint_interval_bytes:
                return
            if self._is_writing or writer.fenced is not None:
                return
            now_ms = clock.monotonic_ms()
            if not self._is_urgent and now_ms < self._not_before_ms:
                return
            self._begin(now_ms)
        captured = self._captured
        if captured is None:
            return
        position = captured.snapshot.position
        if writer.flushed_position < position or not self.may_write(position):
            return
        self._captured = None
        self._is_writing = True
        files = self._files
        offload.submit(lambda: self._write(captured, files), self._written)

    def _begin(self, now_ms: int) -> None:
        writer = self._writer
        writer.write_staged()
        if writer.end_position != writer.written_position:
            return
        self._not_before_ms = now_ms + self._config.checkpoint_interval_ms
        self._wanted = self._is_urgent = False
        self._served, self._waiting = self._waiting, []
        self._captured = self.capture(is_clean=False)
        self.last_position = writer.end_position
        writer.request_sync()

    def capture(self, *, is_clean: bool) -> Capture:
        """Take the state at end_position, which must be written. Reads only what has changed."""
        writer, store = self._writer, self._store
        assert writer.end_position == writer.written_position
        is_new_side = store.active.base != self._side_base or self.last_error is not None
        if is_new_side:
            self._side_base = store.active.base
            self._side_number += 1
            for partition in writer.touched:
                partition.side_count = partition.aborted_side_count = 0
        changed = dict.fromkeys(writer.dirty)
        if is_new_side:
            changed |= dict.fromkeys(writer.touched)
        if not self._holds_all:
            self._holds_all = True
            every = self.every_partition()
            changed |= {p: None for p in every if p.log_end_offset or p.log_start_offset}
        changed = {partition: None for partition in changed if not partition.is_dropped}
        partitions = [capture_partition(partition) for partition in changed]
        for partition in changed:
            partition.is_dirty = False
        dropped, self.dropped = self.dropped, []
        writer.dirty = []
        self._trim_epochs()
        snapshot = Snapshot(
            position=writer.end_position,
            is_clean=is_clean,
            active_base=self._side_base,
            side_number=self._side_number,
            side_bytes=0,
            segments=[s.base for s in store.segments if not s.is_doomed],
            epochs=list(self.epochs),
            partitions=[],
            producers=self._states.all(),
        )
        transactions = self._states.transactions.copy()
        return Capture(snapshot, partitions, dropped, is_new_side, transactions)

    def _trim_epochs(self) -> None:
        """Forget masterships without kept records; the one that covers the log's start stays."""
        first = self._store.segments[0].base
        epochs = self.epochs
        while len(epochs) > 1 and epochs[1][1] <= first:
            del epochs[0]

    def _write(self, captured: Capture, files: CheckpointFiles) -> None:
        """Off the loop: side file first, then the snapshot that refers to it. Raises OSError."""
        for partition in captured.partitions:
            state = _state_of(partition)
            files.blobs[state.serial] = encode_partition(state)
        for serial in captured.dropped:
            files.blobs.pop(serial, None)
        snapshot = captured.snapshot._replace(transactions=captured.transactions.all())
        path = side_path(self._directory, snapshot.active_base, snapshot.side_number)
        side = encode_side(_side_entries(captured.partitions))
        if captured.is_new_side:
            files.close()
            files.side_file = self._disk.open(path, create=True)
            files.side_file.truncate(0)
            files.side_bytes = 0
            self._disk.sync_directory(f"{self._directory}/index")
        name = snapshot_path(self._directory, snapshot.position)
        try:
            self._put(snapshot, side, name, files)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # On a full disk dead segments could never be deleted without a new snapshot: removing
            # the older snapshot makes room, and so do side files, which the log can rebuild.
            self._remove_snapshots(keep=1)
            self._remove_sides(snapshot.side_number, set())
            self._put(snapshot, side, name, files)
        if not files.is_abandoned:
            self.saved_position = snapshot.position
            files.side_bytes += len(side)
            self._remove_old(name, path, snapshot.side_number)

    def _put(self, snapshot: Snapshot, side: bytes, name: str, files: CheckpointFiles) -> None:
        """Write and sync the side file, then the snapshot. Can be repeated. Raises OSError."""
        if side:
            assert files.side_file is not None
            files.side_file.write(files.side_bytes, [side])
            files.side_file.sync()
        snapshot = snapshot._replace(side_bytes=files.side_bytes + len(side))
        data = encode_snapshot(snapshot, list(files.blobs.values()))
        if not files.is_abandoned:
            self._disk.replace(name, data)

    def _remove_snapshots(self, *, keep: int) -> None:
        disk, directory = self._disk, self._directory
        names = [n for n in disk.list(f"{directory}/snapshot") if n.endswith(".snap")]
        for old in names[:-keep]:
            disk.remove(f"{directory}/snapshot/{old}")

    def _remove_old(self, name: str, side: str, side_number: int) -> None:
        """Keep the newest two snapshots and the side files that they refer to."""
        self._kept = [*(kept for kept in self._kept if kept[0] != name), (name, side)]
        self._kept = self._kept[-SNAPSHOTS_KEPT:]
        self._remove_snapshots(keep=SNAPSHOTS_KEPT)
        self._remove_sides(side_number, {kept[1] for kept in self._kept})

    def _remove_sides(self, side_number: int, kept: set[str]) -> None:
        """Remove side files older than `side_number`: a younger one belongs to a log reopened."""
        disk, directory = self._disk, self._directory
        for name in disk.list(f"{directory}/index"):
            path = f"{directory}/index/{name}"
            if name.endswith(".side") and int(name[21:-5]) < side_number and path not in kept:
                disk.remove(path)

    def _written(self, _: None, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None and not isinstance(error, OSError):
            raise error
        self.last_error = error
        served, self._served = self._served, []
        for then in served:
            then(error is None)
        self._writer.on_turn()

    def write_now(self, *, is_clean: bool) -> None:
        """Write a snapshot of everything, waiting for it; for open and clean close.

        A checkpoint that is under way off the loop is not disturbed: this one has its own files.
        Raises OSError.
        """
        if self._is_writing or self._captured is not None:
            self._give_up()
        self._holds_all = False
        captured = self.capture(is_clean=is_clean)
        is_confirmed = self.may_write(captured.snapshot.position)
        snapshot = captured.snapshot._replace(is_confirmed=is_confirmed)
        self._write(captured._replace(snapshot=snapshot), self._files)
        self.last_position = captured.snapshot.position
        self.last_error = None

    def _give_up(self) -> None:
        """Begin new files: what the failed checkpoint captured may not be in the old ones."""
        if self._is_writing:
            self._files.is_abandoned = True
        else:
            self._files.close()
        self._files = CheckpointFiles()
        self._captured = None
        self._side_base = NOWHERE

    def close(self) -> None:
        """Close the side file, unless work off the loop still uses it."""
        if not self._is_writing:
            self._files.close()
