"""Delay levels, and how a record says where it is to go and when.

    level   1   2    3    4   5 … 14        15   16   17  18
    delay   1s  5s  10s  30s  1min … 10min  20m  30m  1h  2h

A record that waits has one header more, the last one: due ms, topic id in hex, partition. Without
it, the record is what its partition gets.

A time that is no level's is waited for in several of them, one after another: the longest that
ends before it, or one that ends less than a second after it. 45 s are 30, 10 and 5 s. Such a record
has a header before the last one: the time until which it waits, in ms. It is never early, and a
second late at most.

A record's time is the one that retention goes by. So what is delivered has the time of its
delivery, and the header `rmq.born` keeps the time before: else a message of an hour would be gone
from a topic that keeps ten minutes, before anybody has seen it.

Source: RocketMQ `MessageStoreConfig.messageDelayLevel`, `ScheduleMessageService`. Departure: where
a message is to go is not in its properties, and its levels can not be changed: the order of what
waits in a level goes by them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.controller.commands.topic_names import DELAY_TOPICS
from penstock.record.build import Header, Record
from penstock.record.read import DecodedRecord
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.system_names import BORN_HEADER, DELAYED_HEADER, UNTIL_HEADER

_SECONDS: Final = (1, 5, 10, 30, *range(60, 660, 60), 1_200, 1_800, 3_600, 7_200)
DELAYS_MS: Final = tuple(seconds * 1_000 for seconds in _SECONDS)
"""By level, less one."""
LEVEL_MAX: Final = len(DELAYS_MS)
assert len(DELAY_TOPICS) == LEVEL_MAX

DELAY: Final = "DELAY"
_DIGITS_MAX: Final = 10
_PARTS: Final = 3
_TOLD_BYTES_MAX: Final = 128
"""More than `held` ever says; what is longer is not remembered."""
LATE_MS: Final = 1_000
"""How late a message may be that waits for a time of its own: no level is shorter."""
assert DELAYS_MS[0] <= LATE_MS


class Destination(NamedTuple):
    """Where a record is to go, and when."""

    due_ms: int
    """When its level is over."""
    topic_id: bytes
    partition: int
    until_ms: int = 0
    """When it is to be delivered, where that is later; 0: when its level is over."""

    def at(self, due_ms: int) -> Destination:
        """Return it with the end of another level."""
        return Destination(due_ms, self.topic_id, self.partition, self.until_ms)


def level_before(left_ms: int) -> int:
    """Return the level in which a message waits that is due in so many ms, above 0."""
    assert left_ms > 0, left_ms
    longer = bisect_left(DELAYS_MS, left_ms)
    is_near = longer < LEVEL_MAX and DELAYS_MS[longer] - left_ms <= LATE_MS
    return longer + 1 if is_near else longer


def level_of(properties: Mapping[str, str]) -> int:
    """Return the delay level that a message asks for; 0: none. Raises IllegalMessage.

    What is above the highest level means that one, as with RocketMQ.
    """
    text = properties.get(DELAY, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
        raise IllegalMessage(f"a delay level that is no number from 0 to {LEVEL_MAX}")
    return min(int(text), LEVEL_MAX)


def with_headers(record: Record | DecodedRecord, headers: tuple[Header, ...]) -> Record:
    """Return a record with other headers; `_replace` takes ten times as long."""
    return Record(record.key, record.value, headers, record.timestamp_ms)


def held(record: Record, destination: Destination) -> Record:
    """Return a record as it waits."""
    headers = [one for one in record.headers if one[0] != UNTIL_HEADER]
    return with_headers(record, (*headers, *_headers_of(destination)))


@lru_cache(maxsize=1_024)
def _headers_of(destination: Destination) -> tuple[Header, ...]:
    """Return what a record says that waits; messages that come together say the same."""
    text = f"{destination.due_ms} {destination.topic_id.hex()} {destination.partition}"
    told = (DELAYED_HEADER, text.encode())
    if not destination.until_ms:
        return (told,)
    return (UNTIL_HEADER, b"%d" % destination.until_ms), told


def released(record: Record | DecodedRecord) -> tuple[Destination, Record] | None:
    """Return where a record that waits is to go, and what it is there; None if it says nothing."""
    headers = record.headers
    name, value = headers[-1] if headers else ("", None)
    if name != DELAYED_HEADER or value is None:
        return None
    name, until = headers[-2] if len(headers) > 1 else ("", None)
    has_until = name == UNTIL_HEADER and until is not None
    until = until if has_until else None
    is_short = len(value) + len(until or b"") <= _TOLD_BYTES_MAX
    try:
        destination = (_destination if is_short else _destination_anew)(value, until)
    except ValueError:
        return None
    if destination is None:
        return None
    return destination, with_headers(record, headers[: -2 if has_until else -1])


def _destination_anew(told: bytes, until: bytes | None) -> Destination | None:
    """Return what headers tell; None or a ValueError where they tell nothing."""
    parts = told.split(b" ")
    if len(parts) != _PARTS:
        return None
    topic_id = bytes.fromhex(parts[1].decode())
    return Destination(int(parts[0]), topic_id, int(parts[2]), 0 if until is None else int(until))


_destination = lru_cache(maxsize=1_024)(_destination_anew)
"""Of headers that were read before: messages that wait together say the same."""


def stamped(record: Record, now_ms: int) -> Record:
    """Return a record with another time, which keeps the one that it was born at."""
    headers = record.headers
    if BORN_HEADER not in [name for name, _ in headers]:
        headers = (*headers, (BORN_HEADER, b"%d" % record.timestamp_ms))
    return Record(record.key, record.value, headers, now_ms)
