"""What replication asks of a commit log: the door's methods for masters, slaves and rebuilding.

    master   read_run ──► Run ──► append_run   slave
             note_confirmed on both;  truncate, reset_to before a slave follows another master
             export_base ──► BaseImage, raw segments ──► begin_install .. finish_install

Source: ADR 0009. All of it is called on the loop, nothing waits.
It knows no peers and no connections.
"""

import errno
from collections.abc import Callable
from functools import partial

from penstock.base.errors import PlatformError
from penstock.storage.commit_log.open_log import Done, OpenLog
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.pending_change import PendingChange, write_change
from penstock.storage.commit_log.truncation import plan_reset, plan_truncation
from penstock.storage.errors import BadInstall, LogBusy, OutOfSpace, PositionOutOfRange
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.replicate.base_export import BaseExport, Exports
from penstock.storage.replicate.base_image import BaseImage
from penstock.storage.replicate.install import LogInstall
from penstock.storage.replicate.run import ColdRun, Run

Moved = Callable[[int, PlatformError | None], None]


class ReplicableLog(OpenLog):
    """The part of SetLog that replication drives."""

    _install: LogInstall | None = None

    def _use(self, parts: LogParts) -> None:
        super()._use(parts)
        parts.appender.on_rejoin = self._rejoin
        self._exports = Exports(self._disk, self.directory, parts)

    @property
    def start_position(self) -> int:
        """Lowest position from which runs can be read to the end without a hole."""
        return self.parts.runs.start_position

    @property
    def confirmed_position(self) -> int:
        """What note_confirmed has said; after a start at least the snapshot's position.

        A log that is alone in its set does not need to be told: ask durable_position there.
        """
        return self._checkpointer.confirmed_position

    @property
    def snapshot_position(self) -> int:
        """Position of the newest snapshot on the disk; truncating below it is a rebuild."""
        return self._checkpointer.saved_position

    @property
    def is_following(self) -> bool:
        """Whether the log takes a master's runs only; begin_epoch ends that."""
        return self.writer.is_following

    def follow(self) -> None:
        """Take nothing but a master's runs from now on; append raises LogFollows.

        Call it where the owner becomes a slave, and at the start as long as it has no role:
        retention then appends nothing either.
        """
        self.writer.follow()

    def read_run(
        self, position: int, max_bytes: int, limit_position: int, *, is_checked: bool = False
    ) -> Run | ColdRun:
        """Return whole frames from `position` on, none that ends above `limit_position`.

        Never across a segment or a leader epoch; at least one frame even if it is larger than
        `max_bytes`; none when there is nothing yet. The run begins at `position`, or at the next
        segment where no frame can follow in this one. Go on at its `next_position`.

        Raises (here or in `load`):
            PositionOutOfRange: below start_position (a base image is needed) or above the end.
            CorruptFrame: no frame begins at `position`, or (from the disk, or `is_checked`) one is
            damaged. LogBusy, ReadFailed.
        """
        return self.parts.runs.read(position, max_bytes, limit_position, is_checked=is_checked)

    def append_run(self, run: Run) -> int:
        """Append a master's frames as they are; return how many bytes were taken.

        Fewer than all, maybe 0, when something has to happen first: a sync, because frames may
        not say of bytes that they are flushed while here they are not; the next file. Keep
        `run.after(taken)` and call again at `on_append_ready`. A run of no bytes does nothing.

        Raises, with nothing changed:
            GapInRun: it does not begin at end_position: negotiate again.
            BadRun: a frame is damaged, or does not follow from what is here.
            LogFenced, LogBusy.
        """
        return self.parts.appender.append(run)

    def note_confirmed(self, position: int) -> None:
        """Take note that the set has confirmed `position` (exclusive).

        Snapshots up to it may be written. Never falls but by a truncation; what lies above the
        own end counts up to that.
        """
        if self._checkpointer.note_confirmed(position) and not self.is_busy:
            self.parts.turn()

    def truncate(self, position: int, done: Done) -> None:
        """Take away, durably, everything from `position` (the start of a frame) on.

        At or above the end nothing happens. Below the newest snapshot the log is rebuilt from its
        segments, which takes time and keeps what they and the snapshots tell. `done(error)` on
        the loop: the log is open again; PositionOutOfRange (below the kept log, or in a hole):
        nothing has changed; with any other error it is fenced. A full disk is waited for: the log
        stays busy until there is room.
        """
        if position >= self.writer.end_position:
            done(None)
            return
        segment = self._store.segment_of(position)
        if segment is None:
            start, end = self.start_position, self.writer.end_position
            done(PositionOutOfRange(position, start, end))
            return
        self._truncate(position, None, done)

    def _truncate(self, position: int, last: tuple[int, int] | None, done: Done) -> None:
        disk, directory = self._disk, self.directory
        segments = [(segment.base, segment.end) for segment in self._store.segments]

        def prepare() -> None:
            change = plan_truncation(disk, directory, segments, position, last=last)
            write_change(disk, directory, change)

        self._realign(prepare, done)

    def _rejoin(self, segment_base: int, segment_end: int) -> None:
        """Go on in the segment before the newest, which is empty: the master's is one file."""
        end = self.writer.end_position
        self._truncate(end, (segment_base, segment_end), _ignore)

    def reset_to(self, segment_base: int, segment_end: int, done: Done) -> None:
        """Throw everything away, durably, and begin as an empty log at `segment_base`.

        For a slave of a master whose log begins there with position 0. Where retention has taken
        older segments copy a base instead: the stream does not tell where partitions end of which
        nothing is kept.
        """
        change = plan_reset(segment_base, segment_end)
        self._realign(partial(write_change, self._disk, self.directory, change), done)

    def export_base(
        self,
        done: Callable[[BaseExport | None, PlatformError | None], None],
        *,
        newest_only: bool = False,
    ) -> None:
        """Have the newest snapshot and its segments ready for copying; they stay until released.

        `newest_only`: only the newest segment, for `first_sync = newest-segment`. Errors:
        BaseNotReady (no snapshot yet, or too many copies at once), LogBusy, ReadFailed.
        """
        if self.is_busy:
            done(None, LogBusy(self.directory))
            return
        self._exports.begin(done, newest_only=newest_only)

    def begin_install(self, image: BaseImage, done: Moved) -> None:
        """Begin, or go on with, the copy of a base; `done(position, error)`: send from there on.

        The log itself goes on as it is until finish_install.
        """
        if self.is_busy:
            done(0, LogBusy(self.directory))
            return
        self.abandon_install()
        install = self._install = LogInstall(
            self._disk, self.directory, image, self.config.reserve_bytes
        )
        self._copying(install, install.begin, done)

    def install(self, position: int, data: memoryview, done: Moved) -> None:
        """Put raw segment bytes into the staging area; one call at a time.

        `data` must stay valid until `done(next_position, error)`; next_position is image.position
        when all is there.
        """
        install = self._install
        if install is None:
            done(0, BadInstall("no copy has begun"))
            return
        self._copying(install, lambda: install.write(position, data), done)

    def _copying(self, install: LogInstall, work: Callable[[], int], done: Moved) -> None:
        def finished(position: int | None, error: BaseException | None) -> None:
            if error is None and install is not self._install:
                done(0, BadInstall("another copy has begun"))
            else:
                done(position or 0, None if error is None else self._as_error(error))

        self.parts.offload.submit(work, finished)

    def _as_error(self, error: BaseException) -> PlatformError:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return OutOfSpace(self.directory)
        return as_platform_error(error)

    def finish_install(self, done: Done) -> None:
        """Check the copy, swap it in atomically and durably, and open it.

        Then streaming goes on from image.position. BadInstall: what is wrong was thrown away and
        nothing has changed, begin_install again.
        """
        install, self._install = self._install, None
        if install is None:
            done(BadInstall("no copy has begun"))
            return

        def checked(change: PendingChange | None, error: BaseException | None) -> None:
            if change is None:
                done(None if error is None else self._as_error(error))
                return
            self._realign(partial(write_change, self._disk, self.directory, change), done)

        self.parts.offload.submit(install.finish, checked)

    def abandon_install(self) -> None:
        """Stop the copy; what was copied is kept on the disk for a later begin_install."""
        install, self._install = self._install, None
        if install is not None:
            self.parts.offload.submit(install.close, _closed)


def _closed(_: None, error: BaseException | None) -> None:
    if error is not None:
        raise error


def _ignore(_: PlatformError | None) -> None:
    """A rejoin has no caller of its own; an error has fenced the log."""
