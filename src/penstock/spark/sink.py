"""`format("penstock")` as a sink: rows of a batch or stream become records.

Columns are those of Spark's Kafka sink: `value` (required), `key`, `topic` (unless the option
names one), `partition`, `headers`; and also `timestamp`, so that a topic read by the source and
written here keeps its timestamps. Other columns are not written.

Guarantees: every task has its own idempotent producer, so that retries inside a task neither
duplicate nor reorder records, and a task ends only when all its records are acknowledged with
acks=all. If Spark runs a task or a micro-batch again, it writes again: delivery is at least once,
as with Spark's Kafka sink. For exactly-once use a table: see `penstock land`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.client.produce import ProduceOptions, Producer, now_ms
from penstock.record.build import Record
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import BadRow, OptionError
from penstock.spark.options import CODECS, SinkOptions

_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


@dataclass(frozen=True, slots=True)
class Acknowledged(WriterCommitMessage):
    """The result of a task."""

    records: int


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Raise OptionError unless rows of this schema can become records."""
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in given:
        raise OptionError(f"the sink needs a column value; the rows have {', '.join(given)}")
    if options.topic is None and "topic" not in given:
        raise OptionError('tell the topic: .option("topic", NAME) or a column topic')
    for name, allowed in _TYPES.items():
        if name in given and given[name] not in allowed:
            raise OptionError(f"column {name} must be {' or '.join(allowed)}, not {given[name]}")


class _TopicWriter:
    """The part of both writers that runs in a task."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        options = self.options
        produce = ProduceOptions(
            codec=CODECS[options.compression], batch_bytes_max=options.batch_bytes
        )
        with (
            BrokerAccess(options.bootstrap, options.broker_timeout_seconds) as access,
            Producer(access.cluster, produce, may_create_topics=True) as producer,
        ):
            for batch in iterator:
                _send(producer, batch, options.topic)
            producer.flush()
            return Acknowledged(producer.acknowledged_count)


class BatchWriter(_TopicWriter, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic can not be overwritten; use .mode("append")')
        super().__init__(options, schema)


class StreamWriter(_TopicWriter, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: acknowledged records are in the log already."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: acknowledged records stay, and are written again by the retry."""


def _send(producer: Producer, batch: pa.RecordBatch, topic: str | None) -> None:
    rows = batch.num_rows
    none: list[Any] = [None] * rows
    columns = {
        name: batch.column(name).to_pylist() if name in batch.schema.names else none
        for name in ("key", "value", "partition", "headers")
    }
    times = _milliseconds(batch)
    topics = [topic] * rows if topic is not None else batch.column("topic").to_pylist()
    for row, target in enumerate(topics):
        if target is None:
            raise BadRow("a row has no topic, and the option topic is not set")
        headers = columns["headers"][row]
        record = Record(
            _bytes(columns["key"][row]),
            _bytes(columns["value"][row]),
            tuple((header["key"], header["value"]) for header in headers) if headers else (),
            times[row],
        )
        producer.send(target, record, partition=columns["partition"][row])


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _milliseconds(batch: pa.RecordBatch) -> list[int]:
    """Return the timestamp of each row: its own, or the present time."""
    now = now_ms()
    if "timestamp" not in batch.schema.names:
        return [now] * batch.num_rows
    milliseconds = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
    return list(pc.fill_null(milliseconds, now).to_pylist())
