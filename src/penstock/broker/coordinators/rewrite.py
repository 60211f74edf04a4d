"""Rewriting partitions of an internal topic, in slices, one partition after the other.

    rewrite(partition, live) ─► queue ─► some batches ─(next loop iteration)─► some more ... ─► all
                                    confirmed? ─► trim everything before the first of them,
                                                  and before what was not decided when it began

`live` yields records as the journal has them when they are read, so commits may continue between
two slices: they are appended after the records they supersede. Records appended in another
mastership prove nothing, so a rewrite ends with its epoch, and only a complete and confirmed one
trims. It also ends with the tenure in which it began: a member that gives its role up and takes it
again in one epoch loads anew, and meanwhile `live` would yield nothing. A rewrite that fails leaves
both copies, which replay to the same state.

Source: LFS cleaning (Rosenblum and Ousterhout 1992); housekeeping.py says when.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from penstock.base.ids import NO_OFFSET, LeaderEpoch, Offset
from penstock.base.ports import Scheduler
from penstock.broker.coordinators.reasons import reason_of
from penstock.broker.partitions import HostedPartition
from penstock.coordinator.records import JournalRecord, records_bytes
from penstock.coordinator.unwritten import Unwritten
from penstock.replication.errors import ReplicationError
from penstock.storage.errors import StorageError

SLICE_BYTES = 256 * 1024
"""Bytes appended in one loop iteration: two or three milliseconds. A log with small segments takes
less before it needs the next file, which is prepared meanwhile."""

Confirmed = Callable[[Unwritten | None], None]
Append = Callable[[HostedPartition, Sequence[JournalRecord], Confirmed], int]
OnDone = Callable[[int | None], None]

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class Rewrite:
    """One rewrite in progress; its writer counts as an open batch until it has appended all."""

    hosted: HostedPartition
    live: Iterator[Sequence[JournalRecord]]
    on_done: OnDone
    is_over: Callable[[], bool]
    leader_epoch: LeaderEpoch
    first_offset: Offset = NO_OFFSET
    cut_offset: Offset = NO_OFFSET
    """Where the log is to begin: at the first offset, or below it at the first batch of the oldest
    transaction that was open when the rewrite began. What becomes of that one's records is said by
    a marker behind the rewrite."""
    live_bytes: int = 0
    open_count: int = 1
    error: Unwritten | None = None

    @property
    def is_of_another_time(self) -> bool:
        """Whether the mastership, or the tenure, in which it began is over."""
        hosted = self.hosted
        is_same = not hosted.is_dropped and hosted.member.leader_epoch == self.leader_epoch
        return self.is_over() or not is_same


class Rewriter:
    """Every rewrite of one broker: at most one per partition, of which one at a time appends."""

    def __init__(self, scheduler: Scheduler, append: Append) -> None:
        self._scheduler = scheduler
        self._append = append
        self._waiting: deque[Rewrite] = deque()
        self._of: dict[HostedPartition, Rewrite] = {}
        """Bounded by the number of partitions of the internal topic."""
        self._is_busy = False

    def begin(
        self,
        hosted: HostedPartition,
        live: Iterator[Sequence[JournalRecord]],
        on_done: OnDone,
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Queue the rewrite of a partition; return False while an earlier one is in progress.

        Once `is_over()`, `live` is not read and nothing is trimmed. `on_done` is called with the
        live bytes after the trim, or with None if there is none.
        """
        if hosted in self._of:
            return False
        epoch = hosted.member.leader_epoch
        rewrite = Rewrite(
            hosted=hosted, live=live, on_done=on_done, is_over=is_over, leader_epoch=epoch
        )
        self._of[hosted] = rewrite
        self._waiting.append(rewrite)
        if not self._is_busy:
            self._slice()
        return True

    def _slice(self) -> None:
        """Append a slice of the first rewrite in the queue; the rest follows later."""
        self._is_busy = True
        rewrite = self._waiting[0]
        if rewrite.first_offset < 0:
            rewrite.first_offset = rewrite.hosted.log.log_end_offset
            rewrite.cut_offset = min(rewrite.first_offset, _first_undecided(rewrite.hosted))
        is_over = rewrite.error is not None or rewrite.is_of_another_time
        if is_over:
            rewrite.error = rewrite.error or Unwritten.OVERTAKEN
        if is_over or self._append_some(rewrite):
            self._waiting.popleft()
            self._confirmed(rewrite, None)
        if self._waiting:
            self._scheduler.call_soon(self._slice)
        else:
            self._is_busy = False

    def _append_some(self, rewrite: Rewrite) -> bool:
        """Append until the slice is full; return whether nothing is left to append."""
        appended_bytes = 0
        slice_bytes = min(SLICE_BYTES, rewrite.hosted.member.log.slice_bytes)
        for records in rewrite.live:
            if not records:
                continue
            rewrite.open_count += 1
            size_bytes = records_bytes(records)
            try:
                self._append(rewrite.hosted, records, lambda error: self._confirmed(rewrite, error))
            except (StorageError, ReplicationError) as error:
                self._confirmed(rewrite, reason_of(error))
                return True
            rewrite.live_bytes += size_bytes
            appended_bytes += size_bytes
            if appended_bytes >= slice_bytes:
                return False
        return True

    def _confirmed(self, rewrite: Rewrite, error: Unwritten | None) -> None:
        if error is Unwritten.LATE:  # called again with the outcome
            return
        rewrite.error = rewrite.error or error
        rewrite.open_count -= 1
        if rewrite.open_count == 0:
            del self._of[rewrite.hosted]
            rewrite.on_done(rewrite.live_bytes if self._cut(rewrite) else None)

    @staticmethod
    def _cut(rewrite: Rewrite) -> bool:
        """Trim what a confirmed rewrite replaces; return whether that is all before it."""
        hosted = rewrite.hosted
        if rewrite.error is not None or rewrite.is_of_another_time:
            return False
        try:
            hosted.member.check_writable()
            hosted.member.log.delete_records(hosted.log, rewrite.cut_offset)
        except (StorageError, ReplicationError) as refused:
            log.warning("internal partition=%d not trimmed: %s", hosted.partition, refused)
            return False
        log.info("internal partition=%d rewritten from=%d", hosted.partition, rewrite.cut_offset)
        return rewrite.cut_offset == rewrite.first_offset


def _first_undecided(hosted: HostedPartition) -> Offset:
    """Return where the oldest transaction begins that is not known to be over; else the log end."""
    member = hosted.member
    begun = member.log.transactions.first_unstable(hosted.log, member.confirm_position)
    return hosted.log.log_end_offset if begun is None else begun.offset
