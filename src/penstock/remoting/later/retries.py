"""What becomes of a message that its group could not consume.

    consumed before, times       fewer than its group may    %RETRY%group, times + 1, after a delay
    as often as it may, or a level below 0                   %DLQ%group, at once

Delay of the attempt: the level that the client asks for, else 3 and the times before: 10 s first,
then 30 s, a minute, and so on up to two hours.

The record stays as it is, but for headers of the front: so what Kafka's producers have written
comes again byte for byte.

Source: RocketMQ `AbstractSendMessageProcessor.consumerSendMsgBack`, `handleRetryAndDLQ`.
"""

from typing import Final, NamedTuple

from penstock.record.build import Record
from penstock.remoting.later.delayed import LEVEL_MAX
from penstock.remoting.system_names import (
    HEADER_OF,
    PREFIX,
    TIMES_HEADER,
    UNIQ_KEY,
)

TIMES_MAX: Final = 16
"""Attempts after the first one, where the client does not say."""
_FIRST_LEVEL: Final = 3
_RETRY_TOPIC: Final = PREFIX + "RETRY_TOPIC"
_ORIGIN_ID: Final = PREFIX + "ORIGIN_MESSAGE_ID"
_DEAD_TOPIC: Final = PREFIX + "DLQ_ORIGIN_TOPIC"
_DEAD_ID: Final = PREFIX + "DLQ_ORIGIN_MESSAGE_ID"


class Failed(NamedTuple):
    """A message that could not be consumed, and what its client asks for."""

    topic: str
    """As clients name it; of a message that was sent back before, the retry topic's is hidden."""
    message_id: str
    times: int
    """How often it was consumed before."""
    times_max: int
    """Below 0: as RocketMQ has it."""
    level: int
    """0: by the times; below 0: a dead letter."""


def retry_level(failed: Failed) -> int | None:
    """Return the delay level of the next attempt; None: there is none, it is a dead letter."""
    times_max = TIMES_MAX if failed.times_max < 0 else failed.times_max
    if failed.level < 0 or failed.times >= times_max:
        return None
    return min(failed.level or _FIRST_LEVEL + failed.times, LEVEL_MAX)


def again(record: Record, failed: Failed) -> Record:
    """Return the record of the next attempt. Where it came from first is told by the first one."""
    headers = {
        HEADER_OF[UNIQ_KEY]: failed.message_id,
        _RETRY_TOPIC: failed.topic,
        _ORIGIN_ID: failed.message_id,
    }
    times = (TIMES_HEADER, b"%d" % (failed.times + 1))
    kept = [one for one in record.headers if one[0] != TIMES_HEADER]
    return record._replace(headers=(*kept, *_missing(record, headers), times))


def dead_letter(record: Record, failed: Failed) -> Record:
    """Return the record of a dead letter, which tells where it came from first."""
    record = again(record, failed)
    origin = {name: value for name, value in record.headers if name in {_RETRY_TOPIC, _ORIGIN_ID}}
    headers = {_DEAD_TOPIC: origin[_RETRY_TOPIC], _DEAD_ID: origin[_ORIGIN_ID]}
    told = {name: (value or b"").decode(errors="replace") for name, value in headers.items()}
    return record._replace(headers=(*record.headers, *_missing(record, told)))


def _missing(record: Record, headers: dict[str, str]) -> list[tuple[str, bytes | None]]:
    """Return those of the headers that the record does not have."""
    names = {name for name, _ in record.headers}
    return [(name, text.encode()) for name, text in headers.items() if name not in names]
