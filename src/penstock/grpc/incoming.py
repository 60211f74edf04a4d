"""A message of a gRPC client, checked, as the record that a remoting client's would be.

    body                             value; gzip is undone
    tag, keys, message_id            TAGS, KEYS (joined by blanks), UNIQ_KEY
    message_group, trace_context     __SHARDINGKEY, TRACE_CONTEXT
    born_timestamp                   timestamp
    user_properties                  headers of the same name

So both kinds of clients and Kafka's read the same (docs/formats/rocketmq-mapping.md). The host is
that of the connection; what a client tells of its own is a name.

Source: RocketMQ's proxy `GrpcValidator` and `SendMessageActivity`, with their bounds: 128
properties of 16 KiB together, message groups of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from penstock.grpc.errors import Refused
from penstock.grpc.inflating import NotGzip, TooLarge, inflate
from penstock.grpc.proto.messages import Message, SystemProperties
from penstock.grpc.statuses import Code, Encoding
from penstock.record.build import Record
from penstock.remoting.mapping import Mapped, to_record
from penstock.remoting.system_names import (
    GROUP,
    HEADER_OF,
    KEPT,
    KEYS,
    NOT_KEPT,
    PREFIX,
    TAGS,
    TRANSIENT_PREFIX,
    UNIQ_KEY,
)
from penstock.remoting.wire.message import packed_host

if TYPE_CHECKING:
    from penstock.grpc.client import GrpcClient

BODY_BYTES_MAX: Final = 4 << 20
"""Of a message, as clients are told, and of all of a request together, once they are unpacked. What
a topic takes says its `max.message.bytes`."""
PROPERTIES_MAX: Final = 128
PROPERTIES_BYTES_MAX: Final = 16 << 10
GROUP_BYTES_MAX: Final = 63
ID_BYTES_MAX: Final = 255
NAMES_BYTES_MAX: Final = 8 << 10
"""Of the tag and the keys, which share 32 KiB with the properties once the message is read."""
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_TRACE: Final = "TRACE_CONTEXT"
_RESERVED: Final = KEPT | NOT_KEPT | HEADER_OF.keys() | {GROUP}
_SECONDS_MAX: Final = 1 << 40
_CONTROL: Final = frozenset(map(chr, [*range(32), 127]))


def checked_records(
    client: GrpcClient,
    messages: Iterable[Message],
    batch_bytes_max: int,
    added: Mapping[str, str] = NOTHING,
) -> list[Record]:
    """Return the records of the messages of a request, with `added` properties. Raises Refused.

    They are one batch, so nothing is unpacked beyond what their topic permits of that.
    """
    records: list[Record] = []
    left = min(BODY_BYTES_MAX, batch_bytes_max)
    for message in messages:
        record = _checked_record(client, message, left, added)
        left -= len(record.value or b"")
        records.append(record)
    return records


def _checked_record(
    client: GrpcClient, message: Message, bytes_max: int, added: Mapping[str, str]
) -> Record:
    system = message.system_properties or SystemProperties()
    if not 0 < len(system.message_id.encode()) <= ID_BYTES_MAX:
        raise Refused(Code.ILLEGAL_MESSAGE_ID, f"a message has an id of 1 to {ID_BYTES_MAX} bytes")
    properties = {UNIQ_KEY: system.message_id} | _named(system) | _users(message)
    return to_record(
        Mapped(
            body=_body(message, system, bytes_max),
            properties={**properties, **added},
            born_ms=_born_ms(client, system),
            born_host=packed_host(client.host, 0),
        )
    )


def _body(message: Message, system: SystemProperties, bytes_max: int) -> bytes:
    body = message.body
    told = f"the bodies of a request have more than {bytes_max} bytes that are left for them"
    if system.body_encoding == Encoding.GZIP:
        try:
            body = inflate(body, bytes_max)
        except TooLarge as error:
            raise Refused(Code.MESSAGE_BODY_TOO_LARGE, told) from error
        except NotGzip as error:
            raise Refused(Code.BAD_REQUEST, "the body is no gzip, as it says it is") from error
    elif system.body_encoding not in {Encoding.UNSPECIFIED, Encoding.IDENTITY}:
        raise Refused(Code.UNSUPPORTED, "bodies are taken as they are, or as gzip")
    if not body:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "the body is empty")
    if len(body) > bytes_max:
        raise Refused(Code.MESSAGE_BODY_TOO_LARGE, told)
    return body


def _named(system: SystemProperties) -> dict[str, str]:
    """Return what is told beside user properties, checked."""
    named: dict[str, str] = {}
    if system.tag is not None:
        if not _is_plain(system.tag) or "|" in system.tag:
            raise Refused(Code.ILLEGAL_MESSAGE_TAG, "a tag is not blank, and has no | in it")
        named[TAGS] = system.tag
    if system.keys:
        if not all(map(_is_plain, system.keys)):
            raise Refused(Code.ILLEGAL_MESSAGE_KEY, "a key is not blank, and can be printed")
        named[KEYS] = " ".join(system.keys)
    if system.message_group is not None:
        group = system.message_group
        if not _is_plain(group) or len(group.encode()) > GROUP_BYTES_MAX:
            told = f"a message group has 1 to {GROUP_BYTES_MAX} bytes that can be printed"
            raise Refused(Code.ILLEGAL_MESSAGE_GROUP, told)
        named[GROUP] = group
    if system.trace_context and _is_plain(system.trace_context):
        named[_TRACE] = system.trace_context
    if sum(len(value.encode()) for value in named.values()) > NAMES_BYTES_MAX:
        told = f"tag, keys and trace context have more than {NAMES_BYTES_MAX} bytes"
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, told)
    return named


def _users(message: Message) -> dict[str, str]:
    users = {one.key: one.value for one in message.user_properties}
    size = sum(len(name.encode()) + len(value.encode()) for name, value in users.items())
    if len(users) > PROPERTIES_MAX or size > PROPERTIES_BYTES_MAX:
        told = (
            f"a message has {PROPERTIES_MAX} properties, of {PROPERTIES_BYTES_MAX} bytes together"
        )
        raise Refused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"at most {told}")
    for name, value in users.items():
        if name in _RESERVED or name.startswith((PREFIX, TRANSIENT_PREFIX)):
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the name {name} is the server's")
        if not _is_plain(name) or _CONTROL.intersection(value):
            told = "names and values of properties can be printed, and names are not blank"
            raise Refused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, told)
    return users


def _is_plain(text: str) -> bool:
    """Whether a text is not blank, and has no control characters."""
    return bool(text.strip()) and not _CONTROL.intersection(text)


def _born_ms(client: GrpcClient, system: SystemProperties) -> int:
    born = system.born_timestamp
    if born is None or not 0 < born.seconds < _SECONDS_MAX:
        return client.broker.clock.wall_ms()
    return born.seconds * 1_000 + min(max(born.nanos, 0) // 1_000_000, 999)
