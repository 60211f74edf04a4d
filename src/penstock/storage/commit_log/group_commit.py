"""Group commit: one sync at a time, each for everything that was written when it began.

    written   ────A────B────C──►            A starts a sync; B and C are written meanwhile
    sync       [---A---][---B C---]         and share the next one, which starts at once

A sync covers every file written since the last one, oldest first, so that after a roll the flushed
position never passes unsynced data of an older file. The position is then noted (durable_mark.py).
Under `sync` each write requests a sync; under `async` they are started by time and by bytes.

After a failed sync there is no other: the kernel marks the lost pages as clean, so that the next
one would report success. For the same reason no sync starts while another one's result is unknown.

Files that are still to be synced stay open, however many segments are closed meanwhile.

Source: RocketMQ `GroupCommitService` and `FlushRealTimeService`; "fsyncgate". This module knows
files and positions, not their contents.
"""

from collections.abc import Callable

from penstock.base.ids import Position
from penstock.base.invariant import invariant
from penstock.base.ports import Cancellable, DiskFile, Lane, Offload, Scheduler
from penstock.storage.commit_log.durable_mark import DurableMark
from penstock.storage.commit_log.segments import ReadGuard
from penstock.storage.config import FlushPolicy, LogConfig


class _Sync:
    """A sync under way. Its outcome is noted here off the loop, before the loop is told."""

    __slots__ = ("error", "files", "has_worked", "target", "ticket")

    def __init__(self, files: list[DiskFile], target: Position, ticket: int) -> None:
        self.files = files
        self.target = target
        self.ticket = ticket
        """The read guard's ticket, which keeps the files open."""
        self.has_worked = False
        self.error: OSError | None = None

    def run(self, mark: DurableMark) -> None:
        """Sync the files, off the loop. Raises OSError."""
        try:
            for file in self.files:
                file.sync()
        except OSError as error:
            self.error = error
            raise
        mark.write(self.target)
        self.has_worked = True


class GroupCommit:
    """Syncs of one log. `on_synced(position)` and `on_failed(reason)` are called on the loop."""

    def __init__(  # noqa: PLR0913  ports and callbacks
        self,
        *,
        config: LogConfig,
        guard: ReadGuard,
        offload: Offload,
        scheduler: Scheduler,
        on_synced: Callable[[Position], None],
        on_failed: Callable[[str], None],
        mark: DurableMark,
    ) -> None:
        self._config = config
        self._guard = guard
        self._offload = offload
        self._scheduler = scheduler
        self._on_synced = on_synced
        self._on_failed = on_failed
        self._mark = mark
        self._is_sync_policy = config.flush_policy is FlushPolicy.SYNC
        self._unsynced: list[DiskFile] = []
        self._ticket = -1
        """Keeps `_unsynced` open; -1 while there are none."""
        self._under_way: _Sync | None = None
        self._written = self._synced = self._wanted = Position(0)
        self._timer: Cancellable | None = None
        self.is_stopped = False
        self._on_settled: Callable[[], None] | None = None

    def start(self, position: Position) -> None:
        """Begin at `position`, up to which everything is synced."""
        self._written = self._synced = self._wanted = position

    def note_written(self, file: DiskFile, position: Position) -> None:
        """Note that the log is written up to `position`, the newest bytes being in `file`."""
        if position < self._written:
            invariant(False, "the log is written upwards", at=position, written=self._written)
        self._written = position
        if not self._unsynced:
            self._ticket = self._guard.enter()
        elif self._unsynced[-1] is file:
            return
        self._unsynced.append(file)

    def follow_policy(self) -> None:
        """Sync what was written when the flush policy says so."""
        waiting = self._written - self._synced
        if self._is_sync_policy or waiting >= self._config.flush_interval_bytes:
            self.request()
        elif self._timer is None:
            delay = self._config.flush_interval_ms
            self._timer = self._scheduler.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.request()

    def request(self) -> None:
        """Sync everything written so far: start a sync now, or after the one under way."""
        self._wanted = self._written
        if self._under_way is not None or not self._unsynced or self.is_stopped:
            return
        sync = self._under_way = self._take()
        mark = self._mark

        def done(_: None, error: BaseException | None) -> None:
            self._guard.leave(sync.ticket)
            self._finished(sync.target, error)

        self._offload.submit(lambda: sync.run(mark), done, Lane.SYNC)

    def _take(self) -> _Sync:
        """Return a sync of everything written so far, which takes over the ticket of its files."""
        files, self._unsynced = self._unsynced, []
        ticket, self._ticket = self._ticket, -1
        return _Sync(files, self._written, ticket)

    def _finished(self, target: Position, error: BaseException | None) -> None:
        self._under_way = None
        if error is not None and not isinstance(error, OSError):
            raise error
        if not self.is_stopped:
            if error is not None:
                self._on_failed(f"sync failed: {error}")
            else:
                self._succeeded(target)
        self._tell_settled()

    def _succeeded(self, target: Position) -> None:
        is_between = self._synced <= target <= self._written
        invariant(is_between, "a sync covers what was written", at=target, synced=self._synced)
        self._synced = target
        self._on_synced(target)
        if target < self._wanted:
            self.request()
        elif target < self._written:
            self.follow_policy()

    def settle(self, action: Callable[[], None]) -> None:
        """Sync everything written, and run `action` when no sync is under way any more."""
        self.request()
        self._on_settled = action
        self._tell_settled()

    def _tell_settled(self) -> None:
        if self._under_way is None and self._on_settled is not None:
            settled, self._on_settled = self._on_settled, None
            settled()

    def stop(self) -> None:
        """Start no further sync, and ignore the result of the one under way."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._unsynced:
            self._guard.leave(self._take().ticket)

    def sync_now(self) -> bool:
        """Stop, and sync everything on the calling thread. Raises OSError.

        Returns whether all of it is certainly durable: False while another sync is under way, which
        may still fail without this one noticing.
        """
        before, rest = self._under_way, self._take() if self._unsynced else None
        self.stop()
        try:
            if before is not None and before.error is not None:
                raise before.error
            is_certain = before is None or before.has_worked
            for file in [*(before.files if before else ()), *(rest.files if rest else ())]:
                file.sync()
        finally:
            if rest is not None:
                self._guard.leave(rest.ticket)
        if is_certain:
            self._mark.write(self._written)
        return is_certain
