"""The answer for a batch that is refused.

Source: KIP-467 (records that are at fault).
"""

from collections.abc import Sequence

from penstock.base.errors import PlatformError
from penstock.broker.broker import Broker
from penstock.kafka.produce.pending import TOPIC_ID_VERSION
from penstock.kafka.produce.refused_batches import Refusal
from penstock.kafka.request import Reply
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.produce import PartitionAnswer, PartitionData
from penstock.record.errors import InvalidRecord, InvalidTimestamp


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
    return PartitionAnswer(
        part.topic,
        part.partition,
        code,
        error_message=text or None,
        record_errors=_record_errors(error, text),
    )


def _record_errors(error: PlatformError | None, text: str) -> Sequence[tuple[int, str | None]]:
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
