"""Recovery: build the state of a log in memory from its files, after a clean stop or a crash.

    newest valid snapshot at P ─► side file: index of [active base, P) ─► replay frames from P
      ─► first position X without a good frame ─► evidence behind X? ─► cut at X ─► sync

Replay checks every frame: its checksum, its position, the batch's own CRC, and that offsets of a
partition are contiguous. X is normally the end of the log, or a torn tail after a power loss. It is
neither if there is evidence that bytes at X were durable: the snapshot's position, the note of the
last sync (durable_mark.py), or a whole frame behind X that was appended after a sync beyond X
(`unflushed`). Then acknowledged data is damaged, and recovery stops with CorruptLog.

The cut is durable and removes everything behind X, also whole frames: otherwise they would become
part of the log again when new frames reach them. After a kill -9, replayed bytes that are not noted
as synced may be in the page cache only; and after a failed sync the kernel marks such pages clean,
so that no later sync would write them ("fsyncgate"). So they are written again in place, and then
synced. Finally a new snapshot is written, so that the next start need not repeat the work.

A change of the log that a crash has interrupted (a truncation, a reset, the swap of a copied base)
is completed first; see pending_change.py.

Without any snapshot the log is rebuilt from all of its segments.

Source: Kafka `LogLoader`; the evidence rule is ours (ADR 0002). All of it waits for the disk.
"""

from collections.abc import Callable

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicId, TopicPartition
from penstock.base.ports import Disk, DiskFile
from penstock.extents.errors import CorruptExtentFile
from penstock.frames.claim import EVERYWHERE
from penstock.frames.frames import (
    KIND_BATCH,
    KIND_LOG_START,
    LOG_START_PAYLOAD,
    FrameHeader,
    begun_epoch,
)
from penstock.record.batch import TRANSACTIONAL_OR_CONTROL, BatchHeader, read_header
from penstock.record.errors import RecordError
from penstock.storage.commit_log.catching_up import read_note, remove_note
from penstock.storage.commit_log.durable_mark import read_mark
from penstock.storage.commit_log.pending_change import (
    ChangeKind,
    PendingChange,
    complete_change,
    read_change,
    remove_change,
    settle_directories,
)
from penstock.storage.commit_log.segment_length import restore_lengths, settle_length, size_of
from penstock.storage.commit_log.segments import Segment, index_path, new_segment
from penstock.storage.commit_log.snapshot import Snapshot, decode_snapshot, snapshot_path
from penstock.storage.commit_log.truncation import add_seeds
from penstock.storage.config import LogConfig
from penstock.storage.errors import CorruptFile, CorruptLog, CorruptSecondLevel
from penstock.storage.index.partition_log import EMPTY, PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.index.rebuild import rebuild_missing, remove_stale_indexes
from penstock.storage.index.sealed_index import encode_index, seal
from penstock.storage.recover.active_columns import ActiveColumns
from penstock.storage.recover.lost_starts import KeptStarts
from penstock.storage.recover.report import RecoveryReport
from penstock.storage.recover.scan import SegmentScan, bytes_to_replay, find_good_frames
from penstock.storage.stores.older import OlderStores

Progress = Callable[[int, int], None]
"""(bytes done, estimated total bytes). It may raise to cancel the recovery: by then only indexes
have been written."""
PROGRESS_BYTES = 8 << 20
NO_SNAPSHOT = Snapshot(Position(0), False, Position(0), 0, 0, [], [], [], {})


