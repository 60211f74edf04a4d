"""What the person sees: the steps as they happen, the table at the end, a query and its answer."""

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

TOP = 10
QUIET_SECONDS = 10.0
"""Where no bars are drawn, a line says how far it is when no step has for this long."""


class Screen:
    """Steps above, three bars below."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._begun = self._said = time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self._bars = {
            name: self._progress.add_task(name, total=None)
            for name in ("sent", "acknowledged", "landed")
        }

    def __enter__(self) -> "Screen":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return time.monotonic() - self._begun

    def step(self, text: str) -> None:
        """Print one step with its time."""
        self._said = time.monotonic()
        self.console.print(f"[dim]{self.seconds:6.1f} s[/dim]  {text}", soft_wrap=True)

    def show(self, *, total: int, sent: int, acked: int, landed: int) -> None:
        """Move the bars; without a terminal, say it in a line now and then."""
        if not self.console.is_terminal and time.monotonic() - self._said >= QUIET_SECONDS:
            self.step(f"of {total:,}: sent {sent:,}, acknowledged {acked:,}, landed {landed:,}")
        for name, value in (("sent", sent), ("acknowledged", acked), ("landed", landed)):
            self._progress.update(self._bars[name], total=total, completed=value)

    def table(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """Print the result."""
        table = Table(title=title, show_header=False)
        table.add_column(justify="right")
        table.add_column(justify="right")
        for name, value in rows:
            table.add_row(name, value)
        self.console.print(table)

    def answer(
        self, question: str, names: tuple[str, str], rows: Sequence[tuple[str, int]]
    ) -> None:
        """Print the query and its answer."""
        table = Table(title=question)
        table.add_column(names[0], overflow="fold")
        table.add_column(names[1], justify="right")
        for name, value in rows:
            table.add_row(name, f"{value:,}")
        self.console.print(table)


def largest_directories(table: Path) -> list[tuple[str, int]]:
    """Return the directories whose files are largest together, with their bytes."""
    found = DeltaTable(str(table)).to_pyarrow_table(columns=["path", "size"])
    parents = pc.replace_substring_regex(found.column("path"), r"/[^/]*$", "")
    sums = pa.table({"key": parents, "value": found.column("size")}).group_by("key")
    return _top(sums.aggregate([("value", "sum")]), "value_sum")


def frequent_words(table: Path) -> list[tuple[str, int]]:
    """Return the words that occur most often, with how often."""
    found = DeltaTable(str(table)).to_pyarrow_table(columns=["text"])
    words = pc.list_flatten(pc.split_pattern_regex(found.column("text"), r"\W+"))
    words = words.filter(pc.not_equal(words, ""))
    counted = pa.table({"key": words}).group_by("key").aggregate([("key", "count")])
    return _top(counted, "key_count")


def _top(counted: pa.Table, column: str) -> list[tuple[str, int]]:
    order = counted.sort_by([(column, "descending"), ("key", "ascending")]).slice(0, TOP)
    return list(zip(order["key"].to_pylist(), order[column].to_pylist(), strict=True))
