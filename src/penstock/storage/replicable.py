"""What replication asks of a commit log: the door's methods for masters, slaves and rebuilding.

    master   read_run ──► Run ──► append_run   slave
             note_confirmed on both;  truncate, reset_to before a slave follows another master
             export_base ──► BaseImage, raw segments ──► begin_install .. finish_install

`SetLog` has them. This is their contract in one place, for whoever drives a log from outside.

Source: architecture "Replica set: the rules". All of it is called on the loop.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.base.errors import PlatformError
from penstock.storage.base_image import BaseExport, BaseImage
from penstock.storage.run import ColdRun, Run

Done = Callable[[PlatformError | None], None]


class ReplicableLog(Protocol):
    """The part of SetLog that replication drives."""

    is_sole_member: bool
    """True (the default): the log confirms itself and snapshots at once. False: no snapshot is
    written above `confirmed_position`. May change at any time; set it before `open` where known."""
    on_append_ready: Callable[[], None]
    """append_run, which has taken less than it was given, may take more now."""
    on_reopened: Callable[[], None]
    """After truncate, reset_to, finish_install: partitions are other objects, positions have
    changed, `epochs` is another list. Called just before the operation's own `done`."""

    @property
    def start_position(self) -> int:
        """Lowest position from which runs can be read to the end without a hole."""

    @property
    def confirmed_position(self) -> int:
        """What note_confirmed has said; after a start at least the snapshot's position."""

    @property
    def is_busy(self) -> bool:
        """Whether the log is being truncated, reset or replaced: all else raises LogBusy."""

    @property
    def snapshot_position(self) -> int:
        """Position of the newest snapshot that is on the disk: truncation there is cheap."""

    def read_run(self, position: int, max_bytes: int, limit_position: int) -> Run | ColdRun:
        """Return whole frames from `position` on, none that ends above `limit_position`.

        Never across a segment or a leader epoch; at least one frame even if it is larger than
        `max_bytes`; none when there is nothing yet. The run begins at `position`, or at the next
        segment where no frame can follow in this one. Go on at its `next_position`.

        Raises (here or in `load`):
            PositionOutOfRange: below start_position (a base image is needed) or above the end.
            CorruptFrame: no frame begins at `position`. LogBusy, ReadFailed.
        """

    def append_run(self, run: Run) -> int:
        """Append a master's frames as they are; return how many bytes were taken.

        Fewer than all, maybe 0, when something has to happen first: a sync, because frames may
        not say of bytes that they are flushed while here they are not; the next file. Keep
        `run.after(taken)` and call again at `on_append_ready`. A run of no bytes does nothing.

        Raises, with nothing changed:
            GapInRun: it does not begin at end_position: renegotiate.
            BadRun: a frame is damaged, or does not follow from what is here.
            LogFenced, LogBusy.
        """

    def note_confirmed(self, position: int) -> None:
        """Take note that the set has confirmed `position` (exclusive): snapshots up to it may be
        written. Never falls; what lies above the own end counts up to that."""

    def truncate(self, position: int, done: Done) -> None:
        """Take away, durably, everything from `position` (the start of a frame) on.

        Also below the newest snapshot; then the log is rebuilt from its segments, which takes
        time. At or below the first kept segment: as reset_to(that segment). At or above the end:
        does nothing. `done(error)`: the log is open again; with an error it is fenced.
        """

    def reset_to(self, segment_base: int, segment_end: int, done: Done) -> None:
        """Throw everything away, durably, and begin as an empty log at `segment_base`."""

    def export_base(
        self,
        done: Callable[[BaseExport | None, PlatformError | None], None],
        *,
        newest_only: bool = False,
    ) -> None:
        """Have the newest snapshot and its segments ready for copying; they stay until released.

        `newest_only`: only the newest segment, for `first_sync = newest-segment`.
        """

    def begin_install(
        self, image: BaseImage, done: Callable[[int, PlatformError | None], None]
    ) -> None:
        """Begin, or go on with, the copy of a base; `done(position, error)`: send from there on.

        The log itself goes on as it is until finish_install.
        """

    def install(
        self, position: int, data: memoryview, done: Callable[[int, PlatformError | None], None]
    ) -> None:
        """Put raw segment bytes into the staging area; one at a time. `data` must stay valid
        until `done(next_position, error)`; next_position is image.position when all is there."""

    def finish_install(self, done: Done) -> None:
        """Check the copy, swap it in atomically and durably, and open it; then stream from
        image.position. BadInstall: what is wrong was thrown away, begin_install again."""

    def abandon_install(self) -> None:
        """Forget what was copied so far (it is kept on the disk for a later begin_install)."""
