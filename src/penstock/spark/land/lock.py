"""One landing job per table and machine: an advisory lock that is released with its process.

The commit of every table format detects a second writer by itself; the lock only reports it at
once, before an hour of work is lost.
"""

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from penstock.spark.errors import TableConflict


@contextlib.contextmanager
def table_lock(table: Path) -> Iterator[Path]:
    """Hold the lock of a table's directory. Yields the directory for the job's own files.

    Raises TableConflict if another job holds it or the directory can not be written.
    """
    own = table / "_penstock"
    try:
        own.mkdir(parents=True, exist_ok=True)
        file = (own / "lock").open("a")
    except OSError as error:
        raise TableConflict(f"{table} can not be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TableConflict(f"another land job is writing to {table}; stop it first") from error
        yield own
