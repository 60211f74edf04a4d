"""An open log and how it is opened anew: the inner layer of SetLog.

    recover ─► LogParts ─► in use ─► realign: halt ─► nothing under way ─► off the loop:
                 ▲                            make the change certain, complete it, recover
                 └────────────── new parts ◄──────────────┘

The object stays the same over a truncation or a swap, and its parts are replaced. So no part has
code to roll its state back, and the code that runs after a crash runs in every truncation too.

A disk that is full meanwhile does not fence the log: it stays busy, and the change is retried until
there is space. A change that is already written to disk is completed and not planned again.

Source: Kafka closes and reopens a log it truncates (`UnifiedLog.truncateFullyAndStartAt`); here
recovery does it. This module knows neither runs nor partitions.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from penstock.base.callbacks import nothing
from penstock.base.errors import PlatformError
from penstock.base.ports import Clock, Disk, Offload, Scheduler
from penstock.storage.commit_log.parts import LogParts, LogPlace
from penstock.storage.commit_log.pending_change import read_change
from penstock.storage.config import LogConfig
from penstock.storage.errors import LogBusy, LogFenced, OutOfSpace
from penstock.storage.recover.recovery import Progress, Recovery
from penstock.storage.stores.port import Stores

Done = Callable[[PlatformError | None], None]


class LogCallback:
    """A callback that the owner sets on the log, and that one of its parts calls."""

    __slots__ = ("_name", "_part")

    def __init__(self, part: str, name: str) -> None:
        self._part = part
        self._name = name

    def __get__(self, log: "OpenLog", owner: type) -> Callable[..., None]:
        found: Callable[..., None] = getattr(getattr(log.parts, self._part), self._name)
        return found

    def __set__(self, log: "OpenLog", callback: Callable[..., None]) -> None:
        log.callbacks[self._part, self._name] = callback
        setattr(getattr(log.parts, self._part), self._name, callback)


class OpenLog:
    """Opens, reopens and closes the log in one directory.

    The owner sets the callbacks, called on the loop: `on_written()`, `on_flushed()`,
    `on_durable()` after the position of that name has moved, `on_fenced(error)` once.
    """

    on_written = LogCallback("writer", "on_written")
    on_flushed = LogCallback("writer", "on_flushed")
    on_durable = LogCallback("writer", "on_durable")
    on_fenced = LogCallback("writer", "on_fenced")
    on_damage = LogCallback("reader", "on_damage")
    """on_damage(position, reason): a read has found damaged bytes. May be called during the read,
    and more than once for the same place."""
    on_append_ready = LogCallback("appender", "on_ready")
    """Called when append_run, which took less than it was given, may take more."""

    def __init__(  # noqa: PLR0913  the ports, and where
        self,
        *,
        disk: Disk,
        directory: str,
        config: LogConfig,
        clock: Clock,
        offload: Offload,
        scheduler: Scheduler,
        older: Stores = (),
    ) -> None:
        """`older`: the stores behind the second level, newest first."""
        self.config = config
        self.directory = directory
        self._disk = disk
        self._place = LogPlace(disk, directory, config, clock, offload, scheduler, older)
        self._is_closed = False
        self._producer_ids_max = config.producer_ids_max
        self.callbacks: dict[tuple[str, str], Callable[..., None]] = {}
        """The callbacks that the owner has set, for the parts that replace the present ones."""
        self.on_reopened: Callable[[], None] = nothing
        """Called after a truncation, reset or install, just before the operation's own `done`:
        the `PartitionLog` objects and `epochs` are new, and positions have changed. A slave's log
        may also reopen by itself, when a crash has left it an extra, empty segment."""
        self.is_busy = False
        """Whether the log is being truncated, reset or replaced: other calls raise LogBusy."""
        self._use(LogParts(self._place))

    def _use(self, parts: LogParts) -> None:
        self.parts = parts
        self.writer = parts.writer
        self.partitions = parts.partitions
        self.recovery = parts.recovery
        """What the last recovery found."""
        self.append = parts.writer.append
        """append(partition, batch, header) -> base offset; see LogWriter.append."""
        self._store = parts.store
        self._reader = parts.reader
        self._checkpointer = parts.checkpointer
        self._states = parts.states
        self._states.capacity = self._producer_ids_max

    @property
    def place(self) -> LogPlace:
        """Where the log is and by which ports it is reached, for what is derived from it and kept
        beside it.
        """
        return self._place

    @classmethod
    def recover(  # noqa: PLR0913  the ports, and where
        cls,
        *,
        disk: Disk,
        directory: str,
        config: LogConfig,
        clock: Clock,
        offload: Offload,
        scheduler: Scheduler,
        older: Stores = (),
        progress: Progress | None = None,
    ) -> Self:
        """Open the log in `directory`, or create an empty one. Waits for the disk.

        Everything up to the end of the returned log is durable.

        Raises:
            CorruptLog: durable data is damaged or missing; nothing was changed.
            OutOfSpace: there is no room for a first segment, or for the snapshot at the end.
        """
        log = cls(
            disk=disk,
            directory=directory,
            config=config,
            clock=clock,
            offload=offload,
            scheduler=scheduler,
            older=older,
        )
        log.open(log.replay(progress or _no_progress))
        return log

    def replay(self, progress: Progress) -> Recovery:
        """Do the long part of `recover`: read the files. May run on another thread, once.

        Raises what `recover` raises, and what `progress` raises.
        """
        with _refused_without_space(self.directory):
            return self.parts.replay(progress)

    def open(self, recovery: Recovery) -> None:
        """Use the result of `replay`; the log can be used from then on. May wait for the disk."""
        with _refused_without_space(self.directory):
            self.parts.take_over(recovery)
        self._use(self.parts)
        self._store.prepare_next()

    @property
    def is_sole_member(self) -> bool:
        """Whether the log confirms itself (the default), so that snapshots need not wait.

        If not, no snapshot is written above `confirmed_position`. Set it before `open` if it is
        known by then; it may change at any time.
        """
        return self._checkpointer.is_sole_member

    @is_sole_member.setter
    def is_sole_member(self, is_sole: bool) -> None:
        self._checkpointer.is_sole_member = is_sole

    def let_remember(self, producers: int) -> None:
        """Remember at most `producers` from now on, or fewer if the settings say so."""
        self._producer_ids_max = min(producers, self.config.producer_ids_max)
        self._states.capacity = self._producer_ids_max

    @property
    def is_fenced(self) -> bool:
        """Whether a write or sync has failed: no more writes until the log is recovered."""
        return self.writer.fenced is not None and not self.is_busy

    def _realign(self, prepare: Callable[[], None], done: Done) -> None:
        """Open the log anew; `prepare`, off the loop, writes a pending change durably."""
        if self.is_busy or self._is_closed:
            done(LogBusy(self.directory))
            return
        self.is_busy = True
        self.parts.halt(lambda: self._reopen(prepare, done))

    def _reopen(self, prepare: Callable[[], None], done: Done) -> None:
        if self._is_closed:
            return
        parts = LogParts(self._place)
        parts.checkpointer.is_sole_member = self.is_sole_member
        disk, directory = self._disk, self.directory

        def work() -> None:
            with _refused_without_space(directory):
                if read_change(disk, directory) is None:
                    prepare()
                recovery = parts.replay(_no_progress)
                with _closed_on_error(parts):
                    parts.take_over(recovery)

        def opened(_: None, error: BaseException | None) -> None:
            if self._is_closed:
                parts.close()
            elif isinstance(error, OutOfSpace):
                self._reopen_later(prepare, done)
            else:
                self.is_busy = False
                if error is None:
                    self._go_on(parts, done)
                else:
                    self._fail(error, done)

        self._place.offload.submit(work, opened)

    def _reopen_later(self, prepare: Callable[[], None], done: Done) -> None:
        """Try again later, when there may be space; until then `is_full` is true."""
        self.writer.space.is_full = True
        delay = self.config.space_check_ms
        self._place.scheduler.call_later(delay, lambda: self._reopen(prepare, done))

    def _go_on(self, parts: LogParts, done: Done) -> None:
        old = self._checkpointer
        old.close()
        for (part, name), callback in self.callbacks.items():
            setattr(getattr(parts, part), name, callback)
        parts.checkpointer.note_confirmed(old.confirmed_position)
        if self.writer.is_following:
            parts.writer.follow()
        self._use(parts)
        self._store.prepare_next()
        self.on_reopened()
        done(None)
        self.on_append_ready()

    def _fail(self, error: BaseException, done: Done) -> None:
        """Leave the log closed; a change that was written is completed at the next start."""
        if not isinstance(error, OSError | PlatformError):
            raise error
        fenced = LogFenced(str(error))
        self.writer.fenced = fenced
        self.callbacks.get(("writer", "on_fenced"), nothing)(fenced)
        done(fenced)

    def settle(self, done: Callable[[], None]) -> None:
        """Sync everything, and call `done` when no sync is under way: `close` is clean then.

        If the sync fails, the log is fenced.
        """
        if self.is_busy or self._is_closed or self.is_fenced:
            done()
        else:
            self.writer.settle(done)

    def close(self) -> None:
        """Write, sync and snapshot everything, so that the next start has nothing to replay.

        Waits for the disk. No snapshot is written for a fenced log, nor while a sync is under way:
        that sync may fail, so the bytes may not be durable (call `settle` first). Nor is one
        written while the set has not confirmed the whole log: the next start then replays from
        the previous snapshot.

        Raises:
            LogFenced: what was written could not be synced. OSError: the snapshot was not written.
        """
        if self._is_closed:
            return
        self._is_closed = True
        if self.is_busy:
            return
        self.writer.on_turn = nothing
        try:
            if not self.is_fenced and self.writer.finish():
                end = self.writer.end_position
                if end == self.writer.written_position and self._checkpointer.may_write(end):
                    self._checkpointer.write_now(is_clean=True)
        finally:
            self.parts.close()


@contextmanager
def _closed_on_error(parts: LogParts) -> Iterator[None]:
    try:
        yield
    except (OSError, PlatformError):
        parts.close()
        raise


@contextmanager
def _refused_without_space(directory: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise OutOfSpace(directory, error.strerror) from error
        raise


def _no_progress(_done: int, _total: int) -> None:
    """Stand in for a progress callback that nobody has set."""
