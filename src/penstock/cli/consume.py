"""`penstock consume`: records of a topic to stdout.

value   each value and a line end
json    one JSON document per line: partition, offset, time, key, value, headers
raw     the values with nothing between them
"""

import base64
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import STREAM_SECONDS, TimeoutOption, connected
from penstock.cli.exit_codes import is_read
from penstock.cli.output import BOOTSTRAP_DEFAULT, BootstrapOption, Output, OutputOption, note
from penstock.cli.records.group_moves import GroupMoves
from penstock.cli.records.places import Place, PlaceKind, resolve
from penstock.cli.values import COUNT_MAX, named

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster
    from penstock.client.consume import ConsumedRecord, RecordStream
    from penstock.client.errors import UnreadableRecords


Offsets = dict[tuple[str, int], int]
ENDS_SHOWN_MAX = 5


class Isolation(StrEnum):
    """The choices of --isolation, in Kafka's words."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


def _group_named(name: str | None) -> str | None:
    return named(name) if name else name  # an empty one is told of in its own words


GroupOption = Annotated[
    str | None,
    typer.Option(
        metavar="GROUP",
        callback=_group_named,
        help="Read on from a group's positions, and commit; without joining.",
    ),
]


class RecordFormat(StrEnum):
    """The choices of --format."""

    VALUE = "value"
    JSON = "json"
    RAW = "raw"


def run_consume(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to read.", callback=named)],
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="PLACE", help="beginning, end, an offset, or a time (ISO or @ms)."
        ),
    ] = "beginning",
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", metavar="N", help="Only these.")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--max", "-n", min=1, max=COUNT_MAX, metavar="N", help="Stop after N records."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new records, until Ctrl-C.")
    ] = False,
    record_format: Annotated[
        RecordFormat, typer.Option("--format", help="How a record is printed.")
    ] = RecordFormat.VALUE,
    group: GroupOption = None,
    isolation: Annotated[
        Isolation, typer.Option(help="Whether records of open and aborted transactions are shown.")
    ] = Isolation.COMMITTED,
    skip_corrupt: Annotated[
        bool,
        typer.Option("--skip-corrupt", help="Skip batches that can not be read, with a warning."),
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print a topic's records up to its present end, or on with --follow.

    Those of transactions are shown once they are committed: reading ends at the first one that is
    open, and with --follow it waits there.
    """
    place = Place.parse(start)
    if place.kind is PlaceKind.END and not follow:
        raise ConfigError("--from end reads nothing without --follow")
    if group == "":
        raise ConfigError("--group is empty: name the group, or leave it out")
    show = PRINTERS[RecordFormat.JSON if output is Output.JSON else record_format]
    with connected(bootstrap, timeout) as cluster:
        starts = _named(topic, resolve(cluster, topic, place, partition))
        ends = None
        is_committed_only = isolation is Isolation.COMMITTED
        if not follow:
            ends = _ends(cluster, topic, partition, is_committed_only=is_committed_only)
        if group is None and _is_behind(place, starts, ends):
            _tell_nothing(topic, start, starts)
        moves = GroupMoves(cluster, group) if group is not None else None
        starts = starts if moves is None else moves.starts(starts)
        stream = _stream(cluster, starts, ends, _How(is_committed_only, skip_corrupt))
        _print(itertools.islice(stream, most), show, stream, moves, is_flushed=follow)


class _How(NamedTuple):
    """What of the records is shown."""

    is_committed_only: bool
    skips_corrupt: bool


def _stream(cluster: "Cluster", starts: Offsets, ends: Offsets | None, how: _How) -> "RecordStream":
    from penstock.client.consume import STREAM_OPTIONS, RecordStream

    return RecordStream(
        cluster,
        starts,
        ends=ends,
        options=replace(STREAM_OPTIONS, is_committed_only=how.is_committed_only),
        on_unreadable=_tell_skipped if how.skips_corrupt else None,
        on_wait=end_with_reader,
    )


