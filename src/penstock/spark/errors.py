"""Errors of the Spark package.

    PlatformError
      SparkRoomError
        OptionError        an option of the source, the sink or `land` that can not be used
        NotLetIn           brokers do not let the job in, or do not permit what it does
        DataLost           records of a planned offset range are gone, and failOnDataLoss is true
        HistoryUnreadable  what the tier has can not be read from its store
        CorruptRecords     a batch in the log can not be read, and skipCorrupt is false
        BadRow             a row for the sink that can not become a record
        CheckpointUnusable a stream's decisions can not be kept where its checkpoint is said to be
        DecisionUnreadable a file of decisions is damaged, or of a later release
        JobAborted         a task has written for a job that was aborted meanwhile
        DecisionTaken      another driver has decided about the same batch
        TransactionsAborted    transactions of a batch were aborted before they could be committed
        ReplayDiffers      a batch that is committed in part was run again with other rows
        OutcomeUnknown     how a transaction has ended can not be found out
        TableConflict      another writer committed to the table while this job was landing
        TableMismatch      the table at the target is not one that this job may continue
        SparkUnavailable   Java or PySpark is missing, or Spark did not start

Spark passes exceptions of tasks on as text, so every message is complete in itself.
"""

from collections.abc import Iterable

from penstock.base.errors import PlatformError


class SparkRoomError(PlatformError):
    """Root of the errors of the Spark package."""


class OptionError(SparkRoomError):
    """An option is unknown, missing, contradicts another one or has a value that is not allowed."""


class NotLetIn(SparkRoomError):
    """A broker refuses the job's user, or the job refuses the broker's certificate."""


class DataLost(SparkRoomError):
    """Records of a planned range can not be read any more (retention, DeleteRecords, new topic)."""

    def __init__(self, topic: str, partition: int, *, wanted: int, found: int) -> None:
        super().__init__(topic, partition, wanted, found)
        self.topic, self.partition, self.wanted, self.found = topic, partition, wanted, found

    def __str__(self) -> str:
        return (
            f"records of {self.topic}-{self.partition} from offset {self.wanted} are gone, the log"
            f" now has {self.found} there; set failOnDataLoss=false to go on with what is left"
        )


class HistoryUnreadable(SparkRoomError):
    """Records at `offset` and behind it are in the tier, and its store does not give them."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(topic, partition, offset, reason)
        self.topic, self.partition, self.offset, self.reason = topic, partition, offset, reason

    def __str__(self) -> str:
        return (
            f"records of {self.topic}-{self.partition} from offset {self.offset} can not be read"
            f" from the tier: {self.reason}"
        )


class CorruptRecords(SparkRoomError):
    """The records at offsets [first, last] (both inclusive) of a partition can not be decoded."""

    def __init__(
        self, topic: str, partition: int, *, offsets: tuple[int, int], reason: str, batch: bytes
    ) -> None:
        super().__init__(topic, partition, offsets, reason)
        self.topic, self.partition, self.reason, self.batch = topic, partition, reason, batch
        self.first, self.last = offsets

    def __str__(self) -> str:
        return (
            f"{self.topic}-{self.partition}: offsets {self.first} to {self.last} can not be read:"
            f" {self.reason}; skipCorrupt=true (land: --skip-corrupt) goes on behind them"
        )


class BadRow(SparkRoomError):
    """A row for the sink that can not become a record."""


class CheckpointUnusable(SparkRoomError):
    """The checkpoint is not where the option says, or can not be written."""

    def __init__(self, location: str, reason: str) -> None:
        super().__init__(location, reason)
        self.location, self.reason = location, reason

    def __str__(self) -> str:
        return (
            f"checkpointLocation {self.location} can not be used for exactly-once delivery:"
            f" {self.reason}; give it with its scheme (file:///..., hdfs://..., s3://...) if it is"
            " not on a disk that the driver has mounted, or choose delivery=at-least-once"
        )


class DecisionUnreadable(SparkRoomError):
    """A file of decisions can not be understood."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return (
            f"{self.name} in the directory penstock of the checkpoint can not be read:"
            f" {self.reason}; restore it, or write one batch with delivery=at-least-once after"
            " that directory was moved away"
        )


class DecisionTaken(SparkRoomError):
    """The decision about a batch exists already."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path} exists: another driver of this query has decided about the batch; only"
            " one may run with a checkpoint"
        )


class JobAborted(SparkRoomError):
    """Nobody waits for the task any more; its transaction is aborted."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(transactional_id)
        self.transactional_id = transactional_id

    def __str__(self) -> str:
        return f"the job was aborted while {self.transactional_id} was written; so is that"


class TransactionsAborted(SparkRoomError):
    """Transactions of tasks had ended before the job could commit them."""

    def __init__(self, partitions: Iterable[int], *, is_visible_in_part: bool) -> None:
        self.partitions, self.is_visible_in_part = tuple(sorted(partitions)), is_visible_in_part
        super().__init__(self.partitions, is_visible_in_part)

    def __str__(self) -> str:
        rest = (
            "the others are committed; a stream that is started again adds the missing rows"
            if self.is_visible_in_part
            else "nothing of the batch is visible"
        )
        numbers = ", ".join(map(str, self.partitions))
        return (
            f"transactions of partitions {numbers} were aborted before they were committed: {rest}."
            " If the job takes longer than transactionTimeout (and brokers allow more), raise it"
        )


class ReplayDiffers(SparkRoomError):
    """The missing rows of a batch can not be told from the rows that are there."""

    def __init__(self, batch: int, partitions: Iterable[int], reason: str) -> None:
        self.batch, self.partitions, self.reason = batch, tuple(sorted(partitions)), reason
        super().__init__(batch, self.partitions, reason)

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.partitions))
        return (
            f"batch {self.batch} is committed but for its partitions {numbers}, whose transactions"
            f" have timed out, and this run of it is another one: {self.reason}. A query whose rows"
            " depend on more than its source can not continue by itself; one run with"
            " delivery=at-least-once writes the whole batch again"
        )


class OutcomeUnknown(SparkRoomError):
    """Whether a transaction was committed is known neither to its coordinator nor in the log."""

    def __init__(self, transactional_id: str, reason: str) -> None:
        super().__init__(transactional_id, reason)
        self.transactional_id, self.reason = transactional_id, reason

    def __str__(self) -> str:
        return (
            f"whether transaction {self.transactional_id} was committed can not be found out:"
            f" {self.reason}; look for its rows in the topic. One run with delivery=at-least-once"
            " writes the whole batch again"
        )


class TableConflict(SparkRoomError):
    """Another writer committed to the table meanwhile; nothing of this attempt is in it."""


class TableMismatch(SparkRoomError):
    """The target exists and is of another format, schema or topic."""


class SparkUnavailable(SparkRoomError):
    """Spark can not be started; the message says what to install."""
