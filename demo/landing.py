"""The Spark job: `penstock land TOPIC --stream` into a Delta table, and its death.

How much has landed is asked of the table itself, by its own log, never of the job.
"""

import sys
import time
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from demo.processes import Job

TRIGGER_SECONDS = 1


class Landing:
    """One landing job that can be killed and started again; the table goes on where it was."""

    def __init__(self, directory: Path, *, bootstrap: str, topic: str, ddl: str) -> None:
        self.table = directory / "table"
        self._directory = directory
        self._command = [
            str(Path(sys.executable).with_name("penstock")),
            "land",
            topic,
            "--to",
            str(self.table),
            "--format",
            "delta",
            "--stream",
            "--bootstrap",
            bootstrap,
            "--schema",
            ddl,
            "--partition-by",
            "none",
            "--trigger",
            str(TRIGGER_SECONDS),
        ]
        self._job: Job | None = None
        self._known: DeltaTable | None = None

    def start(self) -> None:
        """Start the job."""
        scratch = self._directory / "spark"
        scratch.mkdir(exist_ok=True)
        environment = {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
        log = self._directory / "land.log"
        self._job = Job(self._command, log=log, environment=environment)

    @property
    def has_ended(self) -> bool:
        """Say whether the job was started and is not there any more."""
        return self._job is not None and not self._job.is_running

    def kill(self) -> int:
        """Kill Python, JVM and workers with -9. Returns how many processes there were."""
        return self._job.kill() if self._job is not None else 0

    def stop(self) -> int | None:
        """Let the job end by itself. Returns its exit code, None when it had to be killed."""
        return self._job.stop() if self._job is not None else None

    def last_words(self) -> str:
        """Return the end of the job's log."""
        return self._job.last_words() if self._job is not None else ""

    def landed(self) -> int:
        """Return how many rows the table has now."""
        try:
            if self._known is None:
                self._known = DeltaTable(str(self.table))
            self._known.update_incremental()
            return self._known.count()
        except (TableNotFoundError, FileNotFoundError):
            return 0
        except DeltaError:
            self._known = None  # read in the middle of a commit: look again from the beginning
            return 0


class Growth:
    """Watches the row count of the table, for progress and for the gap a kill makes."""

    def __init__(self, landing: Landing) -> None:
        self.rows = 0
        self.gap_seconds = 0.0
        self._landing = landing
        self._waiting_since = 0.0

    def begin_gap(self) -> None:
        """Remember that something was killed now; the next new rows end the gap."""
        self._waiting_since = time.monotonic()
        self.gap_seconds = 0.0

    def look(self) -> int:
        """Ask the table for its rows and return them."""
        rows = self._landing.landed()
        if rows > self.rows:
            now = time.monotonic()
            if self._waiting_since:
                self.gap_seconds = now - self._waiting_since
                self._waiting_since = 0.0
            self.rows = rows
        return self.rows