def _ends(
    cluster: "Cluster", topic: str, partitions: list[int] | None, *, is_committed_only: bool
) -> Offsets:
    """Return where reading ends now; where an open transaction is in the way it is told."""
    place = Place(PlaceKind.END)
    ends = resolve(cluster, topic, place, partitions)
    if not is_committed_only:
        return _named(topic, ends)
    stable = resolve(cluster, topic, place, partitions, is_committed_only=True)
    waiting = [number for number, end in stable.items() if end < ends[number]]
    if waiting:
        shown = ", ".join(str(number) for number in waiting[:ENDS_SHOWN_MAX])
        more = f" and {len(waiting) - ENDS_SHOWN_MAX} more" * (len(waiting) > ENDS_SHOWN_MAX)
        note(
            f"a transaction is open in partition {shown}{more}: what is behind it is not shown"
            f" (--isolation {Isolation.UNCOMMITTED})"
        )
    return _named(topic, stable)


def _print(
    records: "Iterable[ConsumedRecord]",
    show: "Callable[[ConsumedRecord], bytes]",
    stream: "RecordStream",
    moves: GroupMoves | None,
    *,
    is_flushed: bool,
) -> None:
    """Print records, and commit the group's positions behind them, also after Ctrl-C."""
    out = sys.stdout.buffer
    try:
        for record in records:
            out.write(show(record))
            if is_flushed:
                out.flush()
            if moves is not None and moves.is_due():
                out.flush()
                moves.commit(stream.positions)
    except KeyboardInterrupt:
        out.flush()
        if moves is not None:
            moves.commit(stream.positions)
        raise
    out.flush()
    if moves is not None:
        moves.commit(stream.positions)


def end_with_reader() -> None:
    """Raise BrokenPipeError once nobody reads stdout any more.

    A write would say so too, but where a topic is quiet `--follow | head -1` waits for one.
    """
    if not is_read():
        raise BrokenPipeError


def _is_behind(place: Place, starts: Offsets, ends: Offsets | None) -> bool:
    """Whether no record is at the given place or behind it."""
    if ends is None:
        return place.kind is PlaceKind.OFFSET and max(starts.values()) < place.value
    is_named = place.kind in {PlaceKind.OFFSET, PlaceKind.TIME}
    return is_named and all(at >= ends[one] for one, at in starts.items())


def _tell_nothing(topic: str, place: str, ends: Offsets) -> None:
    """Print where the log ends: without output the topic would seem to be empty."""
    shown = [f"{at} in partition {one}" for (_, one), at in sorted(ends.items())][:ENDS_SHOWN_MAX]
    more = f", and {len(ends) - len(shown)} more" if len(ends) > len(shown) else ""
    note(f"{topic} has nothing from {place} on: it ends at {', '.join(shown)}{more}")


def _tell_skipped(found: "UnreadableRecords") -> None:
    sys.stdout.buffer.flush()
    typer.echo(
        f"skipped {found.topic}-{found.partition}, offsets {found.first_offset} to"
        f" {found.last_offset}: {found.reason}",
        err=True,
    )


def _named(topic: str, offsets: dict[int, int]) -> Offsets:
    return {(topic, number): offset for number, offset in offsets.items()}


def _value(consumed_record: "ConsumedRecord") -> bytes:
    return (consumed_record.record.value or b"") + b"\n"


def _raw(consumed_record: "ConsumedRecord") -> bytes:
    return consumed_record.record.value or b""


def _json(consumed_record: "ConsumedRecord") -> bytes:
    record = consumed_record.record
    document: dict[str, object] = {
        "partition": consumed_record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_text("key", record.key),
        **_text("value", record.value),
    }
    if record.headers:
        document["headers"] = [{"name": name, **_text("value", v)} for name, v in record.headers]
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return bytes as text under their name, or as base64 if they are not UTF-8."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


PRINTERS: "dict[RecordFormat, Callable[[ConsumedRecord], bytes]]" = {
    RecordFormat.VALUE: _value,
    RecordFormat.RAW: _raw,
    RecordFormat.JSON: _json,
}
