"""`penstock audit metrics`: what clients have pushed of their own metrics."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.access.audit_rows import RowTopic, since, tell_left_out
from penstock.cli.connect import STREAM_SECONDS, TimeoutOption
from penstock.cli.output import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    Output,
    OutputOption,
    moment,
    print_rows,
)

if TYPE_CHECKING:
    from penstock.telemetry.series import Series

NO_METRICS = (
    "no client has pushed metrics: set broker.client_metrics=true on each node, and say with"
    " `penstock config set client-metrics NAME` what clients push"
)
COLUMNS = (
    *("time", "principal", "client_id", "software", "version", "host", "instance"),
    *("metric", "attributes", "kind", "unit", "points", "value", "total_count", "total"),
)
FromOption = Annotated[
    str, typer.Option("--from", metavar="PLACE", help="beginning, or a time (ISO or @ms).")
]


def metrics(
    metric: Annotated[
        str, typer.Option("--metric", metavar="PREFIX", help="Metrics that begin so.")
    ] = "",
    client_id: Annotated[
        str, typer.Option("--client-id", metavar="ID", help="Clients with this id.")
    ] = "",
    instance: Annotated[
        str, typer.Option("--instance", metavar="ID", help="One client instance.")
    ] = "",
    start: FromOption = "beginning",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    timeout: TimeoutOption = STREAM_SECONDS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Tell what clients have pushed of their own metrics: the newest value of each, and of those
    that are sent as differences what they add up to.
    """
    from penstock.telemetry.errors import MalformedTelemetry
    from penstock.telemetry.row import TOPIC, decode_row
    from penstock.telemetry.series import AllSeries

    place, found = since(start), AllSeries()
    topic = RowTopic(TOPIC, NO_METRICS, decode_row, MalformedTelemetry)
    for row in topic.since(bootstrap, timeout, place):
        source, point = row
        is_wanted = point.metric.startswith(metric) and client_id in {"", source.who.client_id}
        if is_wanted and instance in {"", source.instance} and source.at_ms >= place.value:
            found.add(row)
    print_rows([_told(one) for one in found], COLUMNS, output)
    tell_left_out(found.left_out, "metrics")


def _told(one: "Series") -> dict[str, object]:
    return {
        "time": moment(one.time_ms or one.source.at_ms),
        **one.source.who._asdict(),
        "instance": one.source.instance,
        "metric": one.metric,
        "attributes": ",".join(f"{key}={value}" for key, value in one.attributes),
        "kind": one.kind,
        "unit": one.unit,
        "points": one.points,
        "value": one.value,
        "total_count": one.total_count,
        "total": one.total,
    }
