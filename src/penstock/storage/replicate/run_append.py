"""Appending a master's runs to a slave's commit log.

    run ─► does it begin at our end? ─► same segment? ─► check (run_check.py) ─► one write
        ─► index, offsets, producers, epochs, as an append does ─► roll at an end marker

The bytes are written unchanged at the same positions as on the master, so replicas are equal byte
for byte and have the same segments: if the slave's next file has another size, it is resized.

If a sync, a file or space is needed first, or the run is too long for one turn of the loop,
`append` returns early, and `on_ready` is called when it may be called again. Nothing blocks and
nothing is buffered here.

Source: RocketMQ `HAClient` (dispatchReadRequest: a slave appends only at exactly its own end),
ADR 0009.
"""

import errno
from collections.abc import Callable

from penstock.base.callbacks import nothing
from penstock.base.ids import Offset, Position, TopicId, TopicPartition
from penstock.base.ports import Disk, Offload
from penstock.frames.frames import (
    FRAME_HEADER_BYTES,
    KEY,
    KIND_END,
    KIND_LOG_START,
)
from penstock.frames.run import SEGMENT_BYTES_MAX, Run
from penstock.frames.run_check import (
    SYNCS_MAX,
    BatchFrame,
    Checked,
    ControlFrame,
    Follows,
    check_run,
    count_syncs,
)
from penstock.storage.commit_log.catching_up import CatchingUp
from penstock.storage.commit_log.checkpoint import Checkpointer
from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.errors import BadRun, GapInRun
from penstock.storage.index.partition_log import PartitionLog


