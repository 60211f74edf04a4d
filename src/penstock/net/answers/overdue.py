"""What has taken too long on a connection: its first byte, a frame, an answer, or its silence.

Times are counted in the ticks of the listener, which looks once a second.
"""

from typing import Protocol

from penstock.net.errors import CloseKind
from penstock.net.limits import NetLimits

PACE_BYTES = 64 << 10
"""Who takes less of its answers in a second may be ended when memory is short: a peer that takes
a byte now and then would keep its part of the memory for ever."""


class Timed(Protocol):
    """What of a connection tells how long things have taken; `*_tick` are ticks of the listener."""

    has_sent: bool
    last_tick: int
    taken_tick: int
    paced_tick: int
    taken_bytes: int
    written_bytes: int

    @property
    def in_flight(self) -> int:
        """Requests that are not answered yet."""

    @property
    def unfinished_ticks(self) -> int:
        """For how long a frame has been arriving."""


def overdue(connection: Timed, queued_bytes: int, tick: int, limits: NetLimits) -> CloseKind | None:
    """Return why to end the connection, if it is to be ended; `queued_bytes` wait to be sent."""
    if _is_stalled(connection, queued_bytes, tick, limits):
        return CloseKind.ANSWERS_NOT_READ
    if connection.unfinished_ticks > limits.frame_seconds_max:
        return CloseKind.FRAME_TOO_SLOW
    quiet = tick - connection.last_tick
    if not connection.has_sent:
        first = limits.first_frame_seconds_max
        return CloseKind.NO_FIRST_FRAME if first and quiet > first else None
    idle = limits.idle_seconds_max
    return CloseKind.IDLE if idle and quiet > idle and not connection.in_flight else None


def _is_stalled(connection: Timed, queued_bytes: int, tick: int, limits: NetLimits) -> bool:
    """Whether the peer has not taken a single byte of its answers for too long."""
    taken = connection.written_bytes - queued_bytes
    if queued_bytes == 0 or taken > connection.taken_bytes:
        connection.taken_tick = tick
    if queued_bytes == 0 or taken >= connection.taken_bytes + PACE_BYTES:
        connection.paced_tick = tick
    connection.taken_bytes = taken
    return tick - connection.taken_tick > limits.write_stall_seconds_max
