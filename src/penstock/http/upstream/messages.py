"""Messages between JSON and the remoting protocol.

    value, value_base64   body
    key                   message group, which is the record's key
    id                    UNIQ_KEY; made here if the client gives none
    tag, keys             TAGS; KEYS, with blanks between
    headers               user properties
    delay_level           DELAY

Source: docs/formats/rocketmq-mapping.md; RocketMQ `MessageConst`.
"""

import base64
import binascii
import secrets
from typing import Any, Final, NamedTuple

from penstock.http.bodies import NewMessage
from penstock.http.problems import Problem, bad_request
from penstock.remoting.system_names import (
    GROUP,
    HEADER_OF,
    KAFKA_NULL,
    KEPT,
    KEYS,
    NOT_KEPT,
    PREFIX,
    TAGS,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
)
from penstock.remoting.wire.message import Message
from penstock.remoting.wire.properties import (
    PROPERTIES_BYTES_MAX,
    can_be_told,
    read_properties,
    write_properties,
)

_DELAY: Final = "DELAY"
_SYSTEM: Final = KEPT | NOT_KEPT | HEADER_OF.keys() | {GROUP}


class Outgoing(NamedTuple):
    """A message as it is sent."""

    id: str
    body: bytes
    properties: str
    key: str | None
    is_delayed: bool

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch."""
        return len(self.body) + len(self.properties) + 100


def outgoing(new: NewMessage, place: int) -> Outgoing:
    """Return a message to be sent, the one at this place of its request. Raises Problem."""
    body = _body(new, place)
    own_id = new.id or secrets.token_hex(16)
    own = {UNIQ_KEY: own_id}
    if new.key is not None:
        own[GROUP] = new.key
    if new.tag is not None:
        own[TAGS] = new.tag
    if new.keys:
        own[KEYS] = " ".join(new.keys)
    if new.delay_level:
        own[_DELAY] = str(new.delay_level)
    for name in new.headers:
        if name in _SYSTEM or name.startswith((PREFIX, TRANSIENT_PREFIX)):
            do = "give it another name"
            raise _refused(place, f"header {name[:100]!r} belongs to the server", do)
    pairs = {**own, **new.headers}
    for name, value in pairs.items():
        if not (can_be_told(name) and can_be_told(value)):
            do = "leave out what is empty, and the characters U+0001 and U+0002"
            raise _refused(place, f"{name[:100]!r} can not be stored", do)
    text = write_properties(pairs)
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        do = "put it into the value"
        raise _refused(place, f"its headers have more than {PROPERTIES_BYTES_MAX} bytes", do)
    return Outgoing(own_id, body, text, new.key, new.delay_level > 0)


def _body(new: NewMessage, place: int) -> bytes:
    if (new.value is None) == (new.value_base64 is None):
        raise _refused(place, "it has no value, or two", "give value or value_base64")
    if new.value is not None:
        body = new.value.encode()
    else:
        assert new.value_base64 is not None, "one of both is there"
        try:
            body = base64.b64decode(new.value_base64, validate=True)
        except (binascii.Error, ValueError):
            raise _refused(place, "value_base64 is no base64", "encode it again") from None
    if not body:
        raise _refused(place, "its value is empty", "send something")
    return body


def _refused(place: int, what: str, do: str) -> Problem:
    return bad_request("bad-message", f"message {place}: {what}", do)


def shown(message: Message, broker: str, receipt: str) -> dict[str, Any]:
    """Return a message that was handed out, as clients get it."""
    properties = read_properties(message.properties)
    document: dict[str, Any] = {
        "receipt": receipt,
        "id": properties.get(UNIQ_KEY, ""),
        "topic": message.topic,
        "queue": f"{broker}/{message.queue_id}",
        "offset": message.queue_offset,
        "attempt": message.reconsume_times + 1,
        "time_ms": message.born_ms,
    }
    for field, name in (("key", GROUP), ("tag", TAGS)):
        if name in properties:
            document[field] = properties[name]
    if KEYS in properties:
        document["keys"] = properties[KEYS].split()
    body = bytes(message.body)
    if KAFKA_NULL in properties:
        document["value"] = None
    else:
        try:
            document["value"] = body.decode()
        except UnicodeDecodeError:
            document["value_base64"] = base64.b64encode(body).decode()
    headers = {name: value for name, value in properties.items() if name not in _SYSTEM}
    document["headers"] = headers
    return document
