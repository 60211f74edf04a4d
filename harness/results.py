"""Prints results as a table and keeps them as JSON beside the description of the machine."""

import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness.machine import commit, describe

WIDTH = 180
"""Columns when the output goes to a file."""

Row = Mapping[str, object]


def publish(directory: Path, question: str, rows: Sequence[Row], *, goal: str = "") -> Path:
    """Show `rows` and write `<directory>/<question>.json`. Returns the file."""
    show(question, rows, goal=goal)
    directory.mkdir(exist_ok=True)
    target = directory / f"{question}.json"
    document = {
        "question": question,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "machine": describe(),
        "goal": goal,
        "rows": [dict(row) for row in rows],
    }
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return target


def show(title: str, rows: Sequence[Row], *, goal: str = "") -> None:
    """Print `rows` as a table; every row has the columns of the first."""
    table = Table(title=title)
    for name in rows[0] if rows else []:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*[shown(value) for value in row.values()])
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(table)
    if goal:
        console.print(f"goal: {goal}")


def median(values: Sequence[float]) -> float:
    """Return the median; of nothing it is nan."""
    return statistics.median(values) if values else float("nan")


def percentile(sorted_values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the sorted values lie."""
    if not sorted_values:
        return float("nan")
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def shown(value: object) -> str:
    """Return a value as tables show it."""
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
