"""Closes the open segment before it is full, where a partition in it must not wait for that.

    retention pass of a master ─► the oldest batch of each partition in the open segment
      ─► one has waited for longer than its topic allows ─► rolled; the next files begin small again

What is in the open segment is neither cleaned nor deleted, and a quiet node may take months to fill
one. All partitions of a set share it, so the one that allows least decides. How often is bounded,
whatever topics ask for: a closed file stays as long as level 0 keeps anything that is in it.

Where nothing is moved out of closed segments nothing is closed early: one partition with long
retention would keep all of these files.

Source: Kafka `LogConfig.maxSegmentMs`, KIP-354. Departures: it is done without an append, too; not
by segment.ms; at most once in `log.close_early_ms`. docs/adr/0114.
"""

from bisect import bisect_right
from contextlib import suppress

from penstock.storage.commit_log.segments import SegmentStore
from penstock.storage.commit_log.writer import LogWriter
from penstock.storage.config import LogConfig, Retention
from penstock.storage.errors import StorageError
from penstock.storage.index.partition_log import PartitionLog


class EarlyRoll:
    """Decides it for one log, one retention pass at a time. Used on the loop only."""

    def __init__(self, writer: LogWriter, store: SegmentStore, config: LogConfig) -> None:
        self._writer = writer
        self._store = store
        self._interval_ms = config.close_early_ms
        self._is_allowed = config.moves
        self._last_ms: int | None = None
        """When it was done last, by the time of retention; None: not since the log was opened."""
        self._is_wanted = False
        self.count = 0

    def look(self, partition: PartitionLog, settings: Retention, now_ms: int) -> None:
        """Note whether a partition has waited for too long, by the time of its oldest batch."""
        if settings.close_ms < 0 or self._is_wanted or not partition.bases:
            return
        start = partition.log_start_offset
        if start == partition.log_end_offset:
            return
        oldest = max(bisect_right(partition.bases, start) - 1, 0)
        at_ms = partition.timestamps[oldest]
        self._is_wanted = 0 <= at_ms < now_ms - settings.close_ms

    def end_pass(self, now_ms: int) -> None:
        """Close the segment if a partition asks for it, and the last time is long enough ago.

        If the log can not take the frames for it now, the next pass tries again.
        """
        is_wanted, self._is_wanted = self._is_wanted, False
        if not (is_wanted and self._is_allowed) or self._is_too_soon(now_ms):
            return
        with suppress(StorageError):
            self._writer.close_early()
            self._store.begin_small()
            self._last_ms = now_ms
            self.count += 1

    def _is_too_soon(self, now_ms: int) -> bool:
        # A clock that was set back does not stop it.
        return self._last_ms is not None and 0 <= now_ms - self._last_ms < self._interval_ms
