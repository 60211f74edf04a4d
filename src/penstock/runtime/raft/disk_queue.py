"""The disk side of a Raft member: makes Readys durable in order, one operation at a time.

    put ─► pending ─► one group: write, fsync (worker) ─► durable ─► take ─► finished by the driver

Readys that arrive while the disk is busy share the next write. A Ready that needs no disk is
returned as soon as it is first in the queue. While nothing is pending, the disk does deferred
work: compaction, preallocation, the commit mark.

A full disk halts the queue, which retries: what the core has handed out cannot be taken back.
Proposals do not get that far, since space is preallocated for them. A failed disk is final.
Source: raft/raft.py (the driver's duties 2 and 5). It neither applies entries nor sends messages.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from penstock.base.ports import Lane, Offload, Scheduler
from penstock.controller.errors import MetadataLogFenced, MetadataLogFull
from penstock.raft.entry import Entry
from penstock.raft.ids import NO_INDEX, NO_TERM, RaftIndex, Term
from penstock.raft.ready import HardState, Ready, Snapshot
from penstock.runtime.raft.storage import RaftStorage

T = TypeVar("T")

GROUP_READYS_MAX = 256
"""Most Readys that share one write; their entries are bounded by the core's in-flight limit."""

RETRY_MS = 200
"""Wait between two attempts to write to a full disk."""

log = logging.getLogger(__name__)


class DiskEvents(NamedTuple):
    """Callbacks of a DiskQueue, called on the event loop."""

    on_progress: Callable[[], None]
    """An operation has ended: `take` what is durable, then call `pump`."""
    on_full: Callable[[MetadataLogFull], None]
    """Pending entries did not fit on the disk; the write is retried."""
    on_failed: Callable[[MetadataLogFenced], None]
    """The disk has failed: nothing more will become durable."""


