"""`penstock log`: looks into the files of commit logs. It only reads, also beside a running node.

DIR is a data directory, whose logs are all taken, or the directory of one log (`set-<id>`).
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import EXIT_FAILED
from penstock.cli.output import Output, OutputOption, cell, print_json, print_rows

T = TypeVar("T")

app = typer.Typer(help="Look into the files of a log: every frame, or what is wrong.")

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A data directory, or one log in it (set-<id>).")
]
DUMP_COLUMNS = {
    "position": 14,
    "frame_bytes": 11,
    "kind": 9,
    "leader_epoch": 12,
    "topic_id": 32,
    "partition": 9,
    "base_offset": 12,
    "last_offset": 12,
    "record_count": 12,
    "codec": 5,
    "producer_id": 11,
    "base_sequence": 13,
}
FINDING_COLUMNS = ("severity", "path", "position", "message")


@app.command()
def dump(
    directory: DirectoryArgument,
    start: Annotated[
        int, typer.Option("--from", min=0, metavar="POSITION", help="Begin at this byte.")
    ] = 0,
    most: Annotated[
        int | None, typer.Option("--max", "-n", min=1, metavar="N", help="Stop after so many.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print one line for each frame, in the order of the log."""
    from penstock.runtime.disk import FileDisk
    from penstock.storage.dump import dump_frames

    logs = logs_in(directory)
    left = most if most is not None else sys.maxsize
    if output is Output.TABLE:
        print(_line(list(DUMP_COLUMNS)).upper())
    for root, log in logs:
        for frame in _reading(directory, dump_frames(FileDisk(root), log, from_position=start)):
            if not left:
                return
            left -= 1
            if output is Output.JSON:
                print(json.dumps({"log": log, **frame._asdict()}))
            else:
                print(_line([cell(getattr(frame, name)) for name in DUMP_COLUMNS]))


@app.command()
def verify(directory: DirectoryArgument, output: OutputOption = Output.TABLE) -> None:
    """Check all checksums, offsets and indexes; exit code 1 if data is damaged or missing."""
    from penstock.runtime.disk import FileDisk
    from penstock.storage.verify import LogCheck, Severity

    findings: list[dict[str, object]] = []
    checked: list[dict[str, object]] = []
    for root, log in logs_in(directory):
        check = LogCheck(FileDisk(root), log)
        found = [one._asdict() for one in _reading(directory, check.findings())]
        findings += found
        checked.append(
            {
                "log": log,
                "segments": check.segment_count,
                "batches": check.batch_count,
                "batch_bytes": check.batch_bytes,
                "end_position": check.end_position,
                "errors": sum(one["severity"] == Severity.ERROR for one in found),
                "warnings": sum(one["severity"] == Severity.WARNING for one in found),
            }
        )
    if output is Output.JSON:
        print_json({"logs": checked, "findings": findings})
    else:
        print_rows(checked, tuple(checked[0]), output)
        if findings:
            print()
            print_rows(findings, FINDING_COLUMNS, output)
    if any(one["errors"] for one in checked):
        raise typer.Exit(EXIT_FAILED)


def logs_in(directory: Path) -> list[tuple[Path, str]]:
    """Return (data directory, name of the log) of each log. Raises ConfigError for none."""
    directory = directory.absolute()
    if (directory / "log").is_dir():
        return [(directory.parent, directory.name)]
    found = sorted(path for path in directory.glob("set-*") if (path / "log").is_dir())
    if not found:
        reason = "holds no log" if directory.is_dir() else "is no directory"
        raise ConfigError(
            f"{directory} {reason}: name a data directory (of penstock up: DIR/node-1/data), or a "
            "set-<id> in it"
        )
    return [(directory, path.name) for path in found]


def _reading(directory: Path, items: Iterable[T]) -> Iterator[T]:
    """Yield the items; a file that can not be read becomes one line."""
    try:
        yield from items
    except OSError as error:
        raise ConfigError(f"{directory} can not be read: {error.strerror}") from error


def _line(cells: Sequence[str]) -> str:
    widths = DUMP_COLUMNS.values()
    return " ".join(text.rjust(width) for text, width in zip(cells, widths, strict=True))
