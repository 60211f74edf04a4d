"""Options of `penstock land`. The command line fills them in and calls `land.main`.

Nothing here needs Spark: the options are checked before a JVM is started.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from penstock.spark.errors import OptionError
from penstock.spark.security import SecurityOptions
from penstock.spark.tier.options import TierOptions

TableFormat = Literal["parquet", "delta", "iceberg"]
PartitionBy = Literal["none", "day", "hour"]

RAW_SCHEMA = "raw"
TEXT_SCHEMA = "text"
INFER_SCHEMA = "infer"
SECONDS_MAX = 86_400
"""A day. Values are compared with a range, which no nan is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandOptions:
    """One landing job: one topic into one table."""

    topic: str
    """The topic to land; all its partitions, also those added later."""

    to: Path
    """Directory of the table; created if missing. Executors must see the same path."""

    format: TableFormat = "parquet"
    """`parquet` (plain files, any reader), `delta` or `iceberg`."""

    bootstrap: str = "127.0.0.1:9092"
    """Brokers to connect to first, HOST:PORT[,HOST:PORT]."""

    stream: bool = False
    """False: land what is in the topic at the start, then end. True: continue with new records
    until SIGINT or SIGTERM (the present batch is finished, exit code 0)."""

    until_caught_up: bool = False
    """With `stream`: end as soon as there is nothing more to land."""

    schema: str = RAW_SCHEMA
    """How a value becomes columns: `raw` (value as bytes, the default), `text` (value and key as
    UTF-8 strings), `infer` (JSON, types taken from the first records), or a Spark DDL list such as
    `path string, size long, mtime timestamp` (JSON objects with these fields; a missing field is
    null, a field that is not listed is dropped)."""

    partition_by: PartitionBy = "hour"
    """Time partitions of the table, by record timestamp in UTC: `hour`, `day` or `none`."""

    dead_letter: Path | None = None
    """Table for the records that do not fit the schema (topic, partition, offset, timestamp,
    reason, key, value), in the same format. None means `<to>_dead_letter`. With `raw`, where every
    record fits, it is used with `skip_corrupt` only."""

    master: str = "local[*]"
    """Spark master URL, e.g. `local[2]`, `spark://host:7077`, `yarn`."""

    trigger_seconds: float = 1.0
    """With `stream`: shortest time from the start of one batch to the start of the next. Every
    batch writes at least one file per partition with new records: longer gives larger files."""

    max_records_per_batch: int = 2_000_000
    """Largest number of records in one batch (one table commit), shared over partitions by lag."""

    starting: Literal["earliest", "latest"] = "earliest"
    """Where a partition that is new to the table begins. Others continue at their end there."""

    fail_on_data_loss: bool = True
    """True: end with an error if records were deleted from the topic before they were landed.
    False: print a warning and continue with the oldest that are left."""

    skip_corrupt: bool = False
    """False: end with an error at a batch whose records can not be read. True: the batch becomes
    a dead letter, as it is stored, and the job continues behind it."""

    broker_timeout_seconds: float = 60.0
    """How long the job keeps trying while no broker answers, before it ends with an error."""

    security: SecurityOptions = field(default_factory=SecurityOptions)
    """How the job comes in where brokers ask who it is."""

    tier: TierOptions = field(default_factory=TierOptions)
    """Whether, and how, history is read from the object store."""

    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Further Spark settings; they override those of the job."""

    output: Literal["table", "json"] = "table"
    """`json` prints the summary as one JSON object on stdout instead of a table."""

    progress: bool = True
    """Show progress on stderr: a line that is updated on a terminal, else one line per 10 s."""

    def __post_init__(self) -> None:
        """Raise OptionError for values that can not be used, naming the command-line option."""
        if not self.topic:
            raise OptionError("land needs a topic")
        for name, value, allowed in (
            ("--format", self.format, ("parquet", "delta", "iceberg")),
            ("--partition-by", self.partition_by, ("none", "day", "hour")),
            ("--starting", self.starting, ("earliest", "latest")),
        ):
            if value not in allowed:
                raise OptionError(f"{name} {value}: choose one of {', '.join(allowed)}")
        if "://" in str(self.to) or ":/" in str(self.to):
            raise OptionError(f"--to {self.to}: give a path that the driver and executors share")
        for name, seconds in (
            ("--trigger", self.trigger_seconds),
            ("--broker-timeout", self.broker_timeout_seconds),
        ):
            if not 0 <= seconds <= SECONDS_MAX:
                raise OptionError(f"{name}: seconds, 0 to {SECONDS_MAX}")
        if self.max_records_per_batch < 1:
            raise OptionError("--max-records-per-batch: 1 or more")
        if self.until_caught_up and not self.stream:
            raise OptionError(
                "--until-caught-up goes with --stream; without it land ends by itself"
            )

    @property
    def dead_letter_path(self) -> Path:
        """Directory of the dead-letter table."""
        return self.dead_letter or self.to.with_name(self.to.name + "_dead_letter")
