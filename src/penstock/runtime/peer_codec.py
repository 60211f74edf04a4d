"""Encodes messages between peers, which are dataclasses, as one frame each.

    type u8 | version u8 | MessagePack map of the fields, by name

A table assigns each class its number permanently; `version` is that of the whole table and grows
when a message changes its meaning. A field that one side lacks takes its default, and an unknown
one is skipped, so that a field can be added without a new version. Types of fields are checked when
decoding; values are checked by the receiver of the message.

Decoding costs time in proportion to the frame, so each kind of message has limits: its bytes, which
are checked first, and the elements of its lists, which are counted before any is decoded. A long
frame is decoded in slices (long_message.py).

Source: our own; MessagePack as msgspec reads and writes it.
"""

from collections.abc import Generator, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from penstock.base.ports import Buffer
from penstock.net.peer import PeerLinkError
from penstock.runtime.long_message import Bounds, LongMessage

M = TypeVar("M")

LONG_BYTES = 64 << 10
"""Larger frames are decoded in slices, after their lists were counted."""

_HEAD_BYTES = 2
_NO_BOUNDS = Bounds()


class PeerMessageError(PeerLinkError):
    """A frame of an authenticated peer is not a valid message; the link must be closed."""


class UnknownPeerMessage(PeerMessageError):
    """A newer release sent it."""

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

    __slots__ = ("_bytes_max", "_decoders", "_encode", "_heads", "_long", "_names", "_version")

    def __init__(
        self,
        types: Mapping[int, type[Any]],
        *,
        version: int,
        bounds: Mapping[type[Any], Bounds] | None = None,
    ) -> None:
        """`types`: number (1 to 255) -> dataclass; without `bounds` only the link's limit holds."""
        assert all(1 <= number <= 255 for number in types)
        assert len(set(types.values())) == len(types), "a class has one number"
        bounds = bounds or {}
        self._version = version
        self._names = {number: cls.__name__ for number, cls in types.items()}
        self._heads = {cls: bytes((number, version)) for number, cls in types.items()}
        self._bytes_max = {
            number: bounds.get(cls, _NO_BOUNDS).bytes_max for number, cls in types.items()
        }
        self._decoders = {
            number: msgspec.msgpack.Decoder(cls).decode for number, cls in types.items()
        }
        self._long = {
            number: LongMessage(cls, bounds[cls].counts)
            for number, cls in types.items()
            if cls in bounds and bounds[cls].counts
        }
        self._encode = msgspec.msgpack.Encoder().encode

    def encode(self, message: M) -> tuple[bytes, bytes]:
        """Return a message of the table as buffers: `link.send(*codec.encode(message))`."""
        return self._heads[type(message)], self._encode(message)

    def kind_of(self, frame: memoryview) -> str:
        """Return the name of a frame's message type, for metrics."""
        return self._names.get(frame[0], "unknown") if len(frame) else "empty"

    def is_long(self, frame: Buffer) -> bool:
        """Whether the frame should be decoded with `slices`."""
        return len(frame) > LONG_BYTES and frame[0] in self._long

    def decode(self, frame: Buffer) -> M:
        """Return the message in a frame; it shares no memory with the frame.

        Raises:
            UnknownPeerMessage, MalformedPeerMessage: the frame is not a valid message.
        """
        if self.is_long(frame):
            return _run(self.slices(frame))
        number, body = self._open(frame)
        try:
            return cast("M", self._decoders[number](body))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise MalformedPeerMessage(f"message type {number}: {error}") from error

    def slices(self, frame: Buffer) -> Generator[None, None, M]:
        """Decode a long frame, which must not change meanwhile, a slice a step; raises as `decode`.

        The generator returns the message.
        """
        number, body = self._open(frame)
        try:
            return cast("M", (yield from self._long[number].slices(body)))
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise MalformedPeerMessage(f"message type {number}: {error}") from error

    def _open(self, frame: Buffer) -> tuple[int, memoryview]:
        """Return the type number of a frame and its fields, after checking its size."""
        if len(frame) < _HEAD_BYTES:
            raise MalformedPeerMessage(f"a message of {len(frame)} bytes")
        number, version = frame[0], frame[1]
        if number not in self._decoders or version != self._version:
            raise UnknownPeerMessage(number, version)
        if len(frame) > self._bytes_max[number]:
            raise MalformedPeerMessage(
                f"message type {number} of {len(frame)} bytes, at most {self._bytes_max[number]}"
            )
        return number, memoryview(frame)[_HEAD_BYTES:]


def _run(slices: Generator[None, None, M]) -> M:
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return cast("M", end.value)
