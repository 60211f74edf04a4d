"""Messages as a pull is answered with them, one behind the other.

    bytes   field
    4       size of all, i32
    4       magic: DAA320A7, or DAA320AB where the topic's length takes 2 bytes
    4       CRC-32 of the body without its highest bit
    4       queue id
    4       flag, which belongs to applications
    8       queue offset
    8       locator (RocketMQ: position in the commit log)
    4       sys flag: 16 and 32 say that the hosts have IPv6 addresses; others are the producer's
    8       born, ms
    4|16+4  born host: address and port
    8       stored, ms
    4|16+4  store host
    4       how often it was consumed before
    8       offset of the half message of a transaction
    4 + n   body
    1|2+n   topic
    2 + n   properties

Source: RocketMQ `MessageDecoder.decode`, `MessageExtEncoder`, `MessageVersion`. Clients before 5.0
read the first magic only, so the second one is written for topics above 127 bytes alone.
"""

from ipaddress import ip_address
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from zlib import crc32

from penstock.base.ports import Buffer
from penstock.remoting.errors import MalformedBody
from penstock.remoting.wire.properties import PROPERTIES_BYTES_MAX

MAGIC: Final = 0xDAA320A7
LONG_TOPIC_MAGIC: Final = 0xDAA320AB
BORN_HOST_V6: Final = 16
STORE_HOST_V6: Final = 32
_TOPIC_BYTES_MAX: Final = 127
_CRC_MASK: Final = 0x7FFFFFFF
_V4_BYTES: Final = 4
_V6_BYTES: Final = 16

_HEAD = Struct(">IIIiiqqiq")
_BEFORE_BODY = Struct(">iqI")
_INT16, _INT32, _INT64 = Struct(">H"), Struct(">I"), Struct(">q")


class Host(NamedTuple):
    """An address of 4 or 16 bytes, and a port."""

    address: bytes
    port: int


NO_HOST: Final = Host(bytes(_V4_BYTES), 0)


class Message(NamedTuple):
    """A message with its place; offsets and locators as in `ids.py`."""

    topic: str
    queue_id: int
    queue_offset: int
    body: Buffer
    properties: str = ""
    locator: int = 0
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: Host = NO_HOST
    store_ms: int = 0
    store_host: Host = NO_HOST
    reconsume_times: int = 0
    half_offset: int = 0


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message whose properties and topic fit."""
    topic, properties = message.topic.encode(), message.properties.encode()
    assert len(properties) <= PROPERTIES_BYTES_MAX, len(properties)
    is_long = len(topic) > _TOPIC_BYTES_MAX
    born, stored = message.born_host, message.store_host
    rest = (
        _INT32.pack(born.port),
        _INT64.pack(message.store_ms),
        stored.address,
        _INT32.pack(stored.port),
        _BEFORE_BODY.pack(message.reconsume_times, message.half_offset, len(message.body)),
        message.body,
        _INT16.pack(len(topic)) if is_long else bytes((len(topic),)),
        topic,
        _INT16.pack(len(properties)),
        properties,
    )
    size = _HEAD.size + len(born.address) + sum(map(len, rest))
    head = _HEAD.pack(
        size,
        LONG_TOPIC_MAGIC if is_long else MAGIC,
        crc32(message.body) & _CRC_MASK,
        message.queue_id,
        message.flag,
        message.queue_offset,
        message.locator,
        _sys_flag(message),
        message.born_ms,
    )
    return b"".join((head, born.address, *rest))


def decode_messages(data: memoryview) -> list[Message]:
    """Return messages that lie one behind the other, bodies copied. Raises MalformedBody."""
    found = []
    at = 0
    while at < len(data):
        try:
            (size,) = _INT32.unpack_from(data, at)
            if not _HEAD.size <= size <= len(data) - at:
                raise MalformedBody(f"a message of {size} bytes in {len(data) - at}")
            found.append(_decode(data[at : at + size]))
        except (StructError, UnicodeError) as error:
            raise MalformedBody("a message that is cut off, or is no text") from error
        at += size
    return found


def _decode(data: memoryview) -> Message:
    """Decode a message that is all of `data`. Raises MalformedBody, struct.error, UnicodeError."""
    _, magic, crc, queue_id, flag, offset, locator, sys_flag, born_ms = _HEAD.unpack_from(data)
    if magic not in {MAGIC, LONG_TOPIC_MAGIC}:
        raise MalformedBody(f"a message of magic {magic:08x}")
    born_host, at = _host(data, _HEAD.size, is_v6=bool(sys_flag & BORN_HOST_V6))
    (store_ms,) = _INT64.unpack_from(data, at)
    store_host, at = _host(data, at + _INT64.size, is_v6=bool(sys_flag & STORE_HOST_V6))
    times, half_offset, body_bytes = _BEFORE_BODY.unpack_from(data, at)
    body, at = _part(data, at + _BEFORE_BODY.size, body_bytes)
    if crc32(body) & _CRC_MASK != crc:
        raise MalformedBody("a message whose body has another CRC")
    if magic == LONG_TOPIC_MAGIC:
        (topic_bytes,) = _INT16.unpack_from(data, at)
        at += _INT16.size
    else:
        topic_bytes = bytes(data[at : at + 1])[0] if at < len(data) else 0
        at += 1
    topic, at = _part(data, at, topic_bytes)
    (properties_bytes,) = _INT16.unpack_from(data, at)
    properties, at = _part(data, at + _INT16.size, properties_bytes)
    if at != len(data):
        raise MalformedBody(f"{len(data) - at} bytes follow a message")
    return Message(
        topic=topic.decode(),
        queue_id=queue_id,
        queue_offset=offset,
        body=body,
        properties=properties.decode(),
        locator=locator,
        flag=flag,
        sys_flag=sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6),
        born_ms=born_ms,
        born_host=born_host,
        store_ms=store_ms,
        store_host=store_host,
        reconsume_times=times,
        half_offset=half_offset,
    )


def _sys_flag(message: Message) -> int:
    born = BORN_HOST_V6 if len(message.born_host.address) == _V6_BYTES else 0
    stored = STORE_HOST_V6 if len(message.store_host.address) == _V6_BYTES else 0
    return message.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) | born | stored


def _host(data: memoryview, at: int, *, is_v6: bool) -> tuple[Host, int]:
    address, at = _part(data, at, _V6_BYTES if is_v6 else _V4_BYTES)
    (port,) = _INT32.unpack_from(data, at)
    return Host(address, port), at + _INT32.size


def _part(data: memoryview, at: int, size: int) -> tuple[bytes, int]:
    if size > len(data) - at:
        raise MalformedBody(f"a part of {size} bytes in {len(data) - at}")
    return bytes(data[at : at + size]), at + size


def packed_host(address: str, port: int) -> Host:
    """Return an address that is written in numbers; NO_HOST for a name."""
    try:
        return Host(ip_address(address).packed, port)
    except ValueError:
        return NO_HOST
