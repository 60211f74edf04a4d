"""Checks of arguments: names, ids, directories, numbers of seconds.

Values that no cluster can have are rejected before a broker is asked, naming the argument.
"""

from pathlib import Path
from typing import TypeVar

import typer

ID_MAX = 2**31 - 1
"""Ids, counts and partitions are int32 on every link."""
REPLICAS_MAX = 2**15 - 1
SECONDS_MAX = 86_400.0
"""A day; much longer times exceed what sockets accept as a time-out."""

Names = TypeVar("Names")


def named(value: Names) -> Names:
    """Return the name or names. Raises BadParameter for an empty one."""
    if value == "" or (isinstance(value, list) and "" in value):
        raise typer.BadParameter("it is empty")
    return value


def directory(text: str | Path) -> Path:
    """Return the path. Raises BadParameter for an empty text, which Path would take as `.`."""
    if not str(text):
        raise typer.BadParameter("it is empty; write . for this directory")
    return Path(text)


def quoted(text: str) -> str:
    """Return a given text for a message, in quotes if it is empty."""
    return text or "''"
