"""Why the net room itself ends or refuses a connection.

There are no exceptions here for peers' mistakes: the connection is closed with one of these kinds,
which is also the label of its counter in NetStats. A port that can not be opened is a ConfigError.
"""

from enum import StrEnum

from penstock.net.limits import FRAME_BYTES_MIN


class CloseKind(StrEnum):
    """Why an open connection was ended by this side."""

    FRAME_TOO_LARGE = "frame_too_large"
    FRAME_SIZE_INVALID = "frame_size_invalid"
    NOT_KAFKA = "not_kafka"
    NO_FIRST_FRAME = "no_first_frame"
    FRAME_TOO_SLOW = "frame_too_slow"
    MEMORY = "memory"
    IDLE = "idle"
    ANSWERS_NOT_READ = "answers_not_read"
    REQUEST = "request"
    """The layer above asked for it, mostly for a malformed request; it counts why."""
    HANDLER_FAILED = "handler_failed"
    """The layer above raised: a bug there."""
    SHUTDOWN = "shutdown"


class RefuseKind(StrEnum):
    """Why a new connection was closed right after it was accepted."""

    TOO_MANY = "too_many"
    TOO_MANY_FROM_ADDRESS = "too_many_from_address"
    TOO_FAST_FROM_ADDRESS = "too_fast_from_address"
    NO_DESCRIPTOR = "no_descriptor"


_NOT_KAFKA_STARTS = (b"\x16\x03", b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"SSH-")


def kind_of_size(size: int, start: bytes) -> CloseKind:
    """Say what is wrong with a size field that can not be one; `start` are its four bytes."""
    if start.startswith(_NOT_KAFKA_STARTS):
        return CloseKind.NOT_KAFKA
    if size > FRAME_BYTES_MIN:
        return CloseKind.FRAME_TOO_LARGE
    return CloseKind.FRAME_SIZE_INVALID
