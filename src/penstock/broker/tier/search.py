"""Look-ups by timestamp over what only the tier has, before or after those in the log.

    first at a timestamp     the tier below the local start, then the log
    largest timestamp        the log, then the tier where it has the same one or a larger one

A look-up that may need the store waits in a queue of its own, whole: the store may take seconds,
and look-ups that the disk answers do not wait for it (ADR 0163).

Source: KIP-405 (ListOffsets with a timestamp); Kafka `RemoteLogManager.findOffsetByTimestamp`, with
threads of its own (`remote.log.reader.threads`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.broker.errors import TierUnavailable
from penstock.broker.fetch.record_search import Found, RecordSearch
from penstock.broker.look_ups import Client
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import first_offset, known_first_offset
from penstock.broker.tier.view import TierView

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.look_ups import LookUps

Done = Callable[[Found | None, PlatformError | None], None]


def queue_of(broker: Broker, hosted: HostedPartition) -> LookUps:
    """Return where a look-up by time in a partition waits for its turn."""
    start = first_offset(hosted, broker.tier)
    is_on_disk = start is not None and start >= hosted.log.log_start_offset
    return broker.look_ups if is_on_disk else broker.tier_look_ups


class TierSearch(NamedTuple):
    """One look-up in one partition."""

    hosted: HostedPartition
    timestamp: int
    client: Client
    tier: TierView | None

    def first_up_to(self, limit: Position, done: Done) -> None:
        """Find the first record of that time or a later one, below a position of the log."""
        log, find = self.hosted.log, self.hosted.member.log.offset_for_timestamp
        has_gone = self.client.has_gone
        examine = RecordSearch(self.hosted, self.timestamp, has_gone, log.log_start_offset)

        def here() -> None:
            try:
                find(log, self.timestamp, limit, done, examine=examine)
            except PlatformError as error:
                done(None, error)

        self.first(done, here)

    def first(self, done: Done, here: Callable[[], None]) -> None:
        """Search the tier for the timestamp; call `here` if it has nothing so late."""
        log, begun = self.hosted.log, self.hosted.log.log_start_offset

        def searched(found: Found | None, error: PlatformError | None) -> None:
            if found is not None or error is not None:
                done(found, error)
            elif log.log_start_offset != begun:  # the disks were freed of something meanwhile
                done(None, TierUnavailable("the local start has risen while the tier was searched"))
            else:
                here()

        self._search(self.timestamp, searched)

    def newest(self, done: Done, found: Found | None, error: PlatformError | None) -> None:
        """Take what the log has told, and see whether the tier has a larger timestamp."""
        if error is not None:
            done(None, error)
            return
        try:
            newest = self._newest_below()
        except TierUnavailable as unknown:
            done(None, unknown)
            return
        if newest < 0 or (found is not None and found.timestamp > newest):
            done(found, None)
            return
        self._search(newest, lambda hit, failed: done(hit or found, failed))

    def _newest_below(self) -> int:
        """Return the largest timestamp of what only the tier has; -1: there is nothing.

        Raises TierUnavailable.
        """
        local_start = self.hosted.log.log_start_offset
        if known_first_offset(self.hosted, self.tier) >= local_start:
            return -1
        assert self.tier is not None
        manifest = self.tier.manifest(self.hosted.member, self.hosted.log.topic_partition)
        assert manifest is not None
        runs = [run for run in manifest.runs if run.first_offset < local_start]
        return max((run.entry.max_timestamp for run in runs), default=-1)

    def _search(self, timestamp: int, done: Done) -> None:
        hosted, local_start = self.hosted, self.hosted.log.log_start_offset
        try:
            start = known_first_offset(hosted, self.tier)
        except TierUnavailable as unknown:
            done(None, unknown)
            return
        if start >= local_start:
            done(None, None)
            return
        assert self.tier is not None
        examine = RecordSearch(hosted, timestamp, self.client.has_gone, start)
        host, offsets = self.client.client_host, (start, local_start)
        self.tier.reads.search(host, hosted, offsets, timestamp, examine, done=done)
