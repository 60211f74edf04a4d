"""Rewrites internal partitions when the log that only they keep from deletion exceeds a limit.

    retention pass ─► its report: files that only internal partitions of this coordinator need
        above the limit? ─► rewrite all that need one of them ─► retention again ─► files deleted

A rewrite by size alone is not enough: a group that commits now and then has a few bytes in every
file, and a group that is idle for a year has a few in one. So the files they keep are counted, and
all partitions that keep the same file are rewritten together. A rewrite costs the live bytes, so
the limit is at least twice that: it never writes more than half of what it frees. An extent file
counts as what is needed of it, and a little for the file (storage/second_level/file_pins.py).

A rewrite without effect is not repeated at once: while the oldest of the files stays the same, the
wait doubles from one report to the next, up to WAIT_MAX reports.

Source: none; see docs/adr/0032, docs/adr/0130.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.ids import TopicPartition
from penstock.broker.partitions import HostedPartition

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.coordinators.hosted import HostedCoordinator
    from penstock.replica.replica_set import ReplicaSetMember

WAIT_MAX = 64

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Progress:
    """What was done about the pins of one log."""

    report_number: int = 0
    oldest: tuple[int, int] = (-1, -1)
    """The oldest segment, and the oldest extent file, that the last rewrite was to free."""
    fruitless: int = 0
    wait_reports: int = 0
    open_count: int = 0


class PinRelief:
    """Processes each new report of the logs that this broker is master of."""

    def __init__(self, broker: Broker, apply_retention: Callable[[ReplicaSetMember], None]) -> None:
        self._broker = broker
        self._apply_retention = apply_retention
        self._progress: dict[ReplicaSetMember, Progress] = {}

    def look(self, member: ReplicaSetMember, hosted: dict[TopicPartition, HostedPartition]) -> None:
        """Act on the log's newest report, if it is new. `hosted` are the internal partitions."""
        report = member.log.pins
        progress = self._progress.setdefault(member, Progress())
        if report.number == progress.report_number or progress.open_count:
            return
        progress.report_number = report.number
        movable = report.movable
        partitions = [hosted[each] for each in movable.partitions if each in hosted]
        if not partitions or movable.size_bytes < self._bound_bytes(partitions):
            return
        oldest = movable.oldest_base, movable.oldest_file
        if oldest != progress.oldest:
            progress.fruitless = progress.wait_reports = 0
        if progress.wait_reports:
            progress.wait_reports -= 1
            return
        progress.wait_reports = min(2**progress.fruitless - 1, WAIT_MAX)
        progress.fruitless = min(progress.fruitless + 1, WAIT_MAX)
        progress.oldest = oldest
        log.info(
            "set=%d pinned_bytes=%d by=%d internal partitions: rewritten",
            member.replica_set_id,
            movable.size_bytes,
            len(partitions),
        )
        self._move(member, progress, partitions)

    def forget(self, members: set[ReplicaSetMember]) -> None:
        """Forget the logs of members that are not among these."""
        for gone in self._progress.keys() - members:
            del self._progress[gone]

    def _move(
        self, member: ReplicaSetMember, progress: Progress, partitions: list[HostedPartition]
    ) -> None:
        """Rewrite them all; after the last one, apply retention again."""

        def done(_: bool) -> None:
            progress.open_count -= 1
            if not progress.open_count:
                self._apply_retention(member)

        progress.open_count = 1
        for hosted in partitions:
            progress.open_count += self._coordinator_of(hosted).rewrite(hosted, done)
        done(True)

    def _coordinator_of(self, hosted: HostedPartition) -> HostedCoordinator:
        return self._broker.coordinators[hosted.topic.name]

    def _bound_bytes(self, partitions: list[HostedPartition]) -> int:
        """Return the bytes above which a rewrite of these partitions is worth its cost."""
        live_bytes = bound = 0
        for hosted in partitions:
            base = self._coordinator_of(hosted).runtime.base
            live_bytes += base.rewrites.live_bytes(hosted.partition)
            bound = max(bound, base.config.rewrite_after_pinned_bytes)
        return max(bound, 2 * live_bytes)
