"""Groups follow the mastership of their internal partition.

    become master ──► load the partition up to its log end ──► all of that confirmed? ──► answer
                      meanwhile COORDINATOR_LOAD_IN_PROGRESS    (waits in purgatory)
    another role, another epoch ──► unload at once: NOT_COORDINATOR to everybody who is parked

Loading reads to the log end, since whatever stands there is going to be confirmed by this master,
and answers only when it is: a position that somebody has seen does not go away with the next
election (the thought of KIP-207, for positions). `reconcile` compares what should be owned with
what is, so that it does not matter which change it is called for.

Source: Kafka `GroupCoordinatorService.onElection`, `onResignation`. It keeps no group state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.broker.partitions import HostedPartition
from penstock.broker.sets.replica_set import Role
from penstock.groups.records import UnreadRecord
from penstock.replication.errors import ReplicationError

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.groups.journal import InternalTopicJournal

RETRY_MS = 1000
"""After a partition could not be read; most likely the disk is at fault, so there is no hurry."""
NEVER_MS = 1 << 62

OnFailed = Callable[[int, PlatformError], None]

log = logging.getLogger(__name__)


class Tenure:
    """One internal partition during one mastership; also what waits for its confirmation."""

    __slots__ = ("_on_confirmed", "deadline_ms", "hosted", "is_over", "leader_epoch")

    def __init__(self, hosted: HostedPartition, on_confirmed: Callable[[Tenure], None]) -> None:
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

    def expire(self) -> None:
        """Wait on: without an answer from here nobody can use the groups anyway."""

    def fail(self) -> None:
        """The log is fenced: these groups stay unavailable here until another broker leads."""

    def refuse(self, error: ReplicationError) -> None:
        """The mastership is over; `reconcile` follows."""

    def shrunk(self, in_sync_count: int) -> None:
        """What is confirmed is confirmed."""


class GroupOwnership:
    """Which internal partitions the coordinator of this broker answers for."""

    def __init__(
        self, broker: Broker, journal: InternalTopicJournal, on_failed: OnFailed | None = None
    ) -> None:
        """`on_failed(partition, error)` hears of partitions that could not be read."""
        self._broker = broker
        self._journal = journal
        self._on_failed = on_failed
        self._tenures: dict[int, Tenure] = {}

    def reconcile(self) -> None:
        """Give up what is led elsewhere, then take over what is led here."""
        hosted_ones = {
            hosted.partition: hosted
            for hosted in self._journal.partitions
            if hosted is not None and hosted.member.role is Role.MASTER
        }
        for partition, tenure in list(self._tenures.items()):
            if not tenure.stands(hosted_ones.get(partition)):
                self._unload(partition, tenure)
        if hosted_ones:
            self._broker.groups.use_partition_count(len(self._journal.partitions))
        for partition, hosted in hosted_ones.items():
            if partition not in self._tenures:
                self._take_over(partition, hosted)

    def _unload(self, partition: int, tenure: Tenure) -> None:
        tenure.is_over = True
        del self._tenures[partition]
        self._broker.groups.unload(partition)
        log.info("internal partition=%d given up epoch=%d", partition, tenure.leader_epoch)

    def _take_over(self, partition: int, hosted: HostedPartition) -> None:
        tenure = self._tenures[partition] = Tenure(hosted, self._finish)
        self._broker.groups.begin_loading(partition)
        self._load(tenure)

    def _load(self, tenure: Tenure) -> None:
        groups, partition = self._broker.groups, tenure.hosted.partition

        def on_record(record: UnreadRecord) -> None:
            groups.load(partition, record)

        def on_unread_batch(reason: str) -> None:
            groups.load_unread_batch(partition, reason)

        def on_done(error: PlatformError | None) -> None:
            if error is not None:
                self._retry_later(tenure, error)
            else:
                member = tenure.hosted.member
                member.waiting_for_all.park(member.log.end_position, tenure)

        self._journal.load(
            tenure.hosted, on_record, on_done, on_unread_batch, is_over=lambda: tenure.is_over
        )

    def _finish(self, tenure: Tenure) -> None:
        partition = tenure.hosted.partition
        self._broker.groups.finish_loading(partition)
        log.info("internal partition=%d loaded epoch=%d", partition, tenure.leader_epoch)

    def _retry_later(self, tenure: Tenure, error: PlatformError) -> None:
        partition = tenure.hosted.partition
        log.error("internal partition=%d not loaded: %s", partition, error)
        if self._on_failed is not None:
            self._on_failed(partition, error)

        def again() -> None:
            if tenure.is_over:
                return
            self._broker.groups.unload(partition)
            self._broker.groups.begin_loading(partition)
            self._load(tenure)

        self._broker.scheduler.call_later(RETRY_MS, again)
