"""Errors of the Spark package.

    PlatformError
      SparkRoomError
        OptionError        an option of the source, the sink or `land` that can not be used
        DataLost           records of a planned offset range are gone, and failOnDataLoss is true
        CorruptRecords     a batch in the log can not be read, and skipCorrupt is false
        BadRow             a row for the sink that can not become a record
        TableConflict      another writer committed to the table while this job was landing
        TableMismatch      the table at the target is not one that this job may continue
        SparkUnavailable   Java or PySpark is missing, or Spark did not start

Spark passes exceptions of tasks on as text, so every message is complete in itself.
"""

from penstock.base.errors import PlatformError


class SparkRoomError(PlatformError):
    """Root of the errors of the Spark package."""


class OptionError(SparkRoomError):
    """An option is unknown, missing, contradicts another one or has a value that is not allowed."""


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


class TableConflict(SparkRoomError):
    """Another writer committed to the table meanwhile; nothing of this attempt is in it."""


class TableMismatch(SparkRoomError):
    """The target exists and is of another format, schema or topic."""


class SparkUnavailable(SparkRoomError):
    """Spark can not be started; the message says what to install."""
