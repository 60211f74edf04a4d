"""What a consumer will ask for next, read while it is still busy with what it got.

    fetch ─► answer ─► once it is written: the batches behind it ─► the next fetch finds them read

A consumer that is behind asks for more as soon as it has gone through an answer, and has nothing
to do until the next one comes: the reading and checking of that one is done meanwhile. Only for
partitions that are read in order, of what is in the page cache, within a fixed memory, and not
while other partitions of the fetch wait for their turn.

Nothing that is kept here can be out of date: what was confirmed never changes, and a log that is
opened anew comes with other PartitionLog objects. Who is served still goes through every check of
a fetch, so only the bytes come from here. What nobody asks for within a second or two is let go.

Source: ours; the read-ahead of file systems.
"""

from penstock.base.errors import PlatformError
from penstock.base.ports import Scheduler
from penstock.broker.partitions import HostedPartition
from penstock.broker.replica_set import Role
from penstock.broker.stats import BrokerStats
from penstock.storage.partition_log import PartitionLog
from penstock.storage.set_log import Chunk

SWEEP_MS = 1_000


class _Kept:
    __slots__ = ("chunk", "is_old")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.is_old = False


class ReadAhead:
    """Chunks that were read before they were asked for; at most one of a partition."""

    __slots__ = (
        "_capacity",
        "_due",
        "_is_sweep_due",
        "_kept",
        "_kept_bytes",
        "_scheduler",
        "_stats",
    )

    def __init__(self, scheduler: Scheduler, stats: BrokerStats, capacity_bytes: int) -> None:
        """`capacity_bytes` 0 switches it off."""
        self._scheduler = scheduler
        self._stats = stats
        self._capacity = capacity_bytes
        self._kept: dict[PartitionLog, _Kept] = {}
        self._kept_bytes = 0
        self._is_sweep_due = False
        self._due: dict[HostedPartition, tuple[int, int]] = {}
        """What is to be read in the next turn: offset, and how many bytes at most."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of records that wait to be asked for."""
        return self._kept_bytes

    def take(self, log: PartitionLog, offset: int, max_bytes: int) -> Chunk | None:
        """Return what was read from `offset` on, once, if it is no more than `max_bytes`."""
        kept = self._kept.get(log)
        if kept is None or kept.chunk.first_offset != offset or kept.chunk.size > max_bytes:
            return None
        self._drop(log)
        self._stats.reads_ahead_used += 1
        return kept.chunk

    def answered(
        self, hosted: HostedPartition, offset: int, next_offset: int, max_bytes: int
    ) -> None:
        """A fetch from `offset` was answered with `max_bytes` at most; there is more."""
        is_in_order = offset == hosted.next_fetch_offset
        hosted.next_fetch_offset = next_offset
        if not is_in_order or self._kept_bytes + max_bytes > self._capacity:
            return
        if not self._due:
            self._scheduler.call_soon(self._read)
        self._due[hosted] = (next_offset, max_bytes)

    def _read(self) -> None:
        due, self._due = self._due, {}
        for hosted, (offset, max_bytes) in due.items():
            log, member = hosted.log, hosted.member
            if hosted.is_dropped or member.role is not Role.MASTER or log in self._kept:
                continue
            left = self._capacity - self._kept_bytes
            if max_bytes > left or not log.log_start_offset <= offset < log.log_end_offset:
                continue
            try:
                found = member.log.read(log, offset, max_bytes, member.confirm_position)
            except PlatformError:
                continue  # the fetch itself will say so
            if isinstance(found, Chunk) and 0 < found.size <= left:
                self._keep(log, found)

    def _keep(self, log: PartitionLog, chunk: Chunk) -> None:
        self._kept[log] = _Kept(chunk)
        self._kept_bytes += chunk.size
        self._sweep_later()

    def _drop(self, log: PartitionLog) -> None:
        self._kept_bytes -= self._kept.pop(log).chunk.size

    def _sweep_later(self) -> None:
        """One timer for all: a chunk comes and goes with every fetch."""
        if not self._is_sweep_due:
            self._is_sweep_due = True
            self._scheduler.call_later(SWEEP_MS, self._sweep)

    def _sweep(self) -> None:
        self._is_sweep_due = False
        for log, kept in list(self._kept.items()):
            if kept.is_old:
                self._drop(log)
                self._stats.reads_ahead_dropped += 1
            kept.is_old = True
        if self._kept:
            self._sweep_later()
