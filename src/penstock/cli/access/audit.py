"""`penstock audit`: who used what, from the rows that nodes write."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import STREAM_SECONDS, TimeoutOption, connected
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    moment,
    note,
    print_rows,
)
from penstock.cli.records.places import Place, PlaceKind, resolve
from penstock.cli.values import named

if TYPE_CHECKING:
    from penstock.audit.row import Row, RowKey

app = typer.Typer(help="Tell who used a topic, and what was done at a time.")

MINUTE_MS = 60_000
WHO = ("principal", "client_id", "software", "version", "host")
SUMS = ("requests", "records", "bytes_in", "bytes_out", "errors")
WHO_COLUMNS = (*WHO, "operation", *SUMS)
SLICE_COLUMNS = ("minute", "node", *WHO, "operation", "topic", "partition", *SUMS)


@app.command()
def who(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.", callback=named)],
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="beginning, or a time (ISO or @ms).")
    ] = "beginning",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell who produced to a topic and consumed from it, and who was denied, with sums."""
    place = Place.parse(start)
    if place.kind not in {PlaceKind.BEGINNING, PlaceKind.TIME}:
        raise ConfigError("--from takes beginning or a time")
    sums: dict[RowKey, list[int]] = {}
    for row in _rows(bootstrap, timeout, place):
        if row.key.topic != topic or row.minute_ms + MINUTE_MS <= place.value:
            continue
        key = row.key._replace(partition=-1)
        before = sums.setdefault(key, [0] * len(SUMS))
        sums[key] = [one + more for one, more in zip(before, row.counts, strict=False)]
    rows = [
        {**key.who._asdict(), "operation": key.operation, **dict(zip(SUMS, one, strict=True))}
        for key, one in sorted(sums.items())
    ]
    print_rows(rows, WHO_COLUMNS, output)


@app.command(name="slice")
def slice_at(
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="A time (ISO or @ms).")],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell what all clients did in the minute of a time, row by row."""
    place = Place.parse(at)
    if place.kind is not PlaceKind.TIME:
        raise ConfigError("--at takes a time")
    minute_ms = place.value - place.value % MINUTE_MS
    begin = Place(PlaceKind.TIME, minute_ms)
    found = [row for row in _rows(bootstrap, timeout, begin) if row.minute_ms == minute_ms]
    rows = [
        {
            "minute": moment(row.minute_ms),
            "node": row.node,
            **row.key.who._asdict(),
            "operation": row.key.operation,
            "topic": row.key.topic,
            "partition": row.key.partition if row.key.partition >= 0 else None,
            **dict(zip(SUMS, row.counts, strict=False)),
        }
        for row in sorted(found)
    ]
    print_rows(rows, SLICE_COLUMNS, output)


def _rows(bootstrap: str, timeout: float, begin: Place) -> "Iterator[Row]":
    """Read the rows from a place to the end, each once; what is no row is counted and told.

    Raises TopicNotFound where no node has written any, and what reading any topic raises.
    """
    from penstock.audit.errors import MalformedRow
    from penstock.audit.row import TOPIC as AUDIT_TOPIC
    from penstock.audit.row import decode_row
    from penstock.client.consume import RecordStream

    seen: set[bytes | None] = set()
    malformed = 0
    with connected(bootstrap, timeout) as cluster:
        starts = resolve(cluster, AUDIT_TOPIC, begin, None)
        ends = resolve(cluster, AUDIT_TOPIC, Place(PlaceKind.END), None)
        topic = {(AUDIT_TOPIC, number): end for number, end in ends.items()}
        positions = {(AUDIT_TOPIC, number): at for number, at in starts.items()}
        for consumed in RecordStream(cluster, positions, ends=topic):
            key, value = consumed.record.key, consumed.record.value
            if key in seen:
                continue
            seen.add(key)
            try:
                yield decode_row(bytes(value or b""))
            except MalformedRow:
                malformed += 1
    if malformed:
        note(f"{malformed} records of {AUDIT_TOPIC} are no rows that this version can read")
