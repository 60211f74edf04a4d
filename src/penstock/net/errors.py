"""Reasons for which the net room closes or refuses a connection.

Mistakes of peers raise no exceptions here: the connection is closed with one of these kinds, which
is also the label of its counter in NetStats. A port that cannot be opened is a ConfigError.
"""

from enum import StrEnum

from penstock.net.limits import FRAME_BYTES_MIN


class CloseKind(StrEnum):
    """Why this side closed an open connection."""

    FRAME_TOO_LARGE = "frame_too_large"
    FRAME_SIZE_INVALID = "frame_size_invalid"
    NOT_KAFKA = "not_kafka"
    NO_FIRST_FRAME = "no_first_frame"
    FRAME_TOO_SLOW = "frame_too_slow"
    MEMORY = "memory"
    NOT_TLS = "not_tls"
    TLS_FAILED = "tls_failed"
    """No handshake, or a certificate that proves nothing."""
    AUTHENTICATION = "authentication"
    """The client has not proved who it is, or not in time."""
    GAVE_WAY = "gave_way"
    """Another client has got its place; YieldKind says why."""
    IDLE = "idle"
    ANSWERS_NOT_READ = "answers_not_read"
    REQUEST = "request"
    """Requested by the layer above, mostly for a malformed request; it counts the reason."""
    HANDLER_FAILED = "handler_failed"
    """The layer above raised an unexpected exception, which is a bug there."""
    SHUTDOWN = "shutdown"


class RefuseKind(StrEnum):
    """Why a new connection was closed right after it was accepted."""

    TOO_MANY = "too_many"
    TOO_MANY_AT_LISTENER = "too_many_at_listener"
    TOO_MANY_FROM_ADDRESS = "too_many_from_address"
    OVER_OVERRIDE = "over_override"
    """The address has a limit of its own, and no more places."""
    TOO_FAST_FROM_ADDRESS = "too_fast_from_address"
    NO_DESCRIPTOR = "no_descriptor"
    QUOTA = "quota"
    """Closed after a delay: the address has made more than its quota."""


class YieldKind(StrEnum):
    """Why an open connection has given its place to a new one."""

    FULL = "full"
    """There was no place left, and its client had not proved who it is."""
    LISTENER_FULL = "listener_full"
    UNPROVEN = "unproven"
    """Too many clients had not proved who they are."""
    UNPROVEN_FROM_ADDRESS = "unproven_from_address"
    IDLE = "idle"
    """There was no place left for the protected listener, and it was idle longest."""


class WaitKind(StrEnum):
    """Why new connections are accepted later."""

    TOO_FAST = "too_fast"
    TOO_FAST_AT_LISTENER = "too_fast_at_listener"


_NOT_KAFKA_STARTS = (b"\x16\x03", b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"CONN", b"SSH-")


def kind_of_size(size: int, start: bytes) -> CloseKind:
    """Return what is wrong with an impossible size field; `start` is its four bytes."""
    if start.startswith(_NOT_KAFKA_STARTS):
        return CloseKind.NOT_KAFKA
    if size > FRAME_BYTES_MIN:
        return CloseKind.FRAME_TOO_LARGE
    return CloseKind.FRAME_SIZE_INVALID
