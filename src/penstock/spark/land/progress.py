"""Progress of a landing: a line on stderr while it runs, a summary on stdout at its end."""

import json
import sys
import time
from dataclasses import asdict, dataclass, field

from rich.console import Console
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

PLAIN_LINE_SECONDS = 10.0


@dataclass(slots=True, kw_only=True)
class Summary:
    """The result of one run."""

    topic: str
    table: str
    format: str
    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    seconds: float = 0.0
    lag: int = 0
    """Records in the topic that had not landed when the last batch was planned."""
    ends: dict[str, int] = field(default_factory=dict)
    """Partition -> offset after the last one in the table."""

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


class Progress:
    """Shows the summary while the job runs. Use as a context manager."""

    def __init__(self, summary: Summary, *, show: bool) -> None:
        self._summary = summary
        self._console = Console(stderr=True)
        self._started = self._last_line = time.monotonic()
        self._live: Live | None = None
        self._plain = show and not self._console.is_terminal
        if show and self._console.is_terminal:
            self._live = Live(self._text("starting"), console=self._console, refresh_per_second=4)

    def __enter__(self) -> "Progress":
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__(None, None, None)

    def update(self, what: str) -> None:
        """Show the present numbers, and `what` is being done."""
        now = time.monotonic()
        self._summary.seconds = now - self._started
        if self._live is not None:
            self._live.update(self._text(what))
        elif self._plain and now - self._last_line >= PLAIN_LINE_SECONDS:
            self._last_line = now
            sys.stderr.write(f"{self._text(what).plain}\n")
            sys.stderr.flush()

    def _text(self, what: str) -> Text:
        seen = self._summary
        return Text(
            f"{seen.topic}: {seen.rows:,} rows landed, {seen.rows_per_second:,.0f}/s,"
            f" lag {seen.lag:,}, dead letters {seen.dead_letters:,}, batch {seen.batches} ({what})"
        )


def show_summary(summary: Summary, output: str) -> None:
    """Print the result on stdout: one JSON object or a small table."""
    values = asdict(summary) | {"rows_per_second": round(summary.rows_per_second, 1)}
    values["seconds"] = round(summary.seconds, 3)
    if output == "json":
        sys.stdout.write(json.dumps(values) + "\n")
        sys.stdout.flush()
        return
    grid = Grid(show_header=False, box=None)
    for name, value in values.items():
        if name != "ends":
            shown = f"{value:,}" if isinstance(value, (int, float)) else str(value)
            grid.add_row(name.replace("_", " "), shown)
    Console().print(grid)