class RunAppender:
    """Appends runs to one log. Used on the loop only."""

    def __init__(
        self,
        *,
        disk: Disk,
        directory: str,
        offload: Offload,
        store: SegmentStore,
        writer: LogWriter,
        checkpointer: Checkpointer,
    ) -> None:
        self._store = store
        self._writer = writer
        self._checkpointer = checkpointer
        self._catching_up = CatchingUp(disk, directory, offload, self._has_room)
        self._by_key: dict[bytes, PartitionLog] = {}
        self.is_fitting = False
        """Whether the newest segment is being resized: what is behind its new end is cut."""
        self._is_waiting = False
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.open_partition: Callable[[TopicPartition], PartitionLog] = _no_partition
        self.on_ready: Callable[[], None] = nothing
        self.on_rejoin: Callable[[Position, Position], None] = nothing
        """Called with (segment base, segment end) if the newest segment, which is empty, is part of
        the one before on the master."""
        writer.on_room = self._has_room

    def append(self, run: Run) -> int:
        """Append as much as possible now; see ReplicableLog.append_run."""
        writer = self._writer
        if writer.fenced is not None:
            raise writer.fenced
        if not writer.is_following:
            writer.follow()
        if not run.data:
            return 0
        _check_bounds(run)
        writer.write_staged()
        if not self._is_placed(run):
            self._is_waiting = True
            return 0
        checked = self._check(run)
        if checked.size < len(run.data):
            self._is_waiting = True
            if not checked.is_cut:
                writer.request_sync()
        frames, count = checked.frames, checked.size
        if frames and _is_end(frames[-1]) and not self._can_advance():
            frames.pop()
            count -= FRAME_HEADER_BYTES
        if not count or not self._write(run.data[:count]):
            return 0
        self._apply(run, frames)
        self._catching_up.took(checked.syncs, Position(run.position + count))
        if checked.is_cut:
            self._has_room()
        return count

    def _write(self, data: memoryview) -> bool:
        """Write checked frames; return False if there is no space for them now."""
        writer = self._writer
        if writer.write(len(data), [data]):
            return True
        self._is_waiting = True
        if writer.fenced is not None:
            raise writer.fenced
        return False

    def lead(self) -> None:
        """Stop following: the log is a master's from now on."""
        self._catching_up.end()
        self._has_room()

    def _is_placed(self, run: Run) -> bool:
        """Return whether the active segment is the run's; False while it is being resized.

        Raises:
            GapInRun: the run does not begin at the end of the log.
            BadRun: the segments of the two logs can not be made equal.
        """
        writer, active = self._writer, self._store.active
        if self.is_fitting or active.file is None or writer.end_position != writer.written_position:
            return False
        if run.position == active.end and active.end - writer.end_position < FRAME_HEADER_BYTES:
            if not self._can_advance():
                return False
            writer.enter_next_segment(writer.end_position)
            active = self._store.active
        end = writer.end_position
        if run.position != end:
            raise GapInRun(run.position, end)
        if active.base == run.file_base:
            return self._fits(run, active.end)
        if active.base < run.file_base == end:
            self._fit_flushed(end)
            return False
        if active.base == end and self._store.segment_of(run.file_base) is not None:
            self.on_rejoin(run.file_base, run.file_end)
            return False
        raise BadRun(run.position, f"its segment begins at {run.file_base}, not {active.base}")

    def _fits(self, run: Run, active_end: Position) -> bool:
        if active_end == run.file_end:
            return self._store.active.file is not None
        if self._store.active.file is not None:
            self._store.set_capacity(run.file_end - run.file_base)
            self._fit_flushed(run.file_end)
        return False

    def _fit_flushed(self, end: Position) -> None:
        """Resize the active segment once all of it is flushed.

        Resizing syncs the file. A sync of the log at the same time might not notice an error that
        the first one was told of.
        """
        writer = self._writer
        if writer.flushed_position < writer.written_position:
            writer.request_sync()
        else:
            self._fit(end)

    def _fit(self, end: Position) -> None:
        self.is_fitting = True
        self._store.fit_active(end, self._fitted)

    def _fitted(self, error: OSError | None) -> None:
        self.is_fitting = False
        if error is None:
            self._has_room()
        elif error.errno == errno.ENOSPC:
            self._writer.space.begin()
        else:
            self._writer.fence(f"a segment could not be resized: {error}")

    def _can_advance(self) -> bool:
        """Return whether the next segment can be used now; if not, `on_ready` will be called."""
        store = self._store
        if store.next_file is not None or store.prepare_error is None:
            return True
        self._is_waiting = True
        self._writer.space.begin()
        return False

    def _check(self, run: Run) -> Checked:
        catching_up = self._catching_up
        checked = check_run(run, self._follows())
        if catching_up.trusts_claims and checked.size < len(run.data) and not checked.is_cut:
            rest = run.after(checked.size)
            if count_syncs(rest, self._writer.flushed_position) > SYNCS_MAX:
                catching_up.begin(run.position)
                if not catching_up.trusts_claims:
                    return check_run(run, self._follows())
        return checked

    def _follows(self) -> Follows:
        writer = self._writer
        return Follows(
            writer.leader_epoch,
            writer.epoch_start,
            writer.flushed_position,
            self._catching_up.trusts_claims,
            self._end_offset_of,
        )

    def _end_offset_of(self, key: bytes) -> Offset:
        """Return the offset of the partition's next batch; -1 if the partition is not known."""
        partition = self._find(key)
        if partition is None or not partition.last_end_position:
            return Offset(-1)
        return partition.log_end_offset

    def _find(self, key: bytes) -> PartitionLog | None:
        partition = self._by_key.get(key)
        if partition is None or partition.is_dropped:
            partition = self.partitions.get(_partition_of(key))
            if partition is not None:
                self._by_key[key] = partition
        return partition

    def forget(self, partition: PartitionLog) -> None:
        """Forget a partition that is dropped."""
        self._by_key.pop(partition.frame_key, None)

    def _apply(self, run: Run, frames: list[BatchFrame | ControlFrame]) -> None:
        """Update the state for frames that were written; this can not fail."""
        writer, data = self._writer, run.data
        before = run.position - FRAME_HEADER_BYTES
        end = writer.written_position
        index, by_key = writer.index, self._by_key
        for frame in frames:
            if isinstance(frame, ControlFrame):
                self._apply_control(frame)
                continue
            key, header, position, size = frame
            partition = by_key.get(key)
            if partition is None or partition.is_dropped or not partition.last_end_position:
                partition = self._open(key, Offset(header.base_offset))
            at = position - before
            index(partition, header, position, size, data[at : at + size])
        writer.end_position = max(writer.end_position, end)

    def _open(self, key: bytes, base_offset: Offset) -> PartitionLog:
        partition = self._find(key)
        if partition is None:
            partition = self._by_key[key] = self.open_partition(_partition_of(key))
        if not partition.last_end_position:
            partition.begin_at(base_offset)
        return partition

    def _apply_control(self, frame: ControlFrame) -> None:
        writer = self._writer
        if frame.kind == KIND_LOG_START:
            partition = self._find(frame.key)
            if partition is not None:
                partition.tell_log_start(min(Offset(frame.value), partition.log_end_offset))
                writer.dirty.append(partition)
            return
        if frame.leader_epoch > writer.leader_epoch:
            writer.leader_epoch = frame.leader_epoch
            writer.epoch_start = Position(frame.value)
            self._checkpointer.epochs.append((frame.leader_epoch, writer.epoch_start))
        if frame.kind == KIND_END:
            writer.enter_next_segment(frame.position)

    def _has_room(self) -> None:
        """Call `on_ready` if an append may be tried again."""
        self._catching_up.flushed(self._writer.flushed_position)
        if self._is_waiting:
            self._is_waiting = False
            self._writer.scheduler.call_soon(self._tell)

    def _tell(self) -> None:
        if self._writer.fenced is None:
            self.on_ready()


def _check_bounds(run: Run) -> None:
    """Check that the run lies within its segment. Raises BadRun."""
    if not run.file_base <= run.position < run.end_position <= run.file_end:
        raise BadRun(run.position, "the run does not lie in its segment")
    if run.file_end - run.file_base > SEGMENT_BYTES_MAX:
        raise BadRun(run.position, "the segment is larger than the largest allowed")


def _is_end(frame: BatchFrame | ControlFrame) -> bool:
    return isinstance(frame, ControlFrame) and frame.kind == KIND_END


def _partition_of(key: bytes) -> TopicPartition:
    number, topic_id = KEY.unpack(key)
    return TopicPartition(TopicId(topic_id), number)


def _no_partition(_: TopicPartition) -> PartitionLog:
    raise AssertionError("the log was not opened")
