"""Frames of the remoting protocol: one command each.

    bytes  field
    4      length of all that follows (net reads it, and bounds it)
    1      how the header is written: 0 JSON, 1 binary
    3      length of the header
    n      header
    rest   body

Source: RocketMQ `RemotingCommand.decode`, `encode`, `NettyDecoder`. Departure: headers and their
number of fields are bounded; RocketMQ bounds the frame alone.
"""

from struct import Struct
from typing import Final

from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.header_binary import read_binary, write_binary
from penstock.remoting.wire.header_json import read_json, write_json

HEADER_BYTES_MAX: Final = 256 << 10
"""Properties are a field of a header: 32 KiB of them, whose separators JSON writes as 6 bytes."""
FIELDS_MAX: Final = 128
"""Fields of a header; a send has 15, and three more with a signature."""

_PREFIX = Struct(">II")
_LENGTH = Struct(">I")
_LENGTH_MASK: Final = 0xFFFFFF


def decode_frame(frame: memoryview) -> Command:
    """Return the command of a frame without its length field; the body is a view of it.

    Raises MalformedFrame.
    """
    if len(frame) < _LENGTH.size:
        raise MalformedFrame(f"a frame of {len(frame)} bytes")
    (word,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + (word & _LENGTH_MASK)
    if end > len(frame) or end > HEADER_BYTES_MAX:
        raise MalformedFrame(f"a header of {end - _LENGTH.size} bytes in {len(frame)}")
    header, body = frame[_LENGTH.size : end], frame[end:]
    if word >> 24 == Serialisation.JSON:
        command = read_json(header, body)
    elif word >> 24 == Serialisation.BINARY:
        command = read_binary(header, body)
    else:
        raise MalformedFrame(f"serialisation {word >> 24} is unknown")
    if len(command.fields) > FIELDS_MAX:
        raise MalformedFrame(f"{len(command.fields)} fields in a header")
    return command


def encode_head(command: Command) -> bytes:
    """Return all of a frame before its body, the length field included."""
    is_json = command.serialisation is Serialisation.JSON
    header = write_json(command) if is_json else write_binary(command)
    size = len(header)
    assert size <= _LENGTH_MASK, size
    length = _LENGTH.size + size + len(command.body)
    return _PREFIX.pack(length, command.serialisation << 24 | size) + header


def encode_frame(command: Command) -> bytes:
    """Return a whole frame, the length field included."""
    return b"".join((encode_head(command), command.body))
