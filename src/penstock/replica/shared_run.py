"""The newest run of a set, read once for all slaves that need it.

    slave 2 ──► position 700 ─┐
    slave 3 ──► position 700 ─┴─► one read of the page cache, one walk over its frames

Slaves in step request the same bytes one after the other. A run is kept only while another session
is still at its start, and only the newest one: a slave that lags reads for itself. The bytes are
the reader's own copy, which is never modified.

Source: Kafka serves its followers from one page cache; here the walk is shared as well.
"""

from collections.abc import Iterable
from typing import Protocol

from penstock.base.ids import Position
from penstock.frames.run import ColdRun, Run
from penstock.storage.commit_log.set_log import SetLog


class Reading(Protocol):
    """A session, as far as reading needs it."""

    is_streaming: bool
    next_position: Position

    @property
    def is_checked(self) -> bool:
        """Whether the frames read for it have to be verified."""


class SharedRun:
    """Reads runs of one log for several sessions."""

    __slots__ = ("_log", "_run", "_run_bytes", "_written")

    def __init__(self, log: SetLog, run_bytes: int) -> None:
        self._log = log
        self._run_bytes = run_bytes
        self._run: Run | None = None
        self._written = Position(0)

    def read(self, session: Reading, sessions: Iterable[Reading]) -> Run | ColdRun:
        """Return the run at the session's position. Raises as SetLog.read_run."""
        position, written = session.next_position, self._log.written_position
        run = self._run
        is_checked = session.is_checked
        is_known = run is not None and run.position == position and self._written == written
        if run is not None and is_known and not is_checked:
            found: Run | ColdRun = run
        else:
            size = self._run_bytes
            found = self._log.read_run(position, size, written, is_checked=is_checked)
        self._run, self._written = None, written
        if isinstance(found, Run) and any(
            one is not session and one.is_streaming and one.next_position == position
            for one in sessions
        ):
            self._run = found
        return found
