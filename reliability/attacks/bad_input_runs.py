"""What all runs of the bad-input programme have done together, kept in its results file."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from harness.machine import describe
from harness.results import show
from reliability import RESULTS

QUESTION = "bad_input"
GOAL = (
    "1,000,000 frames: no unhandled exception, memory + < 32 MiB, good client's p99 < 2 x, "
    "nothing of it lost"
)

_SHOWN = (
    "part",
    "rate",
    "frames",
    "good answers",
    "good failures",
    "write p99 ms, quiet",
    "write p99 ms, flood",
    "write ratio",
    "ask p99 ms, quiet",
    "ask p99 ms, flood",
    "ask ratio",
    "seconds",
    "grown MiB",
    "findings",
    "verdict",
)

Row = dict[str, Any]


class Runs:
    """The rows of earlier runs, and those of this one behind them."""

    def __init__(self, *, is_fresh: bool) -> None:
        self._rows: list[Row] = []
        file = RESULTS / f"{QUESTION}.json"
        if file.exists() and not is_fresh:
            rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
            self._rows = [row for row in rows if row["part"] != "all"]

    def next_frame(self, part: str, seed: int) -> int:
        """Return the first frame of a seed that was not sent yet."""
        return sum(
            row["frames"] for row in self._rows if row["part"] == part and row["seed"] == seed
        )

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep a row, on the disk as well: a later part may be cut short."""
        self._rows.append({**row, "at": datetime.now(UTC).isoformat(timespec="seconds")})
        self._write()

    def show(self) -> None:
        """Print all rows with their sum."""
        rows = [{name: row[name] for name in _SHOWN} for row in [*self._rows, self._sum()]]
        show(QUESTION, rows, goal=GOAL)

    def _write(self) -> None:
        document = {
            "question": QUESTION,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": describe(),
            "goal": GOAL,
            "rows": [*self._rows, self._sum()],
        }
        RESULTS.mkdir(exist_ok=True)
        target = RESULTS / f"{QUESTION}.json"
        target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def _sum(self) -> Row:
        summed = ("frames", "answered", "refused", "waits", "good answers", "good failures")
        worst = ("warm MiB", "grown MiB", "write ratio", "ask ratio", "findings")
        kinds: Counter[str] = Counter()
        for row in self._rows:
            kinds.update(row["kinds"])
        bad = [row["part"] for row in self._rows if row["verdict"] != "ok"]
        found: Row = dict.fromkeys((*_SHOWN, "seed", "first"), "")
        found |= {name: sum(row[name] for row in self._rows) for name in summed}
        found |= {name: max((row[name] for row in self._rows), default=0) for name in worst}
        found["seconds"] = round(sum(row["seconds"] for row in self._rows), 1)
        found |= {"part": "all", "verdict": f"see {', '.join(bad)}" if bad else "ok"}
        found["kinds"] = dict(sorted(kinds.items()))
        return found
