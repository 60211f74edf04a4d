"""A coordinator follows the mastership of its internal partitions.

    become master ──► load the partition up to its log end ──► all of that confirmed? ──► answer
                      until then COORDINATOR_LOAD_IN_PROGRESS   (waits in purgatory)
    another role, another epoch ──► unload at once: parked requests get NOT_COORDINATOR

Loading reads up to the log end, since this master is going to confirm everything in its log, and
answers only after that: a position that a client has seen must not disappear with the next election
(the reasoning of KIP-207, applied to group positions). `reconcile` compares the partitions that
should be loaded with those that are, so that it can be called after any change.

Source: Kafka `GroupCoordinatorService.onElection`, `onResignation`. It keeps no state of groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.base.errors import PlatformError
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import UnreadRecord
from penstock.replica.replica_set import Role
from penstock.replication.errors import ReplicationError
from penstock.storage.index.transactions import TransactionEnd

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.coordinators.journal import InternalTopicJournal
    from penstock.coordinator.runtime import CoordinatorRuntime

RETRY_MS = 1000
"""Pause after a partition could not be read, which is most likely a fault of the disk."""
NEVER_MS = 1 << 62

OnFailed = Callable[[int, PlatformError], None]

log = logging.getLogger(__name__)


class PartitionMastership:
    """One internal partition during one mastership, parked until its content is confirmed."""

    __slots__ = ("_on_confirmed", "deadline_ms", "hosted", "is_over", "leader_epoch")

    def __init__(
        self, hosted: HostedPartition, on_confirmed: Callable[[PartitionMastership], None]
    ) -> None:
        self.hosted = hosted
        self.leader_epoch = hosted.member.leader_epoch
        self.is_over = False
        self.deadline_ms = NEVER_MS
        self._on_confirmed = on_confirmed

    def stands(self, hosted: HostedPartition | None) -> bool:
        """Whether `hosted` is the same partition in the same mastership."""
        return hosted is self.hosted and hosted.member.leader_epoch == self.leader_epoch

    def complete(self) -> None:
        if not self.is_over:
            self._on_confirmed(self)

    def expire(self) -> bool:
        """Keep waiting: until it is confirmed, the groups are not available anyway."""
        return True

    def fail(self) -> None:
        """The log is fenced: these groups are unavailable here until another broker leads."""

    def refuse(self, error: ReplicationError) -> None:
        """The mastership is over; `reconcile` follows."""

    def shrunk(self, in_sync_count: int) -> None:
        """Ignore a smaller sync-state set: what is confirmed stays confirmed."""


class _Into:
    """A Receiver for a runtime's partition (journal.py)."""

    __slots__ = ("_partition", "_runtime")

    def __init__(self, runtime: CoordinatorRuntime[Any, Any], partition: int) -> None:
        self._runtime = runtime
        self._partition = partition

    def record(self, record: UnreadRecord) -> None:
        self._runtime.load(self._partition, record)

    def pending(self, writer: Writer, record: UnreadRecord) -> None:
        self._runtime.load(self._partition, record, writer)

    def ended(self, writer: Writer, *, is_commit: bool) -> None:
        self._runtime.load_end(self._partition, writer, is_commit=is_commit)

    def unread_batch(self, reason: str) -> None:
        self._runtime.load_unread_batch(self._partition, reason)


class CoordinatorHosting:
    """One kind of coordinator on this broker: the partitions it has loaded, and their rewrites."""

    def __init__(
        self,
        broker: Broker,
        runtime: CoordinatorRuntime[Any, Any],
        journal: InternalTopicJournal,
        on_failed: OnFailed | None = None,
    ) -> None:
        """`on_failed(partition, error)` is called for a partition that could not be read."""
        self.runtime = runtime
        self.topic = journal.topic
        self._broker = broker
        self._journal = journal
        self._on_failed = on_failed
        self._masterships: dict[int, PartitionMastership] = {}

    def reconcile(self) -> None:
        """Unload partitions that are led elsewhere, then load those that are led here."""
        hosted_ones = {
            hosted.partition: hosted
            for hosted in self._journal.partitions
            if hosted is not None and hosted.member.role is Role.MASTER
        }
        for partition, mastership in list(self._masterships.items()):
            if not mastership.stands(hosted_ones.get(partition)):
                self._unload(partition, mastership)
        if hosted_ones:
            self.runtime.base.partitions.use_count(len(self._journal.partitions))
        for partition, hosted in hosted_ones.items():
            if partition not in self._masterships:
                self._take_over(partition, hosted)

    @property
    def partitions(self) -> Sequence[HostedPartition | None]:
        """The partitions of its topic on this node; empty until the topic exists."""
        return self._journal.partitions

    def rewrite_due(self) -> None:
        """Rewrite the partitions that have grown enough."""
        hosted = {each.partition: each for each in self.partitions if each is not None}
        for partition in self.runtime.base.rewrites.due():
            self.rewrite(hosted[partition], lambda _: None)

    def rewrite(self, hosted: HostedPartition, on_done: Callable[[bool], None]) -> bool:
        """Rewrite a partition; return False if a rewrite is in progress or not possible."""
        runtime, partition = self.runtime, hosted.partition
        if not runtime.is_movable(partition):
            return False
        mastership = self._masterships[partition]

        def done(live_bytes: int | None) -> None:
            if live_bytes is not None:
                runtime.rewritten(partition, live_bytes)
            elif not mastership.is_over:
                runtime.base.rewrites.failed(partition)
            on_done(live_bytes is not None)

        return self._journal.rewrite(
            hosted, runtime.snapshot(partition), done, is_over=lambda: mastership.is_over
        )

    def _unload(self, partition: int, mastership: PartitionMastership) -> None:
        mastership.is_over = True
        mastership.hosted.on_marker = None
        del self._masterships[partition]
        self.runtime.unload(partition)
        log.info("internal partition=%d given up epoch=%d", partition, mastership.leader_epoch)

    def _take_over(self, partition: int, hosted: HostedPartition) -> None:
        mastership = self._masterships[partition] = PartitionMastership(hosted, self._finish)
        self.runtime.begin_loading(partition)
        self._load(mastership)

    def _load(self, mastership: PartitionMastership) -> None:
        hosted = mastership.hosted

        def on_marker(ended: TransactionEnd) -> None:
            writer = Writer(ended.producer_id, ended.producer_epoch)
            done = self.runtime.end_transaction(hosted.partition, writer, is_commit=ended.is_commit)
            self._journal.wait_for_end(hosted, done)

        def on_done(error: PlatformError | None) -> None:
            if error is not None:
                self._retry_later(mastership, error)
            else:
                member = hosted.member
                member.waiting_for_all.park(member.log.end_position, mastership)
                # Whatever is appended from now on was not read.
                hosted.on_marker = on_marker

        into = _Into(self.runtime, hosted.partition)
        self._journal.load(hosted, into, on_done, is_over=lambda: mastership.is_over)

    def _finish(self, mastership: PartitionMastership) -> None:
        partition = mastership.hosted.partition
        self.runtime.finish_loading(partition)
        log.info("internal partition=%d loaded epoch=%d", partition, mastership.leader_epoch)

    def _retry_later(self, mastership: PartitionMastership, error: PlatformError) -> None:
        partition = mastership.hosted.partition
        log.error("internal partition=%d not loaded: %s", partition, error)
        if self._on_failed is not None:
            self._on_failed(partition, error)

        def again() -> None:
            if mastership.is_over:
                return
            self.runtime.unload(partition)
            self.runtime.begin_loading(partition)
            self._load(mastership)

        self._broker.scheduler.call_later(RETRY_MS, again)
