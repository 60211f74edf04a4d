"""The result file: rows that were measured, kept over runs until they are asked for again."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.peers.ratios import Row
from harness.machine import commit, describe

PREFIX = "peers-"
METHOD = (
    "ratio: median over the rounds of the ratio within each round, above 1 ours is ahead, also "
    "where less is better; spread: smallest and largest of them; one server at a time, started "
    "anew and warmed up in each round, order rotated; client and server share the machine"
)


def todays_file(directory: Path = RESULTS) -> Path:
    """Return where today's results go."""
    return directory / f"{PREFIX}{datetime.now(UTC):%Y-%m-%d}.json"


def last_file(directory: Path = RESULTS) -> Path | None:
    """Return the newest recorded results, by the date in the name."""
    return max(directory.glob(f"{PREFIX}*.json"), default=None)


def key_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """What makes a row the same one: its name and the peer."""
    return str(row["name"]), str(row["peer_is"] or "")


class Store:
    """Rows by their keys, written to the file after every change.

    A new file begins with the rows of `earlier`; each row says when, and at which commit.
    """

    def __init__(self, file: Path, earlier: Path | None = None) -> None:
        self.file = file
        self.rows: dict[tuple[str, str], Row] = {}
        self.settings: dict[str, Any] = {}
        known = file if file.exists() else earlier
        if known is not None:
            document = json.loads(known.read_text(encoding="utf-8"))
            self.rows = {key_of(row): row for row in document["rows"]}
            self.settings = document.get("settings", {})

    def has(self, keys: Iterable[tuple[str, str]]) -> bool:
        """Whether every one of these rows is there, and shows a value of ours.

        One that shows none is of a run in which it could not be measured: today it may.
        """
        return all(self.rows.get(key, {}).get("ours") is not None for key in keys)

    def add(self, rows: Iterable[Row], settings: Mapping[str, Any]) -> None:
        """Take the rows in, over older ones of the same key, and write the file."""
        now, present = datetime.now(UTC).isoformat(timespec="seconds"), commit()
        for row in rows:
            self.rows[key_of(row)] = {**row, "measured_at": now, "commit": present}
        self.settings.update(settings)
        document = {
            "question": "peers",
            "measured_at": now,
            "commit": present,
            "machine": describe(),
            "method": METHOD,
            "settings": self.settings,
            "rows": list(self.rows.values()),
        }
        self.file.parent.mkdir(parents=True, exist_ok=True)
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.file)
