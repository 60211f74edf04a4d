"""Retention rules by age and size, the same for every store.

    oldest store ... commit log:  piece after piece ─► out of retention? log start behind it

A piece is a group of batches of one partition that a store deletes together, such as its batches in
one segment. Data is deleted piece by piece and from the old end only: a piece is judged when
everything before it is gone. It is needed as long as the log start is not behind it.

Source: Kafka `UnifiedLog.deleteOldSegments` (retention.ms, retention.bytes).
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from penstock.base.ids import Offset, TopicPartition
from penstock.storage.config import Retention
from penstock.storage.index.partition_log import PartitionLog

SettingsOf = Callable[[TopicPartition], Retention]
OlderBytes = Callable[[PartitionLog], int]


class Piece(Protocol):
    """Consecutive batches of one partition: offsets [first_offset, end_offset)."""

    @property
    def first_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def batch_bytes(self) -> int: ...


class RetentionRules:
    """Judges the pieces of one pass. Used on the loop only."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, PartitionLog],
        now_ms: int,
        settings_of: SettingsOf,
        older_bytes: OlderBytes,
        raised: Callable[[PartitionLog], None] | None = None,
    ) -> None:
        """`raised` is told of each partition whose log start has been raised."""
        self.partitions = partitions
        self._raised = raised
        self.now_ms = now_ms
        self.settings_of = settings_of
        self._older_bytes = older_bytes
        """Bytes of a partition in the stores behind the commit log."""
        self._kept: set[int] = set()
        """Serials of partitions with a piece that this pass keeps: all later pieces stay."""

    def is_needed(self, partition: PartitionLog, settings: Retention, piece: Piece) -> bool:
        """Raise the log start if the piece is out of retention; return whether it is needed.

        If the log start is raised meanwhile beyond a piece that this pass keeps, the next pass
        handles it: sizes are subtracted in order, from the oldest piece on.
        """
        if partition.serial in self._kept:
            return True
        start = partition.log_start_offset
        if piece.first_offset <= start < piece.end_offset and self._is_over(
            settings, partition, piece
        ):
            partition.raise_log_start(piece.end_offset)
            if self._raised is not None:
                self._raised(partition)
        if partition.log_start_offset < piece.end_offset:
            self._kept.add(partition.serial)
            return True
        return False

    def _is_over(self, settings: Retention, partition: PartitionLog, piece: Piece) -> bool:
        keep_bytes, keep_ms = settings.bytes, settings.ms
        if keep_ms >= 0 and 0 <= piece.max_timestamp < self.now_ms - keep_ms:
            return True
        if keep_bytes < 0:
            return False
        kept_bytes = partition.size_bytes + self._older_bytes(partition)
        return keep_bytes <= kept_bytes - piece.batch_bytes