class DiskQueue:
    """See the module. All methods and callbacks run on the event loop."""

    def __init__(
        self, storage: RaftStorage, offload: Offload, scheduler: Scheduler, events: DiskEvents
    ) -> None:
        self._storage = storage
        self._offload = offload
        self._scheduler = scheduler
        self._events = events
        self._state = storage.found.state
        """Hard state as of the Readys that were written or did not need the disk."""
        self._pending: deque[Ready] = deque()
        self._durable_count = 0
        """Number of Readys at the front of `_pending` that are durable."""
        self._is_busy = False
        self.busy_ticks = 0
        """Duration of the current operation so far, in calls of `tick`."""
        self._is_waiting_for_room = False
        self._is_closed = False
        self._compaction: Snapshot | None = None
        self._mark: tuple[RaftIndex, Term] = (NO_INDEX, NO_TERM)
        self._marked: tuple[RaftIndex, Term] = (NO_INDEX, NO_TERM)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in progress or pending, so that proposals can be written at once."""
        return not (self._is_busy or self._pending or self._is_closed)

    @property
    def is_waiting_for_room(self) -> bool:
        """Whether the disk was full and the pending writes have not succeeded since."""
        return self._is_waiting_for_room

    @property
    def room_bytes(self) -> int:
        """Bytes of entries that fit into the preallocated space. Call only while idle."""
        assert not self._is_busy
        return self._storage.room_bytes

    def tick(self) -> None:
        """Count one tick of the current operation."""
        self.busy_ticks = self.busy_ticks + 1 if self._is_busy else 0

    def restart_ticks(self) -> None:
        """Restart the count of `busy_ticks` for the same operation."""
        self.busy_ticks = 0

    def put(self, ready: Ready) -> None:
        """Queue the next Ready."""
        self._pending.append(ready)

    def take(self) -> Ready | None:
        """Return the next Ready that is durable, in order and each once; None if there is none."""
        if not self._pending:
            return None
        if self._durable_count:
            self._durable_count -= 1
            return self._pending.popleft()
        if self._is_busy or _needs_disk(self._pending[0]):
            return None
        ready = self._pending.popleft()
        self._state = ready.hard_state or self._state
        return ready

    def compact(self, snapshot: Snapshot) -> None:
        """Replace the entries that `snapshot` covers by it, once the disk is free."""
        self._compaction = snapshot

    def mark_commit(self, index: RaftIndex, term: Term) -> None:
        """Note, once the disk is free, that the log is committed up to the entry (index, term)."""
        self._mark = (index, term)

    def reserve(self, size: int, done: Callable[[BaseException | None], None]) -> None:
        """Preallocate `size` bytes for entries. Call only while idle."""
        assert self.is_idle
        self._submit(lambda: self._storage.reserve(size), lambda error: self._after(done, error))

    def pump(self) -> None:
        """Begin the next operation, if there is one and none is in progress."""
        if self._is_busy or self._is_closed or self._is_waiting_for_room:
            return
        if len(self._pending) > self._durable_count:
            self._write()
        elif self._compaction is not None:
            snapshot, self._compaction = self._compaction, None
            self._submit(lambda: self._storage.compact(snapshot), self._on_compacted)
        elif self._mark != self._marked:
            index, term = self._marked = self._mark
            self._submit(lambda: self._storage.mark_commit(index, term), self._on_marked)

    def close(self) -> None:
        """Begin nothing more; an operation in progress finishes on its own."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._is_busy:
            self._storage.close()

    def _write(self) -> None:
        group = self._take_group()
        state = next((one.hard_state for one in reversed(group) if one.hard_state), self._state)
        entries = merge_entries(group)
        snapshot = group[0].snapshot
        if snapshot is None:
            work = lambda: self._storage.write(state, entries)  # noqa: E731  two of one kind
        else:
            installed = snapshot
            work = lambda: self._storage.install(installed, state, entries)  # noqa: E731
        self._submit(work, lambda error: self._on_written(len(group), state, error))

    def _take_group(self) -> list[Ready]:
        """Return the next Readys that fit one write; only the first may be a snapshot."""
        begin = self._durable_count
        first, *others = list(self._pending)[begin : begin + GROUP_READYS_MAX]
        group = [first]
        for ready in others:
            if ready.snapshot is not None:
                break
            group.append(ready)
        return group

    def _on_written(self, count: int, state: HardState, error: BaseException | None) -> None:
        if isinstance(error, MetadataLogFull):
            if not self._is_waiting_for_room:
                log.error("metadata log: %s; free space, it is tried again", error)
            self._is_waiting_for_room = True
            self._events.on_full(error)
            self._scheduler.call_later(RETRY_MS, self._retry)
            return
        if self._failed(error):
            return
        self._durable_count += count
        self._state = state
        self._events.on_progress()

    def _retry(self) -> None:
        self._is_waiting_for_room = False
        self.pump()

    def _on_compacted(self, error: BaseException | None) -> None:
        if isinstance(error, MetadataLogFull):
            log.warning("metadata snapshot put off: %s", error)
        elif self._failed(error):
            return
        self._events.on_progress()

    def _on_marked(self, error: BaseException | None) -> None:
        if not self._failed(error):
            self._events.on_progress()

    def _after(
        self, done: Callable[[BaseException | None], None], error: BaseException | None
    ) -> None:
        if isinstance(error, MetadataLogFull) or not self._failed(error):
            done(error)
            self._events.on_progress()

    def _failed(self, error: BaseException | None) -> bool:
        """Return whether the disk has failed; raise an error that no caller expects."""
        if error is None:
            return False
        if not isinstance(error, MetadataLogFenced):
            raise error
        self._events.on_failed(error)
        return True

    def _submit(
        self, work: Callable[[], None], done: Callable[[BaseException | None], None]
    ) -> None:
        assert not self._is_busy
        self._is_busy = True
        self.busy_ticks = 0

        def ended(_: None, error: BaseException | None) -> None:
            self._is_busy = False
            if self._is_closed:
                self._storage.close()
            else:
                done(error)

        self._offload.submit(work, ended, Lane.SYNC)


def merge_entries(group: list[Ready]) -> list[Entry]:
    """Return the log's tail after `group`, each Ready of which may overrule those before."""
    merged: list[Entry] = []
    for entries in (ready.entries for ready in group if ready.entries):
        if merged:
            del merged[max(0, entries[0].index - merged[0].index) :]
        merged.extend(entries)
    return merged


def _needs_disk(ready: Ready) -> bool:
    return ready.must_sync or bool(ready.entries) or ready.snapshot is not None
