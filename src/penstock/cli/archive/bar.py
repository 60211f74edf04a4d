"""A progress bar on stderr, where that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

QuietOption = Annotated[bool, typer.Option("--no-progress", help="Show no progress bar.")]
OnDone = Callable[[int, int], None]


@contextmanager
def bar(what: str, *, shown: bool) -> Iterator[OnDone]:
    """Yield what to call with how much is done, and how much there is."""
    if not shown or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as RemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, RemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
