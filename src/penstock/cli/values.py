"""What may stand where a command takes a name, an id, a directory or a number of seconds.

What no cluster can have is refused before one is asked, under the name of the argument.
"""

from pathlib import Path
from typing import TypeVar

import typer

ID_MAX = 2**31 - 1
"""Ids, counts and partitions are int32 on every link."""
REPLICAS_MAX = 2**15 - 1
SECONDS_MAX = 86_400.0
"""A day: longer is no patience but a service, and more than clocks of sockets can take."""

Names = TypeVar("Names")


def named(value: Names) -> Names:
    """Return the name or names. Raises BadParameter for an empty one, which nothing can have."""
    if value == "" or (isinstance(value, list) and "" in value):
        raise typer.BadParameter("it is empty")
    return value


def directory(text: str | Path) -> Path:
    """Return the path. Raises BadParameter where it is empty, which a Path takes for `.`."""
    if not str(text):
        raise typer.BadParameter("it is empty; write . for this directory")
    return Path(text)


def quoted(text: str) -> str:
    """Return what a person wrote as a message shows it: an empty text must not look like none."""
    return text or "''"
