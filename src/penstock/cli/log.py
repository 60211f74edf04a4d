"""`penstock log`: inspects the files of commit logs. It only reads, also while a node is running.

DIR is a data directory, for all logs in it, or the directory of one log (`set-<id>`).
"""

import contextlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeVar
from uuid import UUID

import typer

from penstock.base.errors import ConfigError
from penstock.base.ids import TopicPartition
from penstock.cli.exit_codes import EXIT_FAILED
from penstock.cli.output import Output, OutputOption, cell, note, print_json, print_rows
from penstock.cli.values import COUNT_MAX

T = TypeVar("T")

app = typer.Typer(help="Inspect the files of a log: print frames, verify them, show what is kept.")

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A data directory, or one log in it (set-<id>).")
]
DUMP_COLUMNS = {
    "log": 8,
    "position": 14,
    "frame_bytes": 11,
    "kind": 9,
    "leader_epoch": 12,
    "topic_id": 36,
    "partition": 9,
    "base_offset": 12,
    "last_offset": 12,
    "record_count": 12,
    "codec": 5,
    "producer_id": 11,
    "base_sequence": 13,
}
LOG_PREFIX = "set-"
PIN_COLUMNS = (
    "log",
    "topic_id",
    "partition",
    "segments",
    "size_bytes",
    "alone_bytes",
)
SECOND_LEVEL_COLUMNS = ("log", "files", "size_bytes", "needed_bytes", "partitions", "extents")
MOVED_COLUMNS = ("log", "topic_id", "partition", "files", "extents", "batch_bytes")
SEGMENT_COLUMNS = ("log", "base", "size_bytes", "pin", "partition_count", "partitions")
FINDING_COLUMNS = ("severity", "path", "position", "message")


@app.command()
def dump(
    directory: DirectoryArgument,
    start: Annotated[
        int,
        typer.Option(
            "--from", min=0, max=COUNT_MAX, metavar="POSITION", help="Begin at this byte."
        ),
    ] = 0,
    most: Annotated[
        int | None,
        typer.Option("--max", "-n", min=1, max=COUNT_MAX, metavar="N", help="Stop after N frames."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print one line for each frame, in the order of the log; exit code 1 if it ends in damage."""
    from penstock.inspection.dump import dump_frames
    from penstock.runtime.io.disk import FileDisk

    logs = logs_in(directory)
    left = asked = most if most is not None else sys.maxsize
    if output is Output.TABLE:
        print(_line(list(DUMP_COLUMNS)).upper())
    for root, log in logs:
        for frame in _reading(root, dump_frames(FileDisk(root), log, from_position=start)):
            if not left:
                return
            left -= 1
            row = {"log": log, **frame._asdict(), "topic_id": _topic_id(frame.topic_id)}
            if output is Output.JSON:
                print(json.dumps(row))
            else:
                print(_line([cell(row[name]) for name in DUMP_COLUMNS]))
    if start and left == asked:
        note(f"no frame begins at byte {start} or behind it")


@app.command()
def verify(directory: DirectoryArgument, output: OutputOption = Output.TABLE) -> None:
    """Check all checksums, offsets and indexes; exit code 1 if data is damaged or missing."""
    from penstock.inspection.findings import Severity
    from penstock.inspection.verify import LogCheck
    from penstock.runtime.io.disk import FileDisk

    findings: list[dict[str, object]] = []
    checked: list[dict[str, object]] = []
    for root, log in logs_in(directory):
        check = LogCheck(FileDisk(root), log)
        found = [one._asdict() for one in _reading(root, check.findings())]
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


@app.command()
def pins(
    directory: DirectoryArgument,
    most: Annotated[
        int,
        typer.Option(
            "--max", "-n", min=1, max=COUNT_MAX, metavar="N", help="Name at most N partitions."
        ),
    ] = 20,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the partitions that keep files from being deleted, those that keep most alone first.

    A file is deleted when no partition needs a record in it. A topic with long retention, or a
    group's position, keeps whole files for a few bytes; `alone_bytes` is what would be freed
    without it. The last tables tell what was moved to files of the second level (log.level0_ms),
    and whose it is: files of which half or less is needed are written anew without the rest.

    Example: penstock log pins /var/lib/penstock
    """
    from penstock.inspection.pins_of_files import read_pins
    from penstock.runtime.io.disk import FileDisk

    partitions: list[dict[str, object]] = []
    segments: list[dict[str, object]] = []
    second_level: list[dict[str, object]] = []
    moved: list[dict[str, object]] = []
    for root, log in logs_in(directory):
        with _told_in_one_line(root):
            report, level, of_partitions = read_pins(FileDisk(root), log)
        second_level.append({"log": log, **level._asdict()})
        for partition, kept in report.heaviest(most):
            partitions.append({"log": log, **_named(partition), **kept._asdict()})
        for partition, needed in islice(of_partitions.items(), most):
            moved.append({"log": log, **_named(partition), **needed._asdict()})
        for each in report.segments:
            names = [f"{_topic_id(one.topic_id.hex())}/{one.partition}" for one in each.partitions]
            segments.append({"log": log, **each._asdict(), "partitions": names})
    if output is Output.JSON:
        tables = {"partitions": partitions, "segments": segments}
        print_json({**tables, "second_level": second_level, "moved": moved})
        return
    print_rows(partitions, PIN_COLUMNS, output)
    print()
    print_rows(segments, SEGMENT_COLUMNS, output)
    print()
    print_rows(second_level, SECOND_LEVEL_COLUMNS, output)
    print()
    print_rows(moved, MOVED_COLUMNS, output)


def _named(partition: TopicPartition) -> dict[str, object]:
    topic_id = _topic_id(partition.topic_id.hex())
    return {"topic_id": topic_id, "partition": partition.partition}


def logs_in(directory: Path) -> list[tuple[Path, str]]:
    """Return (data directory, name of the log) of each log. Raises ConfigError if there is none."""
    directory = directory.absolute()
    if directory.name.startswith(LOG_PREFIX) and (directory / "log").is_dir():
        return [(directory.parent, directory.name)]
    found = sorted(path for path in directory.glob(f"{LOG_PREFIX}*") if (path / "log").is_dir())
    if not found:
        reason = "holds no log" if directory.is_dir() else "is no directory"
        raise ConfigError(
            f"{directory} {reason}: name a data directory (of penstock up: DIR/node-1/data), or a "
            "set-<id> in it"
        )
    return [(directory, path.name) for path in found]


@contextlib.contextmanager
def _told_in_one_line(root: Path) -> Iterator[None]:
    """Turn errors into one line with the whole path: a log knows only its path in the directory."""
    from penstock.storage.errors import CorruptLog, NewerFormat

    try:
        yield
    except OSError as error:
        raise ConfigError(f"{root} can not be read: {error.strerror}") from error
    except CorruptLog as error:
        place = str(root / error.directory)
        raise CorruptLog(place, error.position, error.reason) from error
    except NewerFormat as error:
        raise NewerFormat(f"{root}: {error.path}", error.what) from error


def _reading(root: Path, items: Iterable[T]) -> Iterator[T]:
    """Yield the items; errors of reading them are converted, errors of printing them are not."""
    with _told_in_one_line(root):
        yield from items


def _topic_id(digits: str) -> str:
    """Return a topic id as `penstock topic list` shows it, so that it can be searched for."""
    return str(UUID(digits)) if digits else ""


def _line(cells: Sequence[str]) -> str:
    widths = DUMP_COLUMNS.values()
    return " ".join(text.rjust(width) for text, width in zip(cells, widths, strict=True))
