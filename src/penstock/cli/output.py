"""Output of commands: tables for people, JSON for programs.

Results go to stdout. A table is drawn by rich if it fits the terminal; otherwise, and if stdout is
a pipe, it is plain text in columns: no name or number is ever cut off. JSON is one document per
command; `consume` and `log dump`, whose output may be endless, print one document per line.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

Row = Mapping[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALENDAR_END_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, with which `datetime` ends."""


class Output(StrEnum):
    """The choices of -o."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    Output, typer.Option("-o", "--output", help="Tables for people, JSON for programs.")
]
BootstrapOption = Annotated[
    str,
    typer.Option(
        "-b", "--bootstrap", metavar="HOST:PORT[,...]", envvar="PENSTOCK_BOOTSTRAP", help="Brokers."
    ),
]
BOOTSTRAP_DEFAULT = "localhost:9092"


def print_json(document: object) -> None:
    """Print one JSON document."""
    indent = 2 if sys.stdout.isatty() else None
    is_ascii = (sys.stdout.encoding or "").lower() != "utf-8"
    print(json.dumps(document, indent=indent, ensure_ascii=is_ascii, default=as_text))


def print_rows(rows: Sequence[Row], columns: Sequence[str], output: Output) -> None:
    """Print rows of the same columns; only the header if there are none."""
    if output is Output.JSON:
        print_json([{column: row.get(column) for column in columns} for row in rows])
        return
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    if sys.stdout.isatty() and _print_rich(columns, cells):
        return
    for line in plain_table([[column.upper() for column in columns], *cells]):
        print(line)


def print_summary(
    summary: Row, rows_name: str, rows: Sequence[Row], columns: Sequence[str], output: Output
) -> None:
    """Print one thing and the rows that belong to it: two tables, or one document."""
    if output is Output.JSON:
        print_json({**summary, rows_name: rows})
        return
    print_rows([summary], tuple(summary), output)
    print()
    print_rows(rows, columns, output)


def plain_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with columns as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _print_rich(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Draw the table; return False, with nothing drawn, if the terminal is too narrow."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table

    table = Table(*columns, box=box.SIMPLE_HEAD, header_style="bold")
    for line in cells:
        table.add_row(*map(escape, line))
    console = Console()
    unbounded = console.options.update(max_width=sys.maxsize)
    if Measurement.get(console, unbounded, table).maximum > console.width:
        return False
    console.print(table)
    return True


def cell(value: object) -> str:
    """Return a value as text for a table; an empty one is a dash, so that no column is missing."""
    if value is None or (isinstance(value, str | bytes | list | tuple | dict) and not value):
        return "-"
    match value:
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(cell, value))
        case dict():
            return ", ".join(f"{key}={cell(inner)}" for key, inner in value.items())
        case bytes():
            return as_text(value)
        case _:
            return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(value))


def moment(wall_ms: int) -> str:
    """Return milliseconds since 1970 as a time in UTC; empty if negative, which stands for never.

    Producers choose the times of their records: what no calendar has is returned as the number.
    """
    if wall_ms < 0:
        return ""
    if wall_ms > CALENDAR_END_MS:
        return str(wall_ms)
    return (_EPOCH + timedelta(milliseconds=wall_ms)).isoformat(" ", "milliseconds")


def as_text(value: object) -> str:
    """Return bytes as text, with escapes for what is not UTF-8."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def note(text: str) -> None:
    """Print a message that is not part of the result to stderr."""
    print(text, file=sys.stderr)
