"""What a task tells the driver: the transaction that it has left open, and what is in it."""

from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c
from pyspark.sql.datasource import WriterCommitMessage

from penstock.client.produce import OpenTransaction
from penstock.spark.errors import SparkRoomError

_DIGEST_MODULUS = 1 << 64


class Witness(NamedTuple):
    """Where a record of the transaction is: there the log tells how the transaction has ended."""

    topic: str
    partition: int
    offset: int


class Written(WriterCommitMessage):
    """The rows of one task.

    `transaction` is None if there were no rows. `digest` is equal for equal rows in any order.
    """

    def __init__(
        self,
        partition: int,
        transaction: OpenTransaction | None,
        *,
        records: int = 0,
        digest: int = 0,
        witness: Witness | None = None,
    ) -> None:
        self.partition, self.transaction = partition, transaction
        self.records, self.digest, self.witness = records, digest, witness

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.partition, self.transaction))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"Written({fields})"

    def has_rows_of(self, other: "Written") -> bool:
        """Whether two tasks have written the same rows."""
        return (self.records, self.digest) == (other.records, other.digest)


class Digest:
    """A sum over rows that does not depend on their order; times of writing are left out."""

    def __init__(self) -> None:
        self.value = 0

    def add(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Add a row. Null and empty differ, and so do key and value."""
        lengths = b"%d %d " % (-1 if key is None else len(key), -1 if value is None else len(value))
        low = crc32c(value or b"", crc32c(key or b"", crc32c(lengths + topic.encode())))
        self.value = (self.value + low) % _DIGEST_MODULUS


def all_written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Return the messages of all tasks, by partition. Raises SparkRoomError for a missing one."""
    written = sorted(some_written(messages), key=lambda one: one.partition)
    if len(written) != len(messages):
        raise SparkRoomError(f"{len(messages) - len(written)} tasks of the batch say nothing")
    return written


def some_written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Return the messages of the tasks that have ended."""
    return [message for message in messages if isinstance(message, Written)]
