"""`penstock audit`: who used what, from the rows that nodes write."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.access.audit_rows import rows_since, since, tell_left_out
from penstock.cli.access.client_metrics import FromOption, metrics
from penstock.cli.connect import STREAM_SECONDS, TimeoutOption
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    moment,
    print_rows,
)
from penstock.cli.records.places import Place, PlaceKind
from penstock.cli.values import named

if TYPE_CHECKING:
    from penstock.audit.row import RowKey

app = typer.Typer(help="Tell who used a topic, what was done at a time, and clients' metrics.")
app.command(name="metrics")(metrics)

FOLD_MS_MAX = 3_600_000
"""The longest that `broker.audit_fold_ms` may be."""
WHO = ("principal", "client_id", "software", "version", "host")
OF_PARTITIONS = ("requests", "records", "bytes_in", "bytes_out", "bytes_cold", "errors")
WHO_COLUMNS = (*WHO, "operation", *OF_PARTITIONS)
TIMES = ("throttle_ms", "timed", "latency_us", "latency_us_max")
SLICE_COLUMNS = (
    *("began", "ended", "node", *WHO, "operation", "topic", "partition"),
    *(*OF_PARTITIONS, *TIMES),
)


@app.command()
def who(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic.", callback=named)],
    start: FromOption = "beginning",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell who produced to a topic and consumed from it, and who was denied, with sums."""
    from penstock.audit.sums import Sums

    place = since(start)
    sums: Sums[RowKey] = Sums()
    for row in rows_since(bootstrap, timeout, place):
        if _is_of_topic(row.key, topic) and row.ended_ms > place.value:
            sums.add(row.key._replace(partition=-1), row.counts)
    rows = [{**key.who._asdict(), "operation": key.operation, **one} for key, one in sums]
    print_rows(rows, WHO_COLUMNS, output)
    tell_left_out(sums.left_out, "clients")


def _is_of_topic(key: "RowKey", topic: str) -> bool:
    """Whether a row is of this topic: groups may have the same name."""
    is_decision = " " in key.operation
    return key.topic == topic and (not is_decision or key.operation.endswith(" topic"))


@app.command(name="slice")
def slice_at(
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="A time (ISO or @ms).")],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell what all clients did in the folds that a time is in, row by row."""
    from penstock.audit.sums import Sums

    place = Place.parse(at)
    if place.kind is not PlaceKind.TIME:
        raise ConfigError("--at takes a time")
    sums: Sums[tuple[int, int, int, RowKey]] = Sums()
    begin = Place(PlaceKind.TIME, max(0, place.value - FOLD_MS_MAX))
    for row in rows_since(bootstrap, timeout, begin):
        if row.began_ms <= place.value < row.ended_ms:
            sums.add((row.began_ms, row.ended_ms, row.node, row.key), row.counts)
    rows = [
        {
            "began": moment(began_ms),
            "ended": moment(ended_ms),
            "node": node,
            **key.who._asdict(),
            "operation": key.operation,
            "topic": key.topic,
            "partition": key.partition if key.partition >= 0 else None,
            **one,
        }
        for (began_ms, ended_ms, node, key), one in sums
    ]
    print_rows(rows, SLICE_COLUMNS, output)
    tell_left_out(sums.left_out, "rows at that time")
