"""The body of SEND_BATCH_MESSAGE: several messages for one queue.

    bytes  field
    4      size of all, i32
    4      magic, 0
    4      CRC, 0
    4      flag
    4 + n  body
    2 + n  properties

Source: RocketMQ `MessageDecoder.encodeMessage`, `decodeMessage`: magic and CRC are read by nobody.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody

MESSAGES_MAX: Final = 10_000
"""Messages of one batch; at 20 bytes each the largest frame would have 50,000 and more."""

_HEAD = Struct(">IIIiI")
_INT16 = Struct(">H")
SIZE_MIN: Final = _HEAD.size + _INT16.size


class BatchedMessage(NamedTuple):
    """A message of a batch; topic, queue and times are those of the request."""

    flag: int
    body: Buffer
    properties: str


def iter_batch(data: memoryview) -> Iterator[BatchedMessage]:
    """Yield the messages of a batch, bodies copied. Raises MalformedBody."""
    at = count = 0
    while at < len(data):
        count += 1
        if count > MESSAGES_MAX:
            raise MalformedBody(f"more than {MESSAGES_MAX} messages in a batch")
        try:
            one, at = _decode(data, at)
        except (StructError, UnicodeError) as error:
            raise MalformedBody("a batch that is cut off, or is no text") from error
        yield one


def decode_batch(data: memoryview) -> list[BatchedMessage]:
    """Return the messages of a batch. Raises MalformedBody."""
    return list(iter_batch(data))


def encode_batch(messages: Iterable[BatchedMessage]) -> bytes:
    """Return the body for these messages."""
    parts: list[Buffer] = []
    for flag, body, text in messages:
        properties = text.encode()
        size = SIZE_MIN + len(body) + len(properties)
        head = _HEAD.pack(size, 0, 0, flag, len(body))
        parts += (head, body, _INT16.pack(len(properties)), properties)
    return b"".join(parts)


def _decode(data: memoryview, at: int) -> tuple[BatchedMessage, int]:
    """Return the message at byte `at`, and its end. Raises MalformedBody, struct.error."""
    size, _, _, flag, body_bytes = _HEAD.unpack_from(data, at)
    end = at + size
    properties_at = at + _HEAD.size + body_bytes
    if end > len(data) or properties_at + _INT16.size > end:
        raise MalformedBody(f"a message of {size} bytes in {len(data) - at}")
    (properties_bytes,) = _INT16.unpack_from(data, properties_at)
    if properties_at + _INT16.size + properties_bytes != end:
        raise MalformedBody(f"properties of {properties_bytes} bytes do not end their message")
    properties = str(data[properties_at + _INT16.size : end], "utf-8")
    body = bytes(data[at + _HEAD.size : properties_at])
    return BatchedMessage(flag, body, properties), end
