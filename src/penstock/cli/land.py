"""`penstock land`: a topic into a table, exactly once, through Spark."""

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.base.errors import ConfigError
from penstock.cli.connect import client_config
from penstock.cli.output import BOOTSTRAP_DEFAULT, BootstrapOption, Output, OutputOption
from penstock.cli.values import directory, named, quoted

TIER_STORE = ("url", "endpoint", "region", "access-key-id", "secret-key-file")


class TableFormat(StrEnum):
    """The choices of --format."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class PartitionBy(StrEnum):
    """The choices of --partition-by."""

    HOUR = "hour"
    DAY = "day"
    NONE = "none"


class Starting(StrEnum):
    """The choices of --starting."""

    EARLIEST = "earliest"
    LATEST = "latest"


ToOption = Annotated[
    Path, typer.Option(metavar="DIR", help="Directory of the table.", parser=directory)
]
FormatOption = Annotated[TableFormat, typer.Option("--format", help="Kind of table.")]
StreamOption = Annotated[
    bool, typer.Option("--stream", help="Go on with what comes, until SIGTERM.")
]
CaughtUpOption = Annotated[
    bool, typer.Option("--until-caught-up", help="With --stream: end when nothing is left.")
]
SchemaOption = Annotated[
    str, typer.Option(help="raw, text, infer, or columns: 'path string, size long'.")
]
PartitionByOption = Annotated[PartitionBy, typer.Option(help="Time partitions of the table, UTC.")]
DeadLetterOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Table for records that do not fit the schema.")
]
StartingOption = Annotated[
    Starting, typer.Option(help="Where a partition the table does not know begins.")
]
LossOption = Annotated[
    bool, typer.Option("--allow-data-loss", help="Go on when records are gone already.")
]
CorruptOption = Annotated[
    bool, typer.Option("--skip-corrupt", help="What can not be read becomes a dead letter.")
]
TriggerOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="With --stream: least time between batches.")
]
BatchOption = Annotated[int, typer.Option(help="Most records of one commit to the table.")]
BrokerTimeoutOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="Give up when no broker answers for so long.")
]
MasterOption = Annotated[str, typer.Option(help="Spark master URL.")]
ConfOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark setting; repeatable.")
]
TierOption = Annotated[
    str, typer.Option(help="History from the object store: auto, required, or off.")
]
TierStoreOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Its url, endpoint, region, access-key-id or secret-key-file, for Spark; repeatable.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--no-progress", help="Show no progress line.")]


def run_land(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to land.", callback=named)],
    to: ToOption,
    table_format: FormatOption = TableFormat.PARQUET,
    stream: StreamOption = False,
    until_caught_up: CaughtUpOption = False,
    schema: SchemaOption = "raw",
    partition_by: PartitionByOption = PartitionBy.HOUR,
    dead_letter: DeadLetterOption = None,
    starting: StartingOption = Starting.EARLIEST,
    allow_data_loss: LossOption = False,
    skip_corrupt: CorruptOption = False,
    trigger: TriggerOption = 1.0,
    max_records_per_batch: BatchOption = 2_000_000,
    broker_timeout: BrokerTimeoutOption = 60.0,
    master: MasterOption = "local[*]",
    tier: TierOption = "auto",
    tier_store: TierStoreOption = None,
    conf: ConfOption = None,
    no_progress: QuietOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Land a topic in a Parquet, Delta or Iceberg table, exactly once."""
    from penstock.spark.errors import OptionError
    from penstock.spark.land import LandOptions, main
    from penstock.spark.security import SecurityOptions
    from penstock.spark.tier.options import tier_options

    try:
        options = LandOptions(
            topic=topic,
            to=to,
            format=table_format.value,
            bootstrap=bootstrap,
            stream=stream,
            until_caught_up=until_caught_up,
            schema=schema,
            partition_by=partition_by.value,
            dead_letter=dead_letter,
            master=master,
            trigger_seconds=trigger,
            max_records_per_batch=max_records_per_batch,
            starting=starting.value,
            fail_on_data_loss=not allow_data_loss,
            skip_corrupt=skip_corrupt,
            broker_timeout_seconds=broker_timeout,
            security=SecurityOptions(client_config=client_config()),
            tier=tier_options({"tier": tier, **dict(map(_of_store, tier_store or ()))}),
            spark_conf=dict(_setting(text) for text in conf or ()),
            output=output.value,
            progress=not no_progress,
        )
    except OptionError as error:
        raise ConfigError(str(error)) from error
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError("land needs PySpark: pip install 'penstock[spark]'")
    raise typer.Exit(main(options))


def _of_store(text: str) -> tuple[str, str]:
    """Return an option of the store under the name that the source has for it."""
    name, equals, value = text.partition("=")
    if not equals or name not in TIER_STORE:
        raise ConfigError(
            f"--tier-store {quoted(text)}: write KEY=VALUE, with one of {', '.join(TIER_STORE)}"
        )
    return f"tier{name.replace('-', '')}", value


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--conf {quoted(text)}: write --conf KEY=VALUE")
    return name, value
