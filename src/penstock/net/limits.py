"""Settings of the net room: what one client, one address and all clients together may use."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

KIB = 1 << 10
MIB = 1 << 20

FRAME_BYTES_MIN = 10
"""API key, version, correlation id and the length of the client id."""


LARGE_KIND = bytes(2)
"""How requests begin that carry records; no others are large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    """Limits of one listener; they count before any authentication."""

    frame_bytes_max: Annotated[int, Ge(64 * KIB), Le(100 * MIB)] = 16 * MIB
    """Largest request. A larger one ends its connection before memory is taken for it. Must be
    above the largest batch any topic allows (`max.message.bytes`) by some kilobytes."""

    other_frame_bytes_max: Annotated[int, Ge(64 * KIB), Le(100 * MIB)] = 4 * MIB
    """Largest request that carries no records, which is any but Produce. 4 MiB name
    17,000 topics by their longest names, or 100,000 partitions in any request."""

    unfinished_bytes_max: Annotated[int, Ge(0)] = 0
    """Memory that clients may pin, all connections together: requests that have arrived in part or
    are worked on, answers that are not taken, and members of groups, which may be half of it.
    0 is an eighth of the memory of the machine or its control group, 64 MiB at least and 256 MiB
    at most; what is set below 4 MiB counts as 4 MiB.
    The fuller it is, the smaller are the answers of fetches; from three quarters on fetches wait,
    and connections that do not take their answers are ended, those that hold most first; beyond it
    reading stops, and the oldest slow request is ended. Send buffers of the system do not count."""

    first_frame_seconds_max: Annotated[int, Ge(0)] = 5
    """Time from connecting to the first byte; 0 switches the limit off. Kafka clients send at
    once; what only opens a port is a scanner or a probe."""

    frame_seconds_max: Annotated[int, Ge(1)] = 30
    """Time from the first to the last byte of one request."""

    idle_seconds_max: Annotated[int, Ge(0)] = 600
    """A connection without any request in progress is ended after this; 0 never (Kafka: 10
    minutes)."""

    write_stall_seconds_max: Annotated[int, Ge(1)] = 60
    """A connection whose peer reads none of its answers for this long is ended."""

    connections_max: Annotated[int, Ge(1)] = 10_000
    """Open connections in all; never more than the process has file descriptors for, less a
    reserve for the log files."""

    connections_per_address_max: Annotated[int, Ge(0)] = 5_000
    """Open connections from one address; 0 switches the limit off, as for a proxy before us. Half
    of all connections: many clients on one host, or behind one router, do not meet it."""

    connection_rate_per_address_max: Annotated[int, Ge(0)] = 2_000
    """New connections from one address in one second; 0 switches the limit off. Thousands of
    clients that come back together are through within seconds; a flood is kept out."""

    in_flight_max: Annotated[int, Ge(1), Le(10_000)] = 64
    """Requests of one connection that are not answered yet; then its socket is not read. Stopping
    and going on costs a client with many small requests a tenth of its throughput, and a request
    that waits holds about a kilobyte. Kafka works on one at a time."""

    queued_bytes_max: Annotated[int, Ge(64 * KIB)] = 1 * MIB
    """Answers of one connection that the peer has not taken yet; then its socket is not read. One
    answer may go beyond it."""


def is_too_large(view: memoryview, at: int, filled: int) -> bool:
    """Whether a large frame at `at` is of a kind that may not be; False until that is known."""
    kind = view[at + 4 : min(at + 6, filled)]
    return len(kind) == len(LARGE_KIND) and kind != LARGE_KIND