class Recovery:
    """Reads the files of one log. `run` once, then take the fields."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        states: ProducerStates,
        older: OlderStores | None = None,
    ) -> None:
        self._disk, self._directory, self._config = self._place = disk, directory, config
        self._states = states
        self._older = older or OlderStores()
        self.report = RecoveryReport()
        self.segments: list[Segment] = []
        self.spares: list[str] = []
        self.partitions: dict[TopicPartition, PartitionLog] = {}
        self.epochs: list[tuple[LeaderEpoch, Position]] = []
        self.touched: list[PartitionLog] = []
        self.position = Position(0)
        self.next_serial = 0
        self.side_number = 0
        self._snapshot = NO_SNAPSHOT
        self._is_fallback = False
        self._are_starts_lost = False
        """Whether segments are missing that the snapshot names: a newer snapshot was lost."""
        self._has_hole = False
        self._change: PendingChange | None = None
        self._synced = Position(0)
        """Bytes below it are on the disk for certain."""
        self._proof_end = EVERYWHERE
        """Claims of frames at or above this position prove nothing."""

    @property
    def snapshot_position(self) -> Position:
        """Position of the snapshot that was used; of the log's start without one."""
        return self._snapshot.position

    @property
    def confirmed_position(self) -> Position:
        """A lower bound of the confirm position, from the files."""
        snapshot = self._snapshot
        return snapshot.position if snapshot.is_confirmed else self.segments[0].base

    @property
    def needs_snapshot(self) -> bool:
        """Whether a snapshot is needed even if it is not confirmed: after an unclean cut."""
        return self._change is not None and self._change.kind is ChangeKind.REBUILD

    def finish(self) -> None:
        """Remove the pending change: the log is open, and a needed snapshot is written."""
        if self._change is not None:
            remove_change(self._disk, self._directory)

    def run(self, progress: Progress) -> None:
        """Recover the log.

        Raises:
            CorruptLog: durable data is damaged or missing.
            OSError: the disk fails, or has no space for a first segment.
        """
        settle_directories(self._disk, self._directory)
        self._change = read_change(self._disk, self._directory)
        if self._change is not None:
            complete_change(self._disk, self._directory, self._change)
        self._load_older()
        note_damaged = self.report.damaged_files.append
        self._proof_end = read_note(self._disk, self._directory, note_damaged)
        self._synced = read_mark(self._disk, self._directory, note_damaged)
        self._find_segments()
        self._load_snapshot()
        self._check_segments()
        self._restore()
        self._load_active_columns()
        self._replay(progress)
        self._check_mark()
        if self._change is not None and self._change.kind is ChangeKind.REBUILD:
            self._add_seeds(self._change)
        self._cut()
        if self._change is not None:
            self._older.cut(self.partitions.values())
        remove_note(self._disk, self._directory)
        rebuild_missing(self._disk, self._directory, self.segments[:-1], note_damaged)
        if self._are_starts_lost or self._older.are_used:
            closed = self.segments[:-1]
            kept = KeptStarts(self._disk, self._directory, closed, self.partitions)
            kept.release(self._older, self._directory, are_starts_lost=self._are_starts_lost)
        self.report.end_position = self.position

    def _load_older(self) -> None:
        """Read what older stores have; damage there is that of the log, also for its repair."""
        try:
            self._older.load()
        except (CorruptFile, CorruptExtentFile, FileNotFoundError) as error:
            raise CorruptSecondLevel(self._directory, str(error)) from error

    def _find_segments(self) -> None:
        disk, log = self._disk, f"{self._directory}/log"
        for name in disk.list(log):
            path = f"{log}/{name}"
            if name.endswith(".new"):
                disk.remove(path)
            elif name.endswith(".spare"):
                self._keep_spare(path)
            elif name.endswith(".log"):
                size = size_of(disk, path)
                self.segments.append(Segment(self._directory, Position(int(name[:20])), size))

    def _keep_spare(self, path: str) -> None:
        keep = size_of(self._disk, path) == self._config.segment_bytes
        if keep and len(self.spares) < self._config.recycle_count:
            self.spares.append(path)
        else:
            self._disk.remove(path)

    def _load_snapshot(self) -> None:
        """Load the newest readable snapshot; the numbers of side files only grow."""
        for name in self._disk.list(f"{self._directory}/index"):
            if name.endswith(".side"):
                self.side_number = max(self.side_number, int(name[21:-5]))
        names = [n for n in self._disk.list(f"{self._directory}/snapshot") if n.endswith(".snap")]
        for name in reversed(names):
            path = snapshot_path(self._directory, Position(int(name[:20])))
            file = self._disk.open(path)
            try:
                self._snapshot = decode_snapshot(path, file.read(0, file.size()))
            except CorruptFile as error:
                self.report.damaged_files.append(str(error))
                self._is_fallback = True
                continue
            finally:
                file.close()
            self.report.snapshot_position = self._snapshot.position
            self.report.was_clean = self._snapshot.is_clean and not self._is_fallback
            return
        if (names or self._synced) and not self.segments:
            raise CorruptLog(self._directory, 0, "every segment file is missing")
        first = self.segments[0].base if self.segments else Position(0)
        self._snapshot = NO_SNAPSHOT._replace(position=first, active_base=first)
        self._is_fallback = True

    def _check_segments(self) -> None:
        """Compare the files with the snapshot; create the first segment of an empty log.

        A slave may take a snapshot at the start of a segment whose file does not exist yet.
        """
        snapshot = self._snapshot
        bases = {segment.base for segment in self.segments}
        counted = [base for base in snapshot.segments if base < snapshot.position]
        missing = [base for base in counted if base not in bases]
        if self._is_fallback:
            self._are_starts_lost = bool(missing)
            missing = [base for base in missing if base >= snapshot.active_base]
        if missing:
            raise CorruptLog(self._directory, missing[0], "the segment file is missing")
        if self.segments and self.segments[0].base > snapshot.active_base:
            raise CorruptLog(self._directory, snapshot.active_base, "the segment file is missing")
        if not self.segments:
            self.segments = [new_segment(*self._place, snapshot.position)]
        if not self._is_fallback:
            self._remove_dead()
        self.report.damaged_files += restore_lengths(self._disk, self._directory, self.segments)
        for older, newer in zip(self.segments, self.segments[1:], strict=False):
            if older.end == newer.base:
                continue
            self._has_hole = True
            if older.end > newer.base or (newer.base > snapshot.active_base and snapshot.segments):
                raise CorruptLog(self._directory, older.end, "a segment file is missing here")
        active = [s for s in self.segments if s.base == snapshot.active_base]
        if active and active[0].end < snapshot.position:
            raise CorruptLog(self._directory, active[0].end, "the segment file is cut short")

    def _remove_dead(self) -> None:
        """Remove what a crash has left of segments that the snapshot no longer names."""
        snapshot = self._snapshot
        for segment in [s for s in self.segments if s.base < snapshot.active_base]:
            if segment.base not in snapshot.segments:
                self.segments.remove(segment)
                self._disk.remove(segment.path)
                self._disk.remove(index_path(self._directory, segment.base))

    def _restore(self) -> None:
        snapshot = self._snapshot
        for state in snapshot.partitions:
            partition = PartitionLog(state.topic_partition, state.serial, self._states)
            partition.raise_log_start(state.log_start_offset)
            partition.log_end_offset = state.log_end_offset
            partition.last_end_position = state.last_end_position
            partition.size_bytes = state.size_bytes
            partition.sized_from = state.sized_from
            partition.max_timestamp = state.max_timestamp
            self.partitions[state.topic_partition] = partition
            self.next_serial = max(self.next_serial, state.serial + 1)
        self._states.entries.update(snapshot.producers)
        self._states.transactions.restore(snapshot.transactions)
        self.epochs = list(snapshot.epochs)
        self.position = snapshot.position

    def _load_active_columns(self) -> None:
        columns = ActiveColumns(self._disk, self._directory, self._snapshot, self.partitions)
        columns.load(self.segments, self.report.damaged_files)
        self.touched = columns.touched

    def _replay(self, progress: Progress) -> None:
        """Read frames from the snapshot on, segment after segment, to the first bad one."""
        start = self.position
        todo = [s for s in self.segments if s.base >= self._snapshot.active_base]
        total = bytes_to_replay(self._disk, todo, self.position)
        reported = 0
        progress(0, total)
        for segment in todo:
            self.position = max(self.position, segment.base)
            file = self._disk.open(segment.path)
            scan = SegmentScan(file, segment.base, self.position, segment.end)
            for header, payload in scan:
                self._write_again(file, segment, header, scan.frame)
                self._apply(header, payload)
                self.report.replayed_frames += 1
                self.position = scan.position
                if scan.position - start - reported >= PROGRESS_BYTES:
                    reported = scan.position - start
                    progress(reported, max(reported, total))
            self.report.replayed_bytes += scan.position - max(start, segment.base)
            if scan.end_marker is not None:
                self._write_again(file, segment, scan.end_marker, scan.frame)
            if scan.end_marker is not None or scan.position > max(start, segment.base):
                file.sync()
            if scan.error is not None:
                self.report.stop_reason = scan.error.reason
                self._look_behind(segment, file, todo)
                file.close()
                break
            file.close()
            if scan.end_marker is not None:
                self._apply(scan.end_marker, memoryview(b""))
            self._seal(segment, scan.position)
        done = self.position - start
        progress(done, done)

    def _write_again(
        self, file: DiskFile, segment: Segment, header: FrameHeader, frame: memoryview
    ) -> None:
        if header.position + len(frame) > self._synced:
            file.write(header.position - segment.base, [frame])

    def _look_behind(self, segment: Segment, file: DiskFile, todo: list[Segment]) -> None:
        """Count whole frames behind the bad one; raise if they prove that it was durable."""
        if self.report.was_clean and not self.report.replayed_frames:
            return
        behind = list(find_good_frames(file, segment.base, self.position, segment.end))
        for later in todo[todo.index(segment) + 1 :]:
            later_file = self._disk.open(later.path)
            scan = SegmentScan(later_file, later.base, later.base, later.end)
            behind += [header for header, _ in scan]
            later_file.close()
        for header in behind:
            if header.flushed_before > self.position and header.position < self._proof_end:
                raise CorruptLog(self._directory, self.position, self.report.stop_reason)
        self.report.frames_cut = len(behind)
        self.report.cut_bytes = sum(header.frame_bytes for header in behind)

    def _check_mark(self) -> None:
        """Raise if the log ends below what was synced: its end is damaged, not torn."""
        if self.position < self._synced:
            reason = self.report.stop_reason or "the segment ends early"
            raise CorruptLog(self._directory, self.position, reason)

    def _apply(self, header: FrameHeader, payload: memoryview) -> None:
        if self.epochs and header.leader_epoch < self.epochs[-1][0]:
            raise CorruptLog(self._directory, header.position, "leader epoch went back")
        if header.kind == KIND_BATCH:
            self._apply_batch(header, payload)
        elif header.kind == KIND_LOG_START:
            wanted = TopicPartition(TopicId(header.topic_id), header.partition)
            partition = self.partitions.get(wanted)
            if partition is not None:
                (offset,) = LOG_START_PAYLOAD.unpack(payload)
                partition.tell_log_start(min(Offset(offset), partition.log_end_offset))
        else:
            epoch, start = begun_epoch(header, payload)
            if epoch >= 0 and (not self.epochs or epoch > self.epochs[-1][0]):
                self.epochs.append((LeaderEpoch(epoch), Position(start)))

    def _apply_batch(self, frame: FrameHeader, payload: memoryview) -> None:
        topic_partition = TopicPartition(TopicId(frame.topic_id), frame.partition)
        batch = read_header(payload)
        base_offset, position = Offset(batch.base_offset), Position(frame.position)
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = PartitionLog(topic_partition, self.next_serial, self._states)
            self.next_serial += 1
            partition.begin_at(base_offset)
            self.partitions[topic_partition] = partition
        if base_offset != partition.log_end_offset:
            if not self._has_hole or base_offset < partition.log_end_offset:
                reason = f"offset {base_offset}, expected {partition.log_end_offset}"
                raise CorruptLog(self._directory, frame.position, reason)
            partition.raise_log_start(base_offset)
        if partition.bases is EMPTY:
            partition.open_columns()
            self.touched.append(partition)
        size = len(payload)
        partition.bases.append(base_offset)
        partition.positions.append(position)
        partition.sizes.append(size)
        partition.timestamps.append(batch.max_timestamp)
        partition.last_end_position = Position(position + frame.frame_bytes)
        partition.log_end_offset = Offset(base_offset + batch.last_offset_delta + 1)
        partition.size_bytes += size
        partition.max_timestamp = max(partition.max_timestamp, batch.max_timestamp)
        if batch.attributes & TRANSACTIONAL_OR_CONTROL:
            self._add_transactional(partition, batch, position, payload)
        elif batch.producer_id >= 0:
            partition.producers.record(batch, batch.base_offset)

    def _add_transactional(
        self, partition: PartitionLog, batch: BatchHeader, position: Position, payload: memoryview
    ) -> None:
        try:
            partition.add_transactional(batch, Offset(batch.base_offset), position, payload)
        except RecordError as error:
            raise CorruptLog(
                self._directory, position, f"a transaction's marker: {error}"
            ) from error

    def _add_seeds(self, change: PendingChange) -> None:
        """Add the state of partitions whose batches are no longer in the segments."""
        seeds = decode_snapshot(change.path(self._directory), memoryview(change.payload))
        known = self.partitions, seeds, self._states, self.next_serial
        self.next_serial = add_seeds(*known, self._older)

    def _seal(self, segment: Segment, data_end: Position) -> None:
        """Write the index of a closed segment that was read to its end, over any existing file.

        An existing index may be from before an earlier cut, and describe other frames.
        """
        parts = {partition.topic_partition: seal(partition) for partition in self.touched}
        self.touched = []
        self.position = segment.end
        segment.data_end = data_end
        path = index_path(self._directory, segment.base)
        data = encode_index(segment.base, data_end, parts, segment_end=segment.end)
        self._disk.replace(path, data)

    def _cut(self) -> None:
        """Remove, durably, everything behind the last good frame; open the active segment."""
        is_untouched = self.report.was_clean and not self.report.replayed_frames
        while self.segments[-1].base > self.position:
            # The newest first, so that a crash in between leaves no hole before a later segment.
            self._disk.remove(self.segments.pop().path)
        last = self.segments[-1]
        if last.end <= self.position:
            settle_length(self._disk, last.path)
            if last.base == last.end:  # left by an interrupted start: the new file takes its name
                self.segments.pop()
            self.segments.append(new_segment(*self._place, self.position))
        remove_stale_indexes(self._disk, self._directory, self.segments[:-1])
        self._disk.sync_directory(f"{self._directory}/log")
        active = self.segments[-1]
        active.file = self._disk.open(active.path)
        if not is_untouched:
            self._empty_tail(active, active.file)

    def _empty_tail(self, active: Segment, file: DiskFile) -> None:
        """Free the blocks behind the end, and allocate new, empty ones."""
        used = self.position - active.base
        file.truncate(used)
        try:
            file.allocate(active.end - active.base)
        except OSError:
            if not used:
                raise  # two segments would begin at the same position
            file.truncate(used)
            active.end = self.position
        file.sync()
