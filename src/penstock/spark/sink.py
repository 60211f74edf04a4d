"""`format("penstock")` as a sink: rows of a batch or stream become records.

Columns are those of Spark's Kafka sink: `value` (required), `key`, `topic` (unless the option
names one), `partition`, `headers`; and also `timestamp`, so that a topic read by the source and
written here keeps its timestamps. Other columns are not written.

Guarantees: every task has its own idempotent producer, so that retries inside a task neither
duplicate nor reorder records, and a task ends only when all its records are acknowledged with
acks=all. `delivery` decides what happens if Spark runs a task or a micro-batch again:

    exactly-once   each row counts once for readers of committed records; see `exactly_once`
    at-least-once  it is written again, as with Spark's Kafka sink
"""

import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock.access.rules import AclOperation
from penstock.client.errors import BrokerError, UnsupportedByBroker
from penstock.client.produce import Delivered, ProduceOptions, Producer, now_ms
from penstock.protocol.error_codes import ErrorCode
from penstock.record.build import Record
from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import BadRow, CheckpointUnusable, JobAborted, OptionError
from penstock.spark.exactly_once.checkpoint import open_checkpoint
from penstock.spark.exactly_once.decisions import Decisions
from penstock.spark.exactly_once.driver import Ender, StreamCommit, id_of, prefix_of
from penstock.spark.exactly_once.ending import Gate, abort_all, gate_of
from penstock.spark.exactly_once.written import Digest, Witness, Written
from penstock.spark.options import AT_LEAST_ONCE, CODECS, EXACTLY_ONCE, SinkOptions
from penstock.spark.security import WRITES, refusals_told

_TYPES = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}


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
    """The part of both writers that runs in a task; `prefix` is None for at least once."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema, options)
        self.options = options
        self.prefix: str | None = None
        self.gate: Gate = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task, and return when all are acknowledged.

        With exactly once their transaction is open then: the driver decides about it.
        """
        with self._told(), self._access() as access:
            writing = _Writing(access, self.options, self._transactional_id())
            try:
                for batch in iterator:
                    writing.send(batch)
                written = writing.finish(_partition())
                self._check_gate(access, written)
                return written
            except BaseException as error:
                writing.abort()
                explained = _explained(error, self.options)
                if explained is None:
                    raise
                raise explained from error

    def _check_gate(self, access: BrokerAccess, written: Written) -> None:
        """Raise JobAborted if the job was aborted since it was planned."""
        opened = written.transaction
        if opened is None or self.prefix is None:
            return
        if gate_of(access, self.prefix) != self.gate:
            raise JobAborted(opened.transactional_id)

    def _transactional_id(self) -> str | None:
        if self.prefix is None:
            return None
        task = TaskContext.get()
        attempt = 0 if task is None else task.attemptNumber()
        return id_of(self.prefix, _partition(), attempt)

    def _access(self) -> BrokerAccess:
        return BrokerAccess(
            self.options.bootstrap,
            self.options.broker_timeout_seconds,
            is_committed_only=True,
            security=self.options.security.load(),
        )

    def _told(self) -> AbstractContextManager[None]:
        return refusals_told(self.options.security, WRITES)

    def _check_permitted(self, access: BrokerAccess) -> None:
        """Find out on the driver what would have every task fail. Raises NotLetIn."""
        access.cluster.describe([])
        if self.options.topic is not None:
            access.check_permitted([self.options.topic], AclOperation.WRITE)


