"""Messages between peers as the bytes of one frame: plain dataclasses in, plain dataclasses out.

    type u8 | version u8 | MessagePack map of the fields, by name

A table gives each class its number, once and for ever; `version` is that of the whole table and
grows when a message changes its meaning. A field that one side lacks takes its default, one that it
does not know is passed over, so that a field may be added without a new version. Types of fields
are checked on reading, values are not: that is the business of whoever knows what they mean.

Source: our own; MessagePack as msgspec reads and writes it.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from penstock.base.ports import Buffer
from penstock.net.peer import PeerLinkError

M = TypeVar("M")

_HEAD_BYTES = 2


class PeerMessageError(PeerLinkError):
    """A frame of an authenticated peer that is no message; the link must be closed."""


class UnknownPeerMessage(PeerMessageError):
    """A newer release wrote it."""

    def __init__(self, number: int, version: int) -> None:
        super().__init__(
            f"message type {number} version {version} is not known here: upgrade this process"
        )
        self.number = number
        self.version = version


class MalformedPeerMessage(PeerMessageError):
    """Its fields are not those of its type."""


class MessageCodec(Generic[M]):
    """One purpose's messages, e.g. `MessageCodec[Message]({1: VoteRequest, ...}, version=1)`."""

    __slots__ = ("_decoders", "_encode", "_heads", "_version")

    def __init__(self, types: Mapping[int, type[Any]], *, version: int) -> None:
        """`types`: number (1 to 255) -> dataclass."""
        assert all(1 <= number <= 255 for number in types)
        assert len(set(types.values())) == len(types), "a class has one number"
        self._version = version
        self._heads = {cls: bytes((number, version)) for number, cls in types.items()}
        self._decoders = {
            number: msgspec.msgpack.Decoder(cls).decode for number, cls in types.items()
        }
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, message: M) -> tuple[bytes, bytes]:
        """Return a message of the table as buffers: `link.send(*codec.encode(message))`."""
        return self._heads[type(message)], self._encode(message)

    def decode(self, frame: Buffer) -> M:
        """Return the message that a frame's body is; it shares no memory with the frame.

        Raises:
            UnknownPeerMessage, MalformedPeerMessage: see there.
        """
        if len(frame) < _HEAD_BYTES:
            raise MalformedPeerMessage(f"a message of {len(frame)} bytes")
        number, version = frame[0], frame[1]
        decode = self._decoders.get(number)
        if decode is None or version != self._version:
            raise UnknownPeerMessage(number, version)
        try:
            return cast("M", decode(memoryview(frame)[_HEAD_BYTES:]))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise MalformedPeerMessage(f"message type {number}: {error}") from error
