"""The methods of a commit log for replication: for masters, for slaves and for copying a base.

    master   read_run ──► Run ──► append_run   slave
             note_confirmed on both;  truncate, reset_to before a slave follows another master
             export_base ──► BaseManifest, raw segments ──► begin_install .. finish_install

Source: ADR 0009. Everything is called on the loop, and nothing blocks.
It knows no peers and no connections.
"""

import errno
from collections.abc import Callable
from functools import partial

from penstock.base.callbacks import nothing
from penstock.base.errors import PlatformError
from penstock.base.ids import Position
from penstock.frames.run import ColdRun, Run
from penstock.storage.commit_log.open_log import Done, OpenLog
from penstock.storage.commit_log.parts import LogParts
from penstock.storage.commit_log.pending_change import PendingChange, write_change
from penstock.storage.commit_log.truncation import SegmentBounds, plan_reset, plan_truncation
from penstock.storage.errors import BadInstall, LogBusy, OutOfSpace, PositionOutOfRange
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.replicate.base_export import BaseExport, Exports
from penstock.storage.replicate.base_manifest import BaseManifest
from penstock.storage.replicate.install import LogInstall
from penstock.storage.second_level.manifest import Reach

Moved = Callable[[int, PlatformError | None], None]


class ReplicableLog(OpenLog):
    """The part of SetLog that replication drives."""

    _install: LogInstall | None = None
    _at_work: LogInstall | None = None
    """The copy, maybe an abandoned one, that a thread of the disk is writing for now."""

    def _use(self, parts: LogParts) -> None:
        super()._use(parts)
        parts.appender.on_rejoin = self._rejoin
        self._exports = Exports(self._disk, self.directory, parts)

    @property
    def start_position(self) -> Position:
        """Lowest position from which runs can be read up to the log's end without a gap."""
        return self.parts.runs.start_position

    @property
    def reach(self) -> Reach:
        """How far back the log reaches over all its stores.

        It keeps something below `start_position` where segments lie before a gap, or where other
        stores have what the commit log has released.
        """
        return self.parts.second_level.reach

    @property
    def confirmed_position(self) -> Position:
        """The newest position from note_confirmed; after a start at least the snapshot's position.

        For a log that is alone in its set it is not kept: durable_position is its confirm position.
        """
        return self._checkpointer.confirmed_position

    @property
    def snapshot_position(self) -> Position:
        """Position of the newest snapshot on the disk; truncating below it is a rebuild."""
        return self._checkpointer.saved_position

    @property
    def is_following(self) -> bool:
        """Whether the log takes only a master's runs, until begin_epoch is called."""
        return self.writer.is_following

    def follow(self) -> None:
        """Take only a master's runs from now on; append raises LogFollows.

        Call it when the owner becomes a slave, while it hands over, and at a start while it has no
        role yet, so that retention appends nothing either.
        """
        self.writer.follow()

    def read_run(
        self,
        position: Position,
        max_bytes: int,
        limit_position: Position,
        *,
        is_checked: bool = False,
    ) -> Run | ColdRun:
        """Return whole frames from `position` on, none that ends above `limit_position`.

        A run never crosses a segment or a leader epoch. It has at least one frame, even if that is
        larger than `max_bytes`, or none if there is nothing to read yet. It begins at `position`,
        or at the next segment if this one has no further frame. Continue at its `next_position`.

        Raises (here or in `load`):
            PositionOutOfRange: below start_position (the base is needed) or above the end.
            NoFrameBegins: the log is whole, and no frame begins at `position`.
            CorruptFrame: a frame is damaged, which is checked if it comes from the disk or with
            `is_checked`; it is reported to `on_damage`. LogBusy, ReadFailed.
        """
        return self.parts.runs.read(position, max_bytes, limit_position, is_checked=is_checked)

    def append_run(self, run: Run) -> int:
        """Append a master's frames unchanged; return how many bytes were taken.

        Takes fewer than all, possibly 0, if it has to wait: for a sync, since a frame may only
        claim bytes as flushed that are flushed here, or for the next file; or if the run is too
        long for one turn of the loop. Keep `run.after(taken)` and call again at `on_append_ready`.
        An empty run does nothing.

        Raises, with nothing changed:
            GapInRun: the run does not begin at end_position; the slave has to align again.
            BadRun: a frame is damaged, or does not continue this log.
            LogFenced, LogBusy.
        """
        return self.parts.appender.append(run)

    def note_confirmed(self, position: Position) -> None:
        """Note that the set has confirmed `position` (exclusive).

        Snapshots up to it may be written. The confirmed position falls only by a truncation; a
        position above the log's end counts as the end.
        """
        if self._checkpointer.note_confirmed(position) and not self.is_busy:
            self.parts.tick()

    def truncate(self, position: Position, done: Done) -> None:
        """Remove, durably, everything from `position` (the start of a frame) on.

        At or above the end it does nothing. Below the newest snapshot the log is rebuilt from its
        segments and snapshots, which takes time. Calls `done(error)` on the loop: without an error
        the log is open again; after PositionOutOfRange (below the log's start, or in a gap) nothing
        has changed; after any other error the log is fenced. If the disk is full, the log stays
        busy until there is space.
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

    def _truncate(self, position: Position, last: SegmentBounds | None, done: Done) -> None:
        disk, directory = self._disk, self.directory
        segments = [(segment.base, segment.end) for segment in self._store.segments]

        def prepare() -> None:
            change = plan_truncation(disk, directory, segments, position, last=last)
            write_change(disk, directory, change)

        self._realign(prepare, done)

    def _rejoin(self, segment_base: Position, segment_end: Position) -> None:
        """Remove the newest segment, which is empty, and extend the one before it."""
        end = self.writer.end_position
        self._truncate(end, (segment_base, segment_end), nothing)

    def reset_to(self, segment_base: Position, segment_end: Position, done: Done) -> None:
        """Discard everything, durably, and begin as an empty log at `segment_base`.

        For a slave whose master's log begins at position 0. If retention has deleted older segments
        there, copy a base instead: runs do not have the end offsets of partitions without records.
        """
        change = plan_reset(segment_base, segment_end)
        self._realign(partial(write_change, self._disk, self.directory, change), done)

    def export_base(
        self,
        done: Callable[[BaseExport | None, PlatformError | None], None],
        *,
        newest_only: bool = False,
    ) -> None:
        """Prepare the newest snapshot and its segments for copying; they are kept until released.

        `newest_only`: only the newest segment, for `first_sync = newest-segment`; all the same
        everything where records are moved to other stores. Errors: BaseNotReady (no snapshot yet,
        or too many copies at once), LogBusy, ReadFailed.
        """
        if self.is_busy:
            done(None, LogBusy(self.directory))
            return
        self._exports.begin(done, newest_only=newest_only and not self.config.moves)

    def begin_install(self, manifest: BaseManifest, done: Moved) -> None:
        """Begin or resume copying a base; `done(position, error)` gets the position to copy from.

        The log itself stays in use until finish_install. LogBusy: an earlier copy, which has been
        abandoned, is still being written.
        """
        if self.is_busy or self._at_work is not None:
            self.abandon_install()
            done(0, LogBusy(self.directory))
            return
        earlier = self._install
        install = self._install = LogInstall(
            self._disk, self.directory, manifest, self.config.reserve_bytes
        )

        def begin() -> int:
            if earlier is not None:
                earlier.close()
            return install.begin()

        self._copying(install, begin, done)

    def install(self, position: int, data: memoryview, done: Moved) -> None:
        """Write raw segment bytes to the staging directory; one call at a time.

        `data` must stay valid until `done(next_position, error)`; next_position is that of the
        manifest when everything is copied.
        """
        install = self._install
        if install is None:
            done(0, BadInstall("no copy has begun"))
            return
        assert self._at_work is None, "one call at a time"
        self._copying(install, lambda: install.write(position, data), done)

    def _copying(self, install: LogInstall, work: Callable[[], int], done: Moved) -> None:
        def finished(position: int | None, error: BaseException | None) -> None:
            self._at_work = None
            if install is not self._install:
                self._close(install)
                done(0, BadInstall("this copy was abandoned"))
            else:
                done(position or 0, None if error is None else self._as_error(error))

        self._at_work = install
        self.parts.offload.submit(work, finished)

    def _as_error(self, error: BaseException) -> PlatformError:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return OutOfSpace(self.directory)
        return as_platform_error(error)

    def finish_install(self, done: Done) -> None:
        """Check the copy, swap it in atomically and durably, and open it.

        Streaming then continues from manifest.position. After BadInstall the log has not changed,
        and the bad segments are removed from the copy: call begin_install again.
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
        """Stop the copy; the copied files are kept for a later begin_install.

        What is being written for it is written; its file is closed behind that.
        """
        install, self._install = self._install, None
        if install is not None and self._at_work is None:
            self._close(install)

    def _close(self, install: LogInstall) -> None:
        def closed(_: None, error: BaseException | None) -> None:
            self._at_work = None
            if error is not None:
                raise error

        self._at_work = install
        self.parts.offload.submit(install.close, closed)