class BatchWriter(_TopicWriter, DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise OptionError('a topic can not be overwritten; use .mode("append")')
        super().__init__(options, schema)
        with self._told(), self._access() as access:
            self._check_permitted(access)
            if options.is_exactly_once:
                self.prefix = prefix_of(uuid.uuid4().hex)
                with _old_brokers_told():
                    self.gate = Ender(access, self.prefix).gate()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks."""
        if self.prefix is not None:
            with self._told(), self._access() as access:
                Ender(access, self.prefix).commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort what tasks have left open. At least once: acknowledged records stay."""
        if self.prefix is not None:
            with self._told(), self._access() as access:
                Ender(access, self.prefix).abort(messages)


class StreamWriter(_TopicWriter, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query.

    Spark makes one on the driver before the tasks of a batch run, and another one for each commit
    and abort: what is left of a recorded decision is finished whenever one is made.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if not options.is_exactly_once:
            with self._told(), self._access() as access:
                self._check_permitted(access)
            return
        with _old_brokers_told(), self._commits() as commits:
            commits.finish()
            self.gate = commits.gate()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Record the decision, then commit the transactions of all tasks."""
        if self.options.is_exactly_once:
            with self._commits() as commits:
                commits.commit(messages, batchId)
        elif self.options.checkpoint is not None:
            with suppress(CheckpointUnusable), self._commits() as commits:
                commits.settle()

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort what no decision names. At least once: acknowledged records stay, and are written
        again by the retry.
        """
        if self.options.is_exactly_once:
            with self._commits() as commits:
                commits.abort(messages)

    @contextmanager
    def _commits(self) -> Iterator[StreamCommit]:
        assert self.options.checkpoint is not None, "options are checked"
        query_id, place = open_checkpoint(self.options.checkpoint)
        prefix = prefix_of(query_id)
        if self.options.is_exactly_once:
            self.prefix = prefix
        with self._told(), self._access() as access:
            yield StreamCommit(Ender(access, prefix), Decisions(place))


class _Writing:
    """The producer of a task."""

    def __init__(
        self, access: BrokerAccess, options: SinkOptions, transactional_id: str | None
    ) -> None:
        self._access, self._options = access, options
        produce = ProduceOptions(
            codec=CODECS[options.compression],
            batch_bytes_max=options.batch_bytes,
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
        )
        self._producer = Producer(
            access.cluster, produce, on_delivered=self._note, may_create_topics=True
        )
        self._digest = Digest()
        self._witness: Witness | None = None

    def send(self, batch: pa.RecordBatch) -> None:
        for topic, record, partition in _records(batch, self._options.topic):
            self._digest.add(topic, record.key, record.value)
            self._producer.send(topic, record, partition=partition)

    def finish(self, partition: int) -> Written:
        """Return what was written, when all of it is acknowledged."""
        self._producer.flush()
        return Written(
            partition,
            self._producer.transaction,
            records=self._producer.acknowledged_count,
            digest=self._digest.value,
            witness=self._witness,
        )

    def abort(self) -> None:
        """Abort the transaction of a task that fails; without one its records stay."""
        transaction = self._producer.transaction
        if transaction is not None:
            abort_all(self._access, [transaction])

    def _note(self, delivered: Delivered) -> None:
        if self._witness is None and delivered.base_offset >= 0:
            self._witness = Witness(delivered.topic, delivered.partition, delivered.base_offset)


def _explained(error: BaseException, options: SinkOptions) -> OptionError | None:
    """Return what says which option to change, where that is what helps."""
    if not options.is_exactly_once:
        return None
    if isinstance(error, BrokerError) and error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return OptionError(
            f"transactionTimeout: brokers do not allow {options.transaction_timeout_ms} ms"
            f" (their transaction.max.timeout.ms): {error}"
        )
    return _too_old(error) if isinstance(error, UnsupportedByBroker) else None


@contextmanager
def _old_brokers_told() -> Iterator[None]:
    try:
        yield
    except UnsupportedByBroker as error:
        raise _too_old(error) from error


def _too_old(error: UnsupportedByBroker) -> OptionError:
    return OptionError(
        f"{error}; delivery={EXACTLY_ONCE} needs version 2 of transactions, as Penstock and"
        f" Kafka 4 have it; older brokers take delivery={AT_LEAST_ONCE}"
    )


def _partition() -> int:
    task = TaskContext.get()
    return 0 if task is None else task.partitionId()


def _records(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, Record, int | None]]:
    """Yield topic, record and partition of each row; None where the key decides."""
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
        yield target, record, columns["partition"][row]


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _milliseconds(batch: pa.RecordBatch) -> list[int]:
    """Return the timestamp of each row: its own, or the present time."""
    now = now_ms()
    if "timestamp" not in batch.schema.names:
        return [now] * batch.num_rows
    milliseconds = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000)
    return list(pc.fill_null(milliseconds, now).to_pylist())
