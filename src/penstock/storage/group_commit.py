"""Group commit: one sync at a time, each for everything that was written when it began.

    written   ────A────B────C──►            A starts a sync; B and C are written meanwhile
    sync       [---A---][---B C---]         and share the next one, which starts at once

A sync takes every file written since the last one, oldest first: so a roll never lets the flushed
position pass data of an older file. Then it is noted (durable_mark.py). Under `sync` each write
asks for one; under `async` they come by time and by bytes.

Source: RocketMQ `GroupCommitService` and `FlushRealTimeService`. It knows files and positions,
not what is in them.
"""

from collections.abc import Callable

from penstock.base.ports import Cancellable, DiskFile, Offload, Scheduler
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.storage.durable_mark import DurableMark
from penstock.storage.segments import ReadGuard


class GroupCommit:
    """Syncs of one log. `on_synced(position)` and `on_failed(reason)` are called on the loop."""

    def __init__(  # noqa: PLR0913  ports and callbacks
        self,
        *,
        config: LogConfig,
        guard: ReadGuard,
        offload: Offload,
        scheduler: Scheduler,
        on_synced: Callable[[int], None],
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
        self._in_sync: list[DiskFile] = []
        self._written = 0
        self._synced = 0
        self._wanted = 0
        self._timer: Cancellable | None = None
        self.is_stopped = False

    def start(self, position: int) -> None:
        """Begin at `position`, up to which everything is synced."""
        self._written = self._synced = self._wanted = position

    def note_written(self, file: DiskFile, position: int) -> None:
        """Take note that the log is written up to `position`, the newest bytes in `file`."""
        self._written = position
        if not self._unsynced or self._unsynced[-1] is not file:
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
        """Have everything written so far synced, by the sync under way or the next one."""
        self._wanted = self._written
        if self._in_sync or not self._unsynced or self.is_stopped:
            return
        target = self._written
        files, self._unsynced = self._unsynced, []
        self._in_sync = files
        ticket, mark = self._guard.enter(), self._mark

        def work() -> None:
            for file in files:
                file.sync()
            mark.write(target)

        def done(_: None, error: BaseException | None) -> None:
            self._guard.leave(ticket)
            self._finished(target, error)

        self._offload.submit(work, done)

    def _finished(self, target: int, error: BaseException | None) -> None:
        self._in_sync = []
        if self.is_stopped:
            return
        if error is not None:
            if not isinstance(error, OSError):
                raise error
            self._on_failed(f"sync failed: {error}")
            return
        self._synced = target
        self._on_synced(target)
        if target < self._wanted:
            self.request()
        elif target < self._written:
            self.follow_policy()

    def stop(self) -> None:
        """Start no sync any more, and take no result of the one under way."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def sync_now(self) -> None:
        """Stop, and sync everything here and now, waiting for it. Raises OSError."""
        self.stop()
        for file in [*self._in_sync, *self._unsynced]:
            file.sync()
        self._mark.write(self._written)
        self._unsynced = []
