"""Recall handles: what a sender is told of a message that waits for a time of its own.

    base64url( "v1" topic set "delivery time in ms" "message id", with blanks between them )

RocketMQ's clients read them, to know which broker to ask: in its place is the replica set, whose
master decides. A message whose topic or id has a blank has no handle, and can not be recalled.

Source: RocketMQ 5.3.3 `RecallMessageHandle`.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

from penstock.base.ids import ReplicaSetId
from penstock.remoting.queues import broker_name, set_of
from penstock.remoting.recall.errors import BadHandle

_VERSION: Final = "v1"
_PARTS: Final = 5
_CHARS_MAX: Final = 2_048
"""Of a topic of 249 characters and an id of 255, each up to four bytes, and the rest."""
_DIGITS_MAX: Final = 18


class Handle(NamedTuple):
    """What a handle says."""

    topic: str
    """As its sender names it."""
    set_id: ReplicaSetId
    until_ms: int
    message_id: str


def handle_text(handle: Handle) -> str:
    """Return the handle of a message; empty if it can have none."""
    if not handle.message_id or " " in handle.topic + handle.message_id:
        return ""
    parts = _VERSION, handle.topic, broker_name(handle.set_id), str(handle.until_ms)
    text = urlsafe_b64encode(" ".join((*parts, handle.message_id)).encode()).decode()
    return text if len(text) <= _CHARS_MAX else ""


def read_handle(text: str) -> Handle:
    """Return what a handle says. Raises BadHandle."""
    if not 0 < len(text) <= _CHARS_MAX:
        raise BadHandle
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        parts = urlsafe_b64decode(padded).decode().split(" ")
    except (ValueError, Base64Error) as error:
        raise BadHandle from error
    if len(parts) != _PARTS or parts[0] != _VERSION or not parts[4]:
        raise BadHandle
    _, topic, broker, until, message_id = parts
    set_id = set_of(broker)
    is_time = until.isascii() and until.isdecimal() and len(until) <= _DIGITS_MAX
    if set_id is None or not is_time:
        raise BadHandle
    return Handle(topic, set_id, int(until), message_id)
