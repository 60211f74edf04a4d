"""Errors of the record room: what can be wrong with bytes that should be a record batch.

    RecordError
      CorruptBatch(reason)          wrong lengths, CRC or varints: the bytes are damaged
      UnsupportedMagic(magic)       a format before Kafka 0.11, or a future one
      UnsupportedCodec(codec)       compression bits 5 to 7
      InvalidRecord(reason)         intact bytes that break a rule (counts, sequences, control)
        RecordsWithoutKey(count)    in a batch for a compacted topic
      InvalidTimestamp(reason)      outside of the bounds of the topic
      UnreadableBatch(offsets, why) a stored batch that a reader cannot read to its end
      BatchTooLarge(size, limit)    larger than a limit, as it is or decompressed
        UnpacksTooLarge             a producer's batch that is too large decompressed

Source: Kafka's CorruptRecordException, InvalidRecordException, InvalidTimestampException,
UnsupportedCompressionTypeException, RecordTooLargeException, ..., which clients know by their error
codes. The mapping to codes is in the Kafka front.
"""

from collections.abc import Sequence

from penstock.base.errors import PlatformError


class RecordError(PlatformError):
    """A batch or record that cannot be used as it is."""


class CorruptBatch(RecordError):
    """The bytes are damaged or cut off."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"corrupt record batch: {reason}")
        self.reason = reason


class UnsupportedMagic(RecordError):
    """Only magic 2 (Kafka 0.11 and later) is stored."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"record format magic {magic} is not supported, use magic 2")
        self.magic = magic


class UnsupportedCodec(RecordError):
    """The compression bits name no codec."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"compression codec {codec} is unknown, use 0 to 4")
        self.codec = codec


class InvalidRecord(RecordError):
    """Intact bytes that break a rule of the format."""

    def __init__(self, reason: str, *, record_index: int | None = None) -> None:
        """`record_index` is the index of the invalid record in its batch; None if unknown."""
        super().__init__(f"invalid record batch: {reason}")
        self.reason = reason
        self.record_index = record_index


class RecordsWithoutKey(InvalidRecord):
    """Records without a key in a batch for a compacted topic, which keeps the last of each key."""

    def __init__(self, count: int, places: Sequence[int]) -> None:
        """`places` are the indexes of the first ones in their batch."""
        super().__init__(f"{count} of its records have no key, and the topic is compacted")
        self.count = count
        self.keyless = places


class InvalidTimestamp(RecordError):
    """A timestamp, or its type, that the topic does not allow."""

    def __init__(
        self,
        reason: str,
        *,
        record_errors: Sequence[tuple[int, str]] = (),
        keyless: Sequence[int] = (),
    ) -> None:
        """`record_errors` are (place in the batch, why) of records at fault, where known.

        `keyless` are the places of those that lack the key that the topic needs.
        """
        super().__init__(f"invalid timestamp: {reason}")
        self.reason = reason
        self.record_errors = record_errors
        self.keyless = keyless


class BatchTooLarge(RecordError):
    """More bytes than the limit, as sent or after decompression."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"record batch of {size} bytes or more exceeds the limit of {limit} bytes")
        self.size = size
        self.limit = limit


class UnpacksTooLarge(BatchTooLarge):
    """A producer's batch whose decompressed records exceed the limit."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.args = (f"the records of {size} compressed bytes unpack to more than {limit} bytes",)


class UnreadableBatch(RecordError):
    """A stored batch whose records cannot be read; reading can go on behind `last_offset`."""

    def __init__(self, batch: bytes, offsets: tuple[int, int], reason: str) -> None:
        """`offsets` are those of its first and last record, inclusive; `batch` is as stored."""
        self.batch = batch
        self.first_offset, self.last_offset = offsets
        self.reason = reason
        super().__init__(f"offsets {offsets[0]} to {offsets[1]} can not be read: {reason}")
