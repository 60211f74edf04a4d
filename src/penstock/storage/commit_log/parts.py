"""The parts of an open commit log, wired together: store, writer, reader, checkpoints.

A log that is truncated or replaced gets new parts, made from its files by recovery; the SetLog in
front of them stays the same. So no part has code to roll its state back.

Source: composition only; each part names its own source.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.base.ids import Position, TopicPartition
from penstock.base.ports import Clock, Disk, Offload, Scheduler
from penstock.storage.commit_log.checkpoint import Checkpointer
from penstock.storage.commit_log.durable_mark import DurableMark
from penstock.storage.commit_log.early_roll import EarlyRoll
from penstock.storage.commit_log.gathered_writes import NO_EPOCH
from penstock.storage.commit_log.retention import SegmentRetention
from penstock.storage.commit_log.segments import Segment, SegmentStore, index_path
from penstock.storage.commit_log.store import CommitLogStore
from penstock.storage.commit_log.tracked_offload import TrackedOffload
from penstock.storage.commit_log.transactions import TransactionLog
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import LogConfig
from penstock.storage.index.block_cache import SealedSegment
from penstock.storage.index.partition_log import PartitionLog
from penstock.storage.index.producers import ProducerStates
from penstock.storage.index.sealed_index import Sealed, encode_index, seal
from penstock.storage.read.aborted_search import AbortedSearch
from penstock.storage.read.reader import LogReader
from penstock.storage.recover.newer import refuse_newer_files
from penstock.storage.recover.recovery import Progress, Recovery
from penstock.storage.recover.report import RecoveryReport
from penstock.storage.replicate.run_append import RunAppender
from penstock.storage.replicate.run_read import RunReader
from penstock.storage.second_level.splitting import Splitting
from penstock.storage.second_level.store import SecondLevel
from penstock.storage.stores.older import OlderStores
from penstock.storage.stores.port import Stores
from penstock.storage.stores.retention import RetentionPass


class LogPlace(NamedTuple):
    """A log's directory and the ports and settings that it is given."""

    disk: Disk
    directory: str
    config: LogConfig
    clock: Clock
    offload: Offload
    scheduler: Scheduler
    older: Stores = ()
    """The stores behind the second level, newest first."""


