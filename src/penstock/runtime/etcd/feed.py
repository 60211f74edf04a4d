"""From committed entries to the state machine: in order, each once, durable before applied.

    watch, pages, own appends ─► offer ─► queue ─► local copy (fsync) ─► machine.apply ─► waiters

Several sources may offer the same entry; the index decides. The queue is bounded by its sources:
each waits until what it offered is applied before it fetches more. A full disk halts the feed and
is retried each second; a failed one ends it (`on_failed`).

Source: controller/replicated_log.py, rules 1, 2 and 4.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock.base.invariant import invariant
from penstock.controller.errors import (
    MetadataError,
    MetadataLogFenced,
    MetadataLogFull,
    MetadataUnavailable,
)
from penstock.controller.replicated_log import ProposalDone, StateMachine
from penstock.runtime.etcd.entry import Entry, EntryId
from penstock.runtime.etcd.local_copy import LocalCopy

FULL_DISK_RETRY_S = 1.0

BATCH_ENTRIES_MAX = 1_000
"""Entries in one write of the local copy."""

log = logging.getLogger(__name__)


class Feed:
    """See the module. All methods and callbacks run on the event loop."""

    def __init__(self, copy: LocalCopy, loop: asyncio.AbstractEventLoop) -> None:
        self._copy = copy
        self._loop = loop
        self._machine: StateMachine | None = None
        self._queue: list[Entry] = []
        self._writing = False
        self._is_closed = False
        self._dones: dict[EntryId, ProposalDone] = {}
        self._drained = asyncio.Event()
        self._drained.set()
        self.applied_index = 0
        self.applied_id: EntryId = copy.found.snapshot_id
        self.offered_index = 0
        """Index of the last entry in the queue or applied."""
        self.is_stalled = False
        """Whether the local disk is full."""
        self.on_applied: Callable[[], None] = lambda: None
        """Called after each batch, and when the disk turns out to be full."""
        self.on_failed: Callable[[Exception], None] = lambda error: None
        """Called once when the local disk has failed."""

    @property
    def last_known_id(self) -> EntryId:
        """Id of the last entry in the local copy before `start`, afterwards of the last applied."""
        found = self._copy.found
        return found.entries[-1].entry_id if found.entries else self.applied_id

    @property
    def is_idle(self) -> bool:
        """Whether everything offered is applied."""
        return self._drained.is_set()

    def start(self, machine: StateMachine) -> None:
        """Restore the machine from the local copy."""
        assert self._machine is None, "a log is started once"
        self._machine = machine
        found = self._copy.found
        self.applied_index = self.offered_index = found.snapshot_index
        if found.snapshot_index:
            machine.install_snapshot(found.snapshot_index, found.snapshot)
        self.offered_index += len(found.entries)
        for entry in found.entries:
            self._apply(entry)
        self._copy.found = found._replace(snapshot=b"", entries=[])

    def offer(self, index: int, entry: Entry) -> bool:
        """Queue a committed entry unless it is known; return False if earlier ones are missing."""
        if self._is_closed or index <= self.offered_index:
            return True
        if index > self.offered_index + 1:
            return False
        self.offered_index = index
        self._queue.append(entry)
        self._drained.clear()
        self._loop.call_soon(self._write)
        return True

    def when_applied(self, entry_id: EntryId, done: ProposalDone) -> None:
        """Call `done` with the index right after that entry is applied, whichever source has it."""
        assert entry_id not in self._dones
        self._dones[entry_id] = done

    def forget(self, entry_id: EntryId) -> None:
        """Drop the callback for that entry."""
        self._dones.pop(entry_id, None)

    async def drained(self) -> None:
        """Wait until everything offered is applied."""
        await self._drained.wait()

    async def install(self, index: int, entry_id: EntryId, snapshot: bytes) -> None:
        """Replace everything by a snapshot of entries that this process lacks.

        Raises:
            MetadataUnavailable: the local disk failed or is full.
        """
        await self.drained()
        if self._is_closed or index <= self.applied_index:
            return
        written: asyncio.Future[MetadataError | None] = self._loop.create_future()
        self._copy.replace(index, entry_id, snapshot, written.set_result)
        error = await written
        if isinstance(error, MetadataLogFenced):
            self.on_failed(error)
        if error is not None:
            raise MetadataUnavailable(f"a metadata snapshot was not installed: {error}")
        assert self._machine is not None
        self.applied_index = self.offered_index = index
        self.applied_id = entry_id
        log.info("metadata snapshot installed index=%d bytes=%d", index, len(snapshot))
        self._machine.install_snapshot(index, snapshot)
        self.on_applied()

    def close(self, error: MetadataError) -> None:
        """Apply nothing more and fail all waiters."""
        self._is_closed = True
        self._queue.clear()
        self._drained.set()
        dones, self._dones = self._dones, {}
        for done in dones.values():
            self._loop.call_soon(done, error)

    def _write(self) -> None:
        if self._writing or not self._queue or self._is_closed:
            return
        self._writing = True
        batch = self._queue[:BATCH_ENTRIES_MAX]
        first_index = self.applied_index + 1
        invariant(
            first_index + len(self._queue) - 1 == self.offered_index,
            "the queue ends with the last entry offered",
        )
        self._copy.append(first_index, batch, lambda error: self._on_written(batch, error))

    def _on_written(self, batch: list[Entry], error: MetadataError | None) -> None:
        self._writing = False
        if self._is_closed:
            return
        if error is not None:
            self._on_not_written(error)
            return
        self.is_stalled = False
        del self._queue[: len(batch)]
        for entry in batch:
            self._apply(entry)
            if self._is_closed:
                return
        if self._queue:
            self._write()
        else:
            self._drained.set()
        self.on_applied()

    def _on_not_written(self, error: MetadataError) -> None:
        if isinstance(error, MetadataLogFull):
            log.warning("metadata is not applied: %s; free space", error)
            self.is_stalled = True
            self._loop.call_later(FULL_DISK_RETRY_S, self._write)
            self.on_applied()
        else:
            self.on_failed(error)

    def _apply(self, entry: Entry) -> None:
        assert self._machine is not None
        self.applied_index += 1
        self.applied_id = entry.entry_id
        self._machine.apply(self.applied_index, entry.payload)
        done = self._dones.pop(entry.entry_id, None)
        if done is not None:
            done(self.applied_index)
