"""Raft messages as bytes: version u8 │ type u8 │ the message's fields as MessagePack.

The fields go by name, so that a later release can add one with a default. Both ends are of one
cluster and have shown that they know its secret; still, whatever arrives is checked against the
types of the fields.

Source: docs/formats/raft-log.md, "Messages"; the types are those of raft/messages.py.
"""

from typing import Any

import msgspec

from penstock.base.ports import Buffer
from penstock.raft.errors import InvalidMessage
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    LearnerHello,
    LearnerWelcome,
    Message,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)

WIRE_VERSION = 1

_TYPES: dict[int, type[Any]] = {
    1: VoteRequest,
    2: VoteResponse,
    3: AppendEntries,
    4: AppendResponse,
    5: InstallSnapshot,
    6: SnapshotResponse,
    7: TimeoutNow,
    8: LearnerHello,
    9: LearnerWelcome,
}
"""Numbers on the wire; they are never used again for something else."""

_HEADS = {kind: bytes((WIRE_VERSION, number)) for number, kind in _TYPES.items()}
_HEAD_BYTES = 2
_DECODERS = {number: msgspec.msgpack.Decoder(kind) for number, kind in _TYPES.items()}
_ENCODER = msgspec.msgpack.Encoder()


def encode_message(message: Message) -> bytes:
    """Return one frame."""
    return _HEADS[type(message)] + _ENCODER.encode(message)


def decode_message(frame: Buffer) -> Message:
    """Return the message of a frame; its bytes are copied out of it.

    Raises:
        InvalidMessage: it is of another version, or no message.
    """
    view = memoryview(frame)
    if len(view) < _HEAD_BYTES:
        raise InvalidMessage(f"{len(view)} bytes are no Raft message")
    if view[0] != WIRE_VERSION:
        raise InvalidMessage(f"Raft message of version {view[0]}; this release has {WIRE_VERSION}")
    decoder = _DECODERS.get(view[1])
    if decoder is None:
        raise InvalidMessage(f"Raft message of unknown type {view[1]}")
    try:
        message: Message = decoder.decode(view[_HEAD_BYTES:])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidMessage(f"a Raft message that can not be read: {error}") from error
    return message
