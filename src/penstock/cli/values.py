"""Checks of arguments: names, ids, directories, numbers of seconds.

Values that no cluster can have are rejected before a broker is asked, naming the argument.
"""

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import typer

ID_MAX = 2**31 - 1
"""Ids, counts and partitions are int32 on every link."""
REPLICAS_MAX = 2**15 - 1
SECONDS_MAX = 86_400.0
"""A day; much longer times exceed what sockets accept as a time-out."""
AGE_SECONDS_MAX = 1e9
"""31 years: what an age may be that brokers compare in milliseconds."""
COUNT_MAX = 2**63 - 1
"""Counts and positions are int64."""
NAME_BYTES_MAX = 2**15 - 1
"""Names are strings with an int16 as length in the first versions of Kafka's requests."""

Names = TypeVar("Names")


def named(value: Names) -> Names:
    """Return the name or names. Raises BadParameter for one that is empty or no broker takes."""
    for name in value if isinstance(value, list) else [value]:
        if name == "":
            raise typer.BadParameter("it is empty")
        if isinstance(name, str) and len(name.encode(errors="replace")) > NAME_BYTES_MAX:
            raise typer.BadParameter(f"it is longer than {NAME_BYTES_MAX} bytes")
    return value


def directory(text: str | Path) -> Path:
    """Return the path, of which there may be nothing yet.

    Raises BadParameter for a file, and for an empty text, which Path would take as `.`.
    """
    if not str(text):
        raise typer.BadParameter("it is empty; write . for this directory")
    path = Path(text)
    with suppress(OSError):  # what can not be looked at is told by whoever uses it
        if path.exists() and not path.is_dir():
            raise typer.BadParameter(f"{path} is no directory")
    return path


def quoted(text: str) -> str:
    """Return a given text for a message, in quotes if it is empty."""
    return text or "''"
