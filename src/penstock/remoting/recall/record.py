"""The internal topic of recalls: what is taken back, and up to which time it is decided.

    recalled   no value, header `rmq.recalled`: delivery time in ms, topic id in hex, message id
    through    no value, header `rmq.through`: a time in ms. Whatever is due until then is
               delivered, or is recalled by a record before this one

A message is named by what its sender is told: two that have the same topic, id and time are
recalled together, as with RocketMQ.

Source: ours, docs/adr/0165; RocketMQ's TIMER_DEL_UNIQKEY.
"""

from typing import Final, NamedTuple

from penstock.record.build import Record
from penstock.remoting.system_names import HEADER_OF, PREFIX, UNIQ_KEY

RECALLED_HEADER: Final = PREFIX + "recalled"
THROUGH_HEADER: Final = PREFIX + "through"
_ID_HEADER: Final = HEADER_OF[UNIQ_KEY]
_PARTS: Final = 3
_TOPIC_ID_BYTES: Final = 16


class Recalled(NamedTuple):
    """A message that waits for a time of its own, as a recall names it."""

    until_ms: int
    topic_id: bytes
    message_id: str


class Through(NamedTuple):
    """That deliveries are decided up to a time."""

    through_ms: int


Event = Recalled | Through


def record_of(event: Event, now_ms: int) -> Record:
    """Return the record of an event."""
    if isinstance(event, Through):
        header = THROUGH_HEADER, b"%d" % event.through_ms
    else:
        told = f"{event.until_ms} {event.topic_id.hex()} {event.message_id}"
        header = RECALLED_HEADER, told.encode()
    return Record(None, None, (header,), now_ms)


def event_of(record: Record) -> Event | None:
    """Return what a record says; None if nothing of the front's has written it."""
    name, value = record.headers[-1] if record.headers else ("", None)
    try:
        text = (value or b"").decode()
        if name == THROUGH_HEADER:
            return Through(int(text))
        if name != RECALLED_HEADER:
            return None
        until, topic, message_id = text.split(" ", _PARTS - 1)
        topic_id = bytes.fromhex(topic)
        return Recalled(int(until), topic_id, message_id) if _is_id(topic_id) else None
    except ValueError:
        return None


def _is_id(topic_id: bytes) -> bool:
    return len(topic_id) == _TOPIC_ID_BYTES


def id_of(record: Record) -> str | None:
    """Return the id that the sender of a message has given it; None: it has none."""
    value = next((value for name, value in record.headers if name == _ID_HEADER), None)
    return None if value is None else value.decode(errors="replace")
