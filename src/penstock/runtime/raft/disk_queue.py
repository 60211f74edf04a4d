"""The disk's side of a Raft member: Readys become durable in order, one operation at a time.

    put ─► pending ─► one group: write, fsync (worker) ─► durable ─► take ─► finished by the driver

Readys that wait while the disk is busy share the next write. A Ready that needs no disk is taken
as soon as it is at the front. Between Readys, when nothing is pending, the disk does what can wait:
compaction, setting space aside, the commit mark.

A full disk halts the queue, which tries again: what the core has handed out can not be taken back.
Proposals do not get that far, since space is set aside for them first. A failed disk is final.

Source: raft/raft.py (the driver's duties 2 and 5). It applies nothing and sends nothing.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.base.ports import Offload, Scheduler
from penstock.controller.errors import MetadataLogFenced, MetadataLogFull
from penstock.raft.entry import Entry
from penstock.raft.ready import HardState, Ready, Snapshot
from penstock.runtime.raft.storage import RaftStorage

T = TypeVar("T")

GROUP_READYS_MAX = 256
"""Readys that share one write; their entries are bounded by what the core has under way."""

RETRY_MS = 200
"""Between two attempts to write to a full disk."""

log = logging.getLogger(__name__)


class DiskQueueOwner(Protocol):
    """Who is told; on the loop."""

    def on_disk_progress(self) -> None:
        """Learn that an operation has ended: take what is durable, then call `pump`."""

    def on_disk_full(self, error: MetadataLogFull) -> None:
        """Learn that pending entries found no room; it is tried again."""

    def on_disk_failed(self, error: MetadataLogFenced) -> None:
        """Learn that nothing will become durable any more."""


class DiskQueue:
    """See the module. All methods and callbacks are for the loop."""

    def __init__(
        self, storage: RaftStorage, offload: Offload, scheduler: Scheduler, owner: DiskQueueOwner
    ) -> None:
        self._storage = storage
        self._offload = offload
        self._scheduler = scheduler
        self._owner = owner
        self._state = storage.found.state
        """Hard state as of the Readys that were written or needed no disk."""
        self._pending: deque[Ready] = deque()
        self._durable_count = 0
        """How many at the front of `_pending` are durable."""
        self._is_busy = False
        self.busy_ticks = 0
        """How long the operation under way takes already, in calls of `tick`."""
        self._is_waiting_for_room = False
        self._is_closed = False
        self._compaction: Snapshot | None = None
        self._mark: tuple[int, int] = (0, 0)
        self._marked: tuple[int, int] = (0, 0)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way and nothing is pending: a good moment for proposals."""
        return not (self._is_busy or self._pending or self._is_closed)

    @property
    def is_waiting_for_room(self) -> bool:
        """Whether the disk was full and what is pending is still not written."""
        return self._is_waiting_for_room

    @property
    def room_bytes(self) -> int:
        """Bytes of entries that are sure to find space. Ask only while it is idle."""
        assert not self._is_busy
        return self._storage.room_bytes

    def tick(self) -> None:
        """Let one tick of time pass."""
        self.busy_ticks = self.busy_ticks + 1 if self._is_busy else 0

    def restart_ticks(self) -> None:
        """Count from anew, though the same operation is under way."""
        self.busy_ticks = 0

    def put(self, ready: Ready) -> None:
        """Take the next Ready."""
        self._pending.append(ready)

    def take(self) -> Ready | None:
        """Return the next Ready whose disk work is done, in order, each once."""
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
        """Keep `snapshot` in place of the entries it stands for, when the disk is free."""
        self._compaction = snapshot

    def mark_commit(self, index: int, term: int) -> None:
        """Note, when the disk is free, that the log is agreed up to the entry (index, term)."""
        self._mark = (index, term)

    def reserve(self, size: int, done: Callable[[BaseException | None], None]) -> None:
        """Set space aside for `size` bytes of entries; only while it is idle."""
        assert self.is_idle
        self._submit(lambda: self._storage.reserve(size), lambda error: self._after(done, error))

    def pump(self) -> None:
        """Begin the next operation, if there is one and none is under way."""
        if self._is_busy or self._is_closed or self._is_waiting_for_room:
            return
        if self._pending:
            self._write()
        elif self._compaction is not None:
            snapshot, self._compaction = self._compaction, None
            self._submit(lambda: self._storage.compact(snapshot), self._on_compacted)
        elif self._mark != self._marked:
            index, term = self._marked = self._mark
            self._submit(lambda: self._storage.mark_commit(index, term), self._on_marked)

    def close(self) -> None:
        """Begin nothing more; the operation under way, if any, finishes on its own."""
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
        """Return the Readys at the front that one write can carry: a snapshot goes first in one."""
        group = [self._pending[0]]
        for ready in list(self._pending)[1:GROUP_READYS_MAX]:
            if ready.snapshot is not None:
                break
            group.append(ready)
        return group

    def _on_written(self, count: int, state: HardState, error: BaseException | None) -> None:
        if isinstance(error, MetadataLogFull):
            if not self._is_waiting_for_room:
                log.error("metadata log: %s; free space, it is tried again", error)
            self._is_waiting_for_room = True
            self._owner.on_disk_full(error)
            self._scheduler.call_later(RETRY_MS, self._retry)
            return
        if self._failed(error):
            return
        self._durable_count = count
        self._state = state
        self._owner.on_disk_progress()

    def _retry(self) -> None:
        self._is_waiting_for_room = False
        self.pump()

    def _on_compacted(self, error: BaseException | None) -> None:
        if isinstance(error, MetadataLogFull):
            log.warning("metadata snapshot put off: %s", error)
        elif self._failed(error):
            return
        self._owner.on_disk_progress()

    def _on_marked(self, error: BaseException | None) -> None:
        if not self._failed(error):
            self._owner.on_disk_progress()

    def _after(
        self, done: Callable[[BaseException | None], None], error: BaseException | None
    ) -> None:
        if isinstance(error, MetadataLogFull) or not self._failed(error):
            done(error)
            self._owner.on_disk_progress()

    def _failed(self, error: BaseException | None) -> bool:
        """Return whether the disk has failed; raise what is nobody's expected outcome."""
        if error is None:
            return False
        if not isinstance(error, MetadataLogFenced):
            raise error
        self._owner.on_disk_failed(error)
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

        self._offload.submit(work, ended)


def merge_entries(group: list[Ready]) -> list[Entry]:
    """Return what the log ends with after all of these: each replaces from its first index on."""
    merged: list[Entry] = []
    for entries in (ready.entries for ready in group if ready.entries):
        if merged:
            del merged[max(0, entries[0].index - merged[0].index) :]
        merged.extend(entries)
    return merged


def _needs_disk(ready: Ready) -> bool:
    return ready.must_sync or bool(ready.entries) or ready.snapshot is not None
