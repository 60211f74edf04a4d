"""Plain Parquet files for any reader, with a commit log of our own beside them.

    DIR/record_date=2026-01-31/record_hour=7/00003-<start>-<end>-0.parquet    the data
    DIR/_penstock/table.json                     what the table is for (topic, columns, ...)
    DIR/_penstock/commits/00000000000000000007.json   ends and files of commit 7
    DIR/_penstock/staging/<attempt>/...parquet.staged written, not committed

A reader without a transaction log sees every `*.parquet` file below DIR, so a file must not get
that name before it is committed, and must get it even if the job is killed in between:
1. Tasks write and sync staged files (another suffix, in a directory that readers skip).
2. The commit file is linked into place: this is the commit. It fails if its number is taken, so
   that a second job is detected.
3. The staged files are renamed to names that depend on their offsets alone.
Opening the table repeats step 3 for the newest commit; it was complete for all earlier ones.
A reader may see part of a commit while step 3 runs, but never a row twice.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.spark.errors import TableConflict, TableMismatch
from penstock.spark.land.tables.port import DataFile, FileLayout, TableSpec
from penstock.spark.new_files import sync_directory, write_new
from penstock.spark.warnings import warn

OWN_DIRECTORY = "_penstock"
FORMAT_VERSION = 1
COMMITS_KEPT = 100
"""Older commit files are removed. Each has the ends of all partitions, so one would be enough."""
_STAGED = ".staged"


class PlainTable:
    """One directory of Parquet files."""

    def __init__(self, spec: TableSpec) -> None:
        self._spec = spec
        self._own = spec.path / OWN_DIRECTORY
        self._commits = self._own / "commits"
        self._staging = self._own / "staging"
        if not (self._own / "table.json").exists():
            self._create()
        spec.check(self.facts())
        self._number, self._state = self._newest()
        self._finish(self._state["files"])
        shutil.rmtree(self._staging, ignore_errors=True)
        self._staging.mkdir()

    def _create(self) -> None:
        path = self._spec.path
        if path.exists() and any(entry.name != OWN_DIRECTORY for entry in path.iterdir()):
            raise TableMismatch(f"{path} is not empty and no table of ours; choose another --to")
        self._commits.mkdir(parents=True, exist_ok=True)
        self._staging.mkdir(exist_ok=True)
        facts = {"format-version": str(FORMAT_VERSION)} | self._spec.facts()
        write_new(self._own / "table.json", json.dumps(facts).encode())

    def facts(self) -> dict[str, str]:
        facts: dict[str, str] = _read(self._own / "table.json")
        return facts

    def _newest(self) -> tuple[int, dict[str, Any]]:
        names = sorted(self._commits.glob("*.json"))
        if not names:
            return 0, {"ends": {}, "files": {}}
        return int(names[-1].stem), _read(names[-1])

    def ends(self, partitions: Sequence[int] = ()) -> dict[int, int]:
        return {int(partition): end for partition, end in self._state["ends"].items()}

    def close(self) -> None:
        """Do nothing: no file is held open between two calls."""

    def layout(self, attempt: str) -> FileLayout:
        directory = str(self._staging / attempt)
        return FileLayout(directory=directory, attempt=attempt, suffix=f".parquet{_STAGED}")

    def commit(self, files: Sequence[DataFile], ends: Mapping[int, int]) -> None:
        moves = {self._staged(file): _final(file) for file in files}
        known = self._state["ends"] | {str(partition): end for partition, end in ends.items()}
        state = {"version": FORMAT_VERSION, "ends": known, "files": moves}
        number = self._number + 1
        try:
            write_new(self._commits / f"{number:020d}.json", json.dumps(state).encode())
        except FileExistsError as error:
            raise TableConflict(f"another writer changed {self._spec.path}") from error
        self._number, self._state = number, state
        self._finish(moves)
        (self._commits / f"{number - COMMITS_KEPT:020d}.json").unlink(missing_ok=True)

    def _staged(self, file: DataFile) -> str:
        """Return the path below the staging directory; the attempt is in the file's name."""
        attempt = Path(file.path).name.rsplit("-", 1)[1].split(".")[0]
        return f"{attempt}/{file.path}"

    def _finish(self, moves: Mapping[str, str]) -> None:
        """Rename committed files to their final names. Can be repeated."""
        directories: dict[Path, None] = {}
        for source, target in moves.items():
            staged, final = self._staging / source, self._spec.path / target
            if not staged.exists():
                if not final.exists():
                    warn(f"{final} was committed and is missing: was it removed?")
                continue
            final.parent.mkdir(parents=True, exist_ok=True)
            staged.rename(final)
            directories[final.parent] = None
        for directory in directories:
            sync_directory(directory)


def facts_at(path: Path) -> dict[str, str] | None:
    """Return the facts of the table at `path`; None if there is none."""
    own = path / OWN_DIRECTORY / "table.json"
    return _read(own) if own.exists() else None


def _final(file: DataFile) -> str:
    """Return the final name: the staged name without the attempt and the suffix `.staged`."""
    path = Path(file.path)
    return str(path.with_name(path.name.rsplit("-", 1)[0] + ".parquet"))


def _read(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise TableMismatch(f"{path} is damaged: {error}") from error
    return content
