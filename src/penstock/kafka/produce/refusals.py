"""The answer for a batch that is refused.

Source: KIP-467 (records that are at fault); Kafka `LogValidator.validateKey`,
`processRecordErrors`, whose texts applications search for.
"""

from collections.abc import Sequence

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.kafka.gate import topics_by_key
from penstock.kafka.produce.pending import TOPIC_ID_VERSION
from penstock.kafka.produce.refused_batches import Refusal
from penstock.kafka.request import Reply
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.produce import PartitionAnswer, PartitionData
from penstock.record.errors import InvalidRecord, InvalidTimestamp, RecordsWithoutKey

RecordErrors = Sequence[tuple[int, str | None]]
SHOWN_MAX = 3
"""Of the records at fault, in the text of a batch's error."""


def refused(
    broker: Broker,
    part: PartitionData,
    told: Refusal,
    version: int,
    error: PlatformError | None = None,
) -> PartitionAnswer:
    """Return it, and count it."""
    code, text = told
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version >= TOPIC_ID_VERSION:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    broker.stats.count_refused(code.name)
    record_errors = _record_errors(error, text)
    if isinstance(error, (RecordsWithoutKey, InvalidTimestamp)):
        record_errors = _with_keyless(record_errors, error, _name(broker, part, version))
    if isinstance(error, RecordsWithoutKey):
        text = _text(error.count, record_errors)
    return PartitionAnswer(
        part.topic,
        part.partition,
        code,
        error_message=text or None,
        record_errors=record_errors,
    )


def _with_keyless(
    record_errors: RecordErrors, error: RecordsWithoutKey | InvalidTimestamp, name: str
) -> RecordErrors:
    """Add the records that lack a key, in the order of the batch."""
    why = f"Compacted topic cannot accept message without key in topic partition {name}"
    return sorted([*record_errors, *((place, why) for place in error.keyless)])


def _name(broker: Broker, part: PartitionData, version: int) -> str:
    """Return topic and partition as Kafka writes them."""
    topic = topics_by_key(broker, version >= TOPIC_ID_VERSION).get(part.topic)
    return f"{'' if topic is None else topic.name}-{part.partition}"


def _text(count: int, record_errors: RecordErrors) -> str:
    """Return the text of a batch's error."""
    shown = ", ".join(
        f"RecordError(batchIndex={place}, message='{why}')"
        for place, why in record_errors[:SHOWN_MAX]
    )
    return (
        f"One or more records have been rejected due to {count} record errors in total, and only"
        f" showing the first three errors at most: [{shown}]"
    )


def _record_errors(error: PlatformError | None, text: str) -> RecordErrors:
    """Return the records of the batch that are at fault, if known (KIP-467)."""
    if isinstance(error, InvalidTimestamp):
        return error.record_errors
    if isinstance(error, InvalidRecord) and error.record_index is not None:
        return ((error.record_index, text),)
    return ()


def finish_without_answer(answers: list[PartitionAnswer], reply: Reply) -> None:
    """End a request with acks=0: an error closes the connection."""
    if any(answer.error_code for answer in answers):
        reply.close("a batch sent with acks=0 was refused")
    else:
        reply.skip()
