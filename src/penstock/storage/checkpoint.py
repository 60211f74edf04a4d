"""Checkpoints: take the log's state at a position and make it a snapshot, off the loop.

    capture on the loop (only partitions that changed) ─► wait until the log is flushed up to it
      ─► off the loop: side file appended and synced, snapshot replaced, old ones removed

One at a time. A checkpoint that fails is given up: the next one begins a new side file. Nothing
but the length of a recovery, and the deleting of old segments, depends on it.

Source: Kafka's `recovery-point-offset-checkpoint`; here one file for the whole log.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.base.ports import Clock, Disk, DiskFile, Offload
from penstock.storage.config import LogConfig
from penstock.storage.partition_log import Columns, PartitionLog
from penstock.storage.producers import ProducerStates
from penstock.storage.sealed_index import Sealed
from penstock.storage.segments import SegmentStore
from penstock.storage.side_file import encode_side, side_path
from penstock.storage.snapshot import (
    PartitionState,
    Snapshot,
    encode_partition,
    encode_snapshot,
    snapshot_path,
)
from penstock.storage.writer import LogWriter

SNAPSHOTS_KEPT = 2


class Capture(NamedTuple):
    """The state of the log at one instant, as far as it changed since the last checkpoint."""

    snapshot: Snapshot
    states: list[PartitionState]
    dropped: list[int]
    side: list[tuple[TopicPartition, Columns, int, int, int]]
    """(partition, its columns, first new entry, end of entries, end offset)"""
    is_new_side: bool


def state_of(partition: PartitionLog) -> PartitionState:
    """Return what a snapshot keeps of `partition`."""
    topic_id, number = partition.topic_partition
    return PartitionState(
        topic_id,
        number,
        partition.serial,
        partition.log_start_offset,
        partition.log_end_offset,
        partition.last_end_position,
        partition.size_bytes,
        partition.sized_from,
        partition.max_timestamp,
    )


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
        self.epochs: list[tuple[int, int]] = []
        self.dropped: list[int] = []
        """Serials of partitions dropped since the last checkpoint."""
        self.last_error: Exception | None = None
        """Why the last checkpoint failed; None when it worked."""
        self.last_position = 0
        self._blobs: dict[int, bytes] = {}
        self._side_file: DiskFile | None = None
        self._side_base = -1
        self._side_generation = 0
        self._side_bytes = 0
        self._kept: list[tuple[str, str]] = []
        self._captured: Capture | None = None
        self._is_writing = False
        self._wanted = False
        self._is_urgent = False
        self._waiting: list[Callable[[bool], None]] = []
        self._served: list[Callable[[bool], None]] = []
        self._not_before_ms = 0

    def start(self, position: int, side_generation: int) -> None:
        """Begin after recovery, which found or wrote a snapshot at `position`."""
        self.last_position = position
        self._side_generation = side_generation

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
        """Go on with the checkpoint under way, or begin one that is due. Cheap when idle."""
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
        if captured is None or writer.flushed_position < captured.snapshot.position:
            return
        self._captured = None
        self._is_writing = True
        offload.submit(lambda: self._write(captured), self._written)

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
        """Take the state at end_position, which must be written. Only what changed is touched."""
        writer, store = self._writer, self._store
        assert writer.end_position == writer.written_position
        is_new_side = store.active.base != self._side_base or self.last_error is not None
        if is_new_side:
            self._side_base = store.active.base
            self._side_generation += 1
            self._side_bytes = 0
            for partition in writer.touched:
                partition.side_count = 0
        changed = list(dict.fromkeys(writer.dirty))
        with_entries = writer.touched if is_new_side else changed
        side = []
        for partition in with_entries:
            count = len(partition.bases)
            if count > partition.side_count:
                entries = (partition.side_count, count, partition.log_end_offset)
                side.append((partition.topic_partition, partition.columns, *entries))
                partition.side_count = count
        for partition in changed:
            partition.is_dirty = False
        dropped, self.dropped = self.dropped, []
        writer.dirty = []
        snapshot = Snapshot(
            position=writer.end_position,
            is_clean=is_clean,
            active_base=self._side_base,
            side_generation=self._side_generation,
            side_bytes=self._side_bytes,
            segments=[s.base for s in store.segments if not s.is_doomed],
            epochs=list(self.epochs),
            partitions=[],
            producers=list(self._states.entries.items()),
        )
        return Capture(snapshot, [state_of(p) for p in changed], dropped, side, is_new_side)

    def _write(self, captured: Capture) -> None:
        """Off the loop: side file first, then the snapshot that counts on it. Raises OSError."""
        for state in captured.states:
            self._blobs[state.serial] = encode_partition(state)
        for serial in captured.dropped:
            self._blobs.pop(serial, None)
        snapshot = captured.snapshot
        path = side_path(self._directory, snapshot.active_base, snapshot.side_generation)
        side = encode_side(
            (topic_partition, Sealed(_slice(columns, start, end), end_offset))
            for topic_partition, columns, start, end, end_offset in captured.side
        )
        if captured.is_new_side:
            if self._side_file is not None:
                self._side_file.close()
                self._side_file = None
            self._side_file = self._disk.open(path, create=True)
            self._side_file.truncate(0)
            self._disk.sync_directory(f"{self._directory}/index")
        if side:
            assert self._side_file is not None
            self._side_file.write(snapshot.side_bytes, [side])
            self._side_file.sync()
        self._side_bytes = snapshot.side_bytes + len(side)
        data = encode_snapshot(
            snapshot._replace(side_bytes=self._side_bytes), self._blobs.values(), len(self._blobs)
        )
        name = snapshot_path(self._directory, snapshot.position)
        self._disk.replace(name, data)
        self._remove_old(name, path)

    def _remove_old(self, name: str, side: str) -> None:
        """Keep the newest two snapshots and the side files that they count on."""
        disk, directory = self._disk, self._directory
        self._kept = [*(kept for kept in self._kept if kept[0] != name), (name, side)]
        self._kept = self._kept[-SNAPSHOTS_KEPT:]
        names = [n for n in disk.list(f"{directory}/snapshot") if n.endswith(".snap")]
        for old in names[:-SNAPSHOTS_KEPT]:
            disk.remove(f"{directory}/snapshot/{old}")
        sides = {kept[1] for kept in self._kept}
        for old in disk.list(f"{directory}/index"):
            if old.endswith(".side") and f"{directory}/index/{old}" not in sides:
                disk.remove(f"{directory}/index/{old}")

    def _written(self, _: None, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None and not isinstance(error, OSError):
            raise error
        self.last_error = error
        served, self._served = self._served, []
        for then in served:
            then(error is None)
        self._writer.on_turn()

    def write_now(self, *, is_clean: bool, partitions: list[PartitionLog]) -> None:
        """Write a snapshot of everything, waiting for it; for open and clean close.

        A checkpoint that is under way off the loop is not disturbed: this one has its own files.
        Raises OSError.
        """
        if self._is_writing:
            self._side_base = -1
            self._side_file = None
            self._blobs = {}
        self._blobs = {}
        captured = self.capture(is_clean=is_clean)
        states = [state_of(p) for p in partitions if p.log_end_offset or p.log_start_offset]
        self._write(captured._replace(states=states, dropped=[]))
        self.last_position = captured.snapshot.position
        self.last_error = None

    def close(self) -> None:
        """Close the side file."""
        if self._side_file is not None and not self._is_writing:
            self._side_file.close()
            self._side_file = None


def _slice(columns: Columns, start: int, end: int) -> Columns:
    return Columns(*(column[start:end] for column in columns))
