"""The record that a look-up by timestamp finds in its batch.

Source: Kafka `FileRecords.searchForTimestamp`, KIP-734.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.ids import NO_LEADER_EPOCH, LeaderEpoch
from penstock.broker.partitions import HostedPartition
from penstock.record.batch import read_header
from penstock.record.compression import Bounds
from penstock.record.errors import RecordError
from penstock.record.scan import first_record_at
from penstock.storage.commit_log.set_log import TimestampHit

MAX_TIMESTAMP = -3
OPENED_BYTES_MAX = 16 << 20
"""Decompressed bytes of a batch that are searched, on topics with small batches too."""
EMPTY_BATCHES_MAX = 8


class Found(NamedTuple):
    """An offset with its record's timestamp and leader epoch; -1 if there is none."""

    offset: int
    timestamp: int = -1
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH


class RecordSearch:
    """Finds the record in a batch; called off the loop.

    Batches are accepted from producers unopened, so one may turn out to be invalid, or larger than
    what is decompressed here. Then its first record is returned: a client that reads from there
    misses nothing. The same holds for a batch without the timestamp that its header names, after
    a few such batches were skipped, and for the next batch of all once the client has gone.
    """

    def __init__(
        self,
        hosted: HostedPartition,
        timestamp: int,
        has_gone: Callable[[], bool],
        start: int | None = None,
    ) -> None:
        """`has_gone` tells whether the client has; `start`: where what is searched begins, if that
        is not the log of this member.
        """
        self._start = start
        self._has_gone = has_gone
        self._log = hosted.log
        self._timestamp = timestamp
        self._bounds = Bounds(max(hosted.topic.rules.bounds.output_bytes_max, OPENED_BYTES_MAX))
        self._empty_count = 0

    def __call__(self, hit: TimestampHit) -> Found | None:
        """Return the offset of the record, None to continue with the next batch."""
        header = read_header(hit.batch)
        is_newest = self._timestamp == MAX_TIMESTAMP
        wanted = hit.max_timestamp if is_newest else self._timestamp
        start = self._log.log_start_offset if self._start is None else self._start
        first = Found(max(header.base_offset, start), hit.max_timestamp, header.leader_epoch)
        if self._has_gone():
            return first
        if header.last_offset < start:
            return None
        try:
            found = first_record_at(hit.batch, wanted, start, self._bounds)
        except RecordError:
            return first
        if found is not None:
            return Found(*found, header.leader_epoch)
        self._empty_count += 1
        return first if is_newest or self._empty_count > EMPTY_BATCHES_MAX else None
