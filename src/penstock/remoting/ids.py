"""Message ids and locators: names of a message that clients keep and send back.

    locator     1 bit: of the group's retry topic; partition of its topic, 22 bits; offset, 40 bits:
                in place of a position in the commit log, since it stays right on every member and
                in every store. Of a message that comes again, clients tell the first topic's name:
                the bit says that it is to be looked for elsewhere
    offset id   store host and locator, in hex: what SEND_MESSAGE answers
    derived id  CRC-32 of the topic id, partition, offset, as 32 hex digits: for a record whose
                producer gave it none, the same whenever it is read

Source: RocketMQ `MessageDecoder.createMessageId`, `UtilAll.bytes2string` (capital digits).
Departure: the locator. RocketMQ's position belongs to one broker's files.
"""

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError
from typing import Final, NamedTuple
from zlib import crc32

from penstock.remoting.errors import MalformedBody
from penstock.remoting.wire.message import Host

_PARTITION_BITS: Final = 22
_OFFSET_BITS: Final = 40
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_PARTITION_MASK: Final = (1 << _PARTITION_BITS) - 1
_RETRY_BIT: Final = 1 << (_PARTITION_BITS + _OFFSET_BITS)
NOT_ADDRESSABLE: Final = (1 << 63) - 1
"""The locator of a place whose numbers do not fit; nothing can be looked up by it."""

_DERIVED = Struct(">IIQ")
_PORT_AND_LOCATOR, _PORT = Struct(">IQ"), Struct(">I")


class Located(NamedTuple):
    """What a locator says. The offset is that of the record."""

    partition: int
    offset: int
    is_retry: bool = False
    """Whether it is in the retry topic of the group that asks."""


class Derived(NamedTuple):
    """What a derived id says; whether the topic is the right one is to be checked."""

    topic_crc: int
    partition: int
    offset: int


def locator_of(partition: int, offset: int, *, is_retry: bool = False) -> int:
    """Return the locator of a place."""
    if partition >> _PARTITION_BITS or offset >> _OFFSET_BITS:
        return NOT_ADDRESSABLE
    return (_RETRY_BIT if is_retry else 0) | partition << _OFFSET_BITS | offset


def located(locator: int) -> Located | None:
    """Return the place of a locator; None if it is none."""
    if not 0 <= locator < NOT_ADDRESSABLE:
        return None
    partition = locator >> _OFFSET_BITS & _PARTITION_MASK
    return Located(partition, locator & _OFFSET_MASK, bool(locator & _RETRY_BIT))


def offset_id(host: Host, locator: int) -> str:
    """Return the id under which a broker knows a message."""
    return (host.address + _PORT_AND_LOCATOR.pack(host.port, locator)).hex().upper()


def offset_ids(host: Host, locators: Iterable[int]) -> str:
    """Return the ids of several messages, between commas; a batch may have thousands."""
    begin = (host.address + _PORT.pack(host.port)).hex().upper()
    return ",".join([f"{begin}{one:016X}" for one in locators])


def read_offset_id(text: str) -> tuple[Host, int]:
    """Return store host and locator of an offset id. Raises MalformedBody."""
    try:
        raw = bytes.fromhex(text)
        port, locator = _PORT_AND_LOCATOR.unpack_from(raw, len(raw) - _PORT_AND_LOCATOR.size)
    except (ValueError, StructError) as error:
        raise MalformedBody("an offset id that is none") from error
    return Host(raw[: -_PORT_AND_LOCATOR.size], port), locator


def topic_crc(topic_id: bytes) -> int:
    """Return what a derived id has of its topic."""
    return crc32(topic_id)


def derived_id(topic_id: bytes, partition: int, offset: int) -> str:
    """Return the id of a record without one."""
    return _DERIVED.pack(topic_crc(topic_id), partition, offset).hex().upper()


def read_derived_id(text: str) -> Derived | None:
    """Return what a derived id says; None if the text is none."""
    try:
        return Derived(*_DERIVED.unpack(bytes.fromhex(text)))
    except (ValueError, StructError):
        return None