class LogParts:
    """The parts of one open log. `replay` and `take_over` may run off the loop, before use."""

    def __init__(self, place: LogPlace) -> None:
        disk, directory, config, clock, offload, scheduler, older = place
        self._place = place
        self.offload = TrackedOffload(offload)
        self.states = ProducerStates(config.producer_ids_max, clock.wall_ms())
        self.store = SegmentStore(disk, directory, config, self.offload)
        self.second_level = self._second_level()
        self.older = OlderStores((self.second_level, *older))
        self.mark = DurableMark(disk, directory)
        self.writer = LogWriter(
            self.store,
            directory=directory,
            config=config,
            offload=self.offload,
            scheduler=scheduler,
            mark=self.mark,
        )
        self.reader = LogReader(
            disk=disk,
            directory=directory,
            store=self.store,
            writer=self.writer,
            offload=self.offload,
            config=config,
            older=self.older,
        )
        self.transactions = self._transactions()
        self.checkpointer = Checkpointer(
            disk=disk,
            directory=directory,
            config=config,
            store=self.store,
            writer=self.writer,
            states=self.states,
        )
        self.segment_retention = SegmentRetention(
            disk=disk,
            directory=directory,
            store=self.store,
            reader=self.reader,
            writer=self.writer,
            older=self.older,
        )
        self.splitting = self._splitting()
        self.commit_log = CommitLogStore(
            disk=disk,
            directory=directory,
            store=self.store,
            writer=self.writer,
            reader=self.reader,
            checkpointer=self.checkpointer,
            retention=self.segment_retention,
        )
        self.retention = self._retention_pass()
        self.runs = RunReader(disk=disk, store=self.store, writer=self.writer, reader=self.reader)
        self.appender = self._appender(disk, directory)
        self.partitions: dict[TopicPartition, PartitionLog] = self.commit_log.partitions
        self.recovery = RecoveryReport()
        self._next_serial = 0
        self._wire()

    def _retention_pass(self) -> RetentionPass:
        snapshots = self._take_snapshot, self._note_changed
        return RetentionPass(self.commit_log, self.older, *snapshots)

    def _transactions(self) -> TransactionLog:
        disk, directory = self._place.disk, self._place.directory
        search = AbortedSearch(disk, directory, self.store, self.reader, self.older)
        return TransactionLog(self.states, self.writer, search)

    def _second_level(self) -> SecondLevel:
        place, guard = self._place, self.store.guard
        return SecondLevel(
            place.disk,
            place.directory,
            offload=self.offload,
            scheduler=place.scheduler,
            guard=guard,
            oldest_position=lambda: self.store.segments[0].base,
        )

    def _splitting(self) -> Splitting:
        place = self._place
        splitting = Splitting(
            self.second_level, place.directory, place.config, lambda: self.partitions
        )
        splitting.on_damage = self._damaged
        self.segment_retention.splitting = splitting
        self.segment_retention.early = EarlyRoll(self.writer, self.store, place.config)
        return splitting

    def _damaged(self, position: Position, reason: str) -> None:
        """Report damage, unless the segment was deleted: its file may be written over by now."""
        if self.store.segment_of(position) is not None:
            self.reader.on_damage(position, reason)

    def _wire(self) -> None:
        self.reader.on_failed = self.second_level.damage.heard
        self.writer.on_rolled = self._rolled
        self.writer.on_turn = self.tick
        self.checkpointer.every_partition = self.partitions.values
        self.segment_retention.is_confirmed = self.checkpointer.may_write

    def _appender(self, disk: Disk, directory: str) -> RunAppender:
        appender = RunAppender(
            disk=disk,
            directory=directory,
            offload=self.offload,
            store=self.store,
            writer=self.writer,
            checkpointer=self.checkpointer,
        )
        appender.open_partition = self.open_partition
        return appender

    def replay(self, progress: Progress) -> Recovery:
        """Read the files, and complete an interrupted change. Waits for the disk."""
        place = self._place
        refuse_newer_files(place.disk, place.directory)
        recovery = Recovery(place.disk, place.directory, place.config, self.states, self.older)
        recovery.run(progress)
        return recovery

    def take_over(self, recovery: Recovery) -> None:
        """Start from the result of recovery; write a snapshot if allowed. Waits for the disk."""
        self.partitions = recovery.partitions
        self.appender.partitions = self.commit_log.partitions = recovery.partitions
        self.recovery = recovery.report
        self._next_serial = recovery.next_serial
        self.store.start(recovery.segments, recovery.spares)
        checkpointer = self.checkpointer
        checkpointer.epochs = recovery.epochs
        checkpointer.every_partition = recovery.partitions.values
        checkpointer.start(
            recovery.snapshot_position,
            recovery.side_number,
            confirmed=recovery.confirmed_position,
        )
        epoch, start = recovery.epochs[-1] if recovery.epochs else (NO_EPOCH, Position(0))
        self.writer.touched = recovery.touched
        self.writer.start(recovery.position, leader_epoch=epoch, epoch_start=start)
        if checkpointer.may_write(recovery.position) or recovery.needs_snapshot:
            checkpointer.write_now(is_clean=False)
        recovery.finish()
        self.mark.write(recovery.position)

    def open_partition(self, topic_partition: TopicPartition) -> PartitionLog:
        """Return the partition's log, an empty one if there is none yet."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            partition = PartitionLog(topic_partition, self._next_serial, self.states)
            self._next_serial += 1
            self.partitions[topic_partition] = partition
        return partition

    def _note_changed(self, partition: PartitionLog) -> None:
        self.writer.dirty.append(partition)  # of a list that each snapshot replaces

    def _take_snapshot(self, then: Callable[[bool], None]) -> None:
        self.checkpointer.request(then)
        self.writer.on_turn()

    def tick(self) -> None:
        """Update the time, and continue or begin a checkpoint."""
        place = self._place
        self.states.now_ms = place.clock.wall_ms()
        if not self.store.is_closed:
            self.checkpointer.poll(place.clock, self.offload)

    def _rolled(self, segment: Segment) -> None:
        """Write the index of a segment that was just closed, off the loop."""
        pending: dict[TopicPartition, Sealed] = {}
        for partition in self.writer.touched:
            is_kept = not partition.is_dropped
            sealed = seal(partition)
            if sealed.columns.bases and is_kept:
                pending[partition.topic_partition] = sealed
        self.writer.touched = []
        segment.pending = pending
        self.store.closing.append(segment)
        self.checkpointer.request(is_urgent=False)
        path = index_path(self._place.directory, segment.base)
        base, data_end, end, disk = segment.base, segment.data_end, segment.end, self._place.disk

        def work() -> int:
            data = encode_index(base, data_end, pending, segment_end=end)
            disk.replace(path, data)
            return len(data)

        self.offload.submit(work, partial(self._sealed, segment))

    def _sealed(
        self, segment: Segment, index_bytes: int | None, error: BaseException | None
    ) -> None:
        """Keep the columns as a cache. If the file was not written, a read rebuilds it later."""
        if error is not None and not isinstance(error, OSError):
            raise error
        parts, segment.pending = segment.pending, None
        self.store.closing.remove(segment)
        if parts and index_bytes is not None:
            sealed = SealedSegment(segment.base, segment.path, parts, index_bytes)
            self.reader.cache.put_segment(sealed)

    def halt(self, when_idle: Callable[[], None]) -> None:
        """Start no more work; call `when_idle` once no work is under way off the loop."""
        self.writer.halt()
        self.checkpointer.discard()
        self.second_level.close()
        self.store.close()

        def idle() -> None:
            self.mark.close()
            when_idle()

        self.offload.when_idle(idle)

    def close(self) -> None:
        """Close every file."""
        self.second_level.close()
        self.store.close()
        self.mark.close()
        self.checkpointer.close()
