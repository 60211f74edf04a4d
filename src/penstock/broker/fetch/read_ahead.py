"""Reads ahead for consumers that are behind, while they process their last answer.

    fetch ─► answer ─► once it is written: read the predicted next fetch ─► the next fetch finds it
                                                                            read, or joins the read

A consumer that is behind fetches again as soon as it has processed an answer, and waits for the
next one: reading and checking that one is done meanwhile, on the loop if the page cache has it,
else in the Offload. Only for consumers whose last fetch was predicted (next_fetch.py), and within a
fixed memory.

Chunks kept here are never stale: confirmed records never change, and a log that is reopened comes
with other PartitionLog objects. A fetch still goes through all its checks; only the bytes come from
here. What was read up to a position is not for a fetch that may not read as far: one of committed
records gets what was read ahead of another such, or of a time before the transaction that is open.
What is not fetched within a second or two is dropped.

Source: ours; the read-ahead of file systems.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TypeAlias

from penstock.base.errors import PlatformError
from penstock.base.ids import Offset, Position
from penstock.base.ports import Scheduler
from penstock.broker.fetch.next_fetch import Upcoming
from penstock.broker.partitions import HostedPartition
from penstock.broker.stats import BrokerStats
from penstock.replica.replica_set import Role
from penstock.storage.commit_log.set_log import Chunk, Loaded, NeedsDisk
from penstock.storage.index.partition_log import PartitionLog

EndOf: TypeAlias = Callable[[HostedPartition], Position]
"""Returns the position (exclusive) up to which the consumer may read the partition."""

SWEEP_MS = 1_000
DUE_MAX = 64
"""Predicted fetches that wait to be read. Where more are answered at once, reads would be late."""


class _Kept:
    __slots__ = ("chunk", "is_old", "read_to")

    def __init__(self, chunk: Chunk, read_to: Position) -> None:
        self.chunk = chunk
        self.read_to = read_to
        self.is_old = False


class _Loading:
    """A read from disk in progress, and the one fetch that waits for it, if any."""

    __slots__ = ("max_bytes", "offset", "read_to", "waiter")

    def __init__(self, offset: Offset, max_bytes: int, read_to: Position) -> None:
        self.offset = offset
        self.read_to = read_to
        self.max_bytes = max_bytes
        self.waiter: Loaded | None = None

    def join(self, waiter: Loaded) -> None:
        """Call `waiter(chunk, error)` with the result."""
        self.waiter = waiter


class ReadAhead:
    """Chunks that were read in advance; at most one for each partition."""

    __slots__ = (
        "_capacity",
        "_due",
        "_is_sweep_due",
        "_kept",
        "_kept_bytes",
        "_loading",
        "_loading_bytes",
        "_scheduler",
        "_stats",
    )

    def __init__(self, scheduler: Scheduler, stats: BrokerStats, capacity_bytes: int) -> None:
        """`capacity_bytes` 0 disables it."""
        self._scheduler = scheduler
        self._stats = stats
        self._capacity = capacity_bytes
        self._kept: dict[PartitionLog, _Kept] = {}
        self._kept_bytes = 0
        self._loading: dict[PartitionLog, _Loading] = {}
        self._loading_bytes = 0
        self._is_sweep_due = False
        self._due: dict[PartitionLog, tuple[Iterator[Upcoming], int, EndOf]] = {}
        """Predicted fetches by their first partition, each read in an iteration of its own, with
        their limits. They keep the answers that they were predicted from."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of records that wait to be fetched."""
        return self._kept_bytes

    @property
    def _left_bytes(self) -> int:
        return self._capacity - self._kept_bytes - self._loading_bytes

    def take(
        self, log: PartitionLog, offset: Offset, max_bytes: int, limit_position: Position
    ) -> Chunk | NeedsDisk | None:
        """Return the chunk read from `offset` on, once, if it is not larger than `max_bytes`.

        Nothing that was read beyond `limit_position`. If the disk is still busy with it, `load` of
        the result waits for that read.
        """
        kept = self._kept.get(log)
        if kept is None:
            loading = self._loading.get(log)
            if loading is None:
                return None
            return self._take_loading(loading, offset, max_bytes, limit_position)
        if kept.chunk.first_offset != offset or kept.chunk.size > max_bytes:
            return None
        if kept.read_to > limit_position:
            return None
        self._drop(log)
        self._stats.reads_ahead_used += 1
        return kept.chunk

    def _take_loading(
        self, loading: _Loading, offset: Offset, max_bytes: int, limit_position: Position
    ) -> NeedsDisk | None:
        if loading.offset != offset or loading.waiter is not None:
            return None
        if loading.max_bytes > max_bytes or loading.read_to > limit_position:
            return None
        self._stats.reads_ahead_used += 1
        return NeedsDisk(loading.max_bytes, loading.join)

    def expect(
        self, coming: Iterator[Upcoming], max_bytes: int, end_of: EndOf, *, is_likely: bool
    ) -> None:
        """Prefetch the partitions of `coming`, the predicted next fetch in order, if `is_likely`.

        `max_bytes` is the size limit of the whole answer, `end_of` that of each partition.
        """
        first = next(coming, None)
        if first is None:
            return
        first.hosted.next_fetch_offset = first.offset
        log = first.hosted.log
        if not is_likely or not self._left_bytes:
            return
        if log not in self._due and len(self._due) >= DUE_MAX:
            return
        if not self._due:
            self._scheduler.call_soon(self._read_due)
        self._due[log] = (chain((first,), coming), max_bytes, end_of)  # in place of an older one

    def _read_due(self) -> None:
        """Read for one consumer; the next one follows in another loop iteration."""
        coming, left, end_of = self._due.pop(next(iter(self._due)))
        if self._due:
            self._scheduler.call_soon(self._read_due)
        for hosted, offset, wanted_bytes in coming:
            size = self._read(hosted, offset, min(wanted_bytes, left), end_of)
            left -= size
            if not size or left <= 0:
                break

    def _read(self, hosted: HostedPartition, offset: Offset, max_bytes: int, end_of: EndOf) -> int:
        """Read for one partition; return the bytes that it adds to the answer, 0 if unknown."""
        log, member = hosted.log, hosted.member
        if hosted.is_dropped or member.role is not Role.MASTER or max_bytes > self._left_bytes:
            return 0
        kept = self._kept.get(log)
        if kept is not None:
            return kept.chunk.size if kept.chunk.first_offset == offset else 0
        if log in self._loading or not log.log_start_offset <= offset < log.log_end_offset:
            return 0
        limit = end_of(hosted)
        try:
            found = member.log.read(log, offset, max_bytes, limit)
        except PlatformError:
            return 0  # the fetch itself will report the error
        if isinstance(found, NeedsDisk):
            self._load(log, _Loading(offset, max_bytes, limit), found)
        elif found.size <= max_bytes:
            self._keep(log, found, limit)
        return found.size

    def _load(self, log: PartitionLog, loading: _Loading, needs_disk: NeedsDisk) -> None:
        self._stats.fetch_cold_reads += 1
        self._loading[log] = loading
        self._loading_bytes += loading.max_bytes

        def loaded(chunk: Chunk | None, error: PlatformError | None) -> None:
            del self._loading[log]
            self._loading_bytes -= loading.max_bytes
            if loading.waiter is not None:
                loading.waiter(chunk, error)
            elif chunk is not None:
                self._keep(log, chunk, loading.read_to)

        needs_disk.load(loaded)

    def _keep(self, log: PartitionLog, chunk: Chunk, read_to: Position) -> None:
        if not 0 < chunk.size <= self._left_bytes:
            return
        self._kept[log] = _Kept(chunk, read_to)
        self._kept_bytes += chunk.size
        self._sweep_later()

    def _drop(self, log: PartitionLog) -> None:
        self._kept_bytes -= self._kept.pop(log).chunk.size

    def _sweep_later(self) -> None:
        """Use one timer for all: a chunk comes and goes with every fetch."""
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
