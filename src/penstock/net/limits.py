"""Settings of the net room: what one client, one address and all clients together may use."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le, MaxLen

from penstock.net.admission.own_limits import ListenerLimits, address_counts, listener_limits

KIB = 1 << 10
MIB = 1 << 20

FRAME_BYTES_MIN = 10
"""Header of a request: API key, version, correlation id and the length of the client id."""


LARGE_KIND = bytes(2)
"""First bytes of requests that carry records; no others may be large."""

RATE_MAX = 2**31 - 1
"""Kafka's default of `max.connection.creation.rate`: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    """Limits of one listener; they apply before any authentication."""

    frame_bytes_max: Annotated[int, Ge(64 * KIB), Le(100 * MIB)] = 16 * MIB
    """Largest request. A larger one closes its connection before memory is allocated for it. Must
    exceed the largest batch that any topic allows (`max.message.bytes`) by some kilobytes."""

    other_frame_bytes_max: Annotated[int, Ge(64 * KIB), Le(100 * MIB)] = 4 * MIB
    """Largest request without records, which is any but Produce. 4 MiB name 17,000 topics with
    names of the greatest length, or 100,000 partitions in any request."""

    unfinished_bytes_max: Annotated[int, Ge(0)] = 0
    """Memory that clients may pin, all connections together: requests received in part or in
    progress, answers that are not received, fetch sessions, which may have an eighth of it, and
    groups with their members and positions, which may have three eighths. 0 is an eighth of the
    memory of the machine or its control group, at least 64 MiB and at most 256 MiB; a value below 4
    MiB counts as 4 MiB. The more is pinned, the smaller are the answers to fetches. From three
    quarters on, fetches wait, and connections that do not receive their answers are closed, those
    that hold most first; at the limit reading stops, and slow requests are closed, those of the
    largest share first. Requests above 1.1 MiB may have three quarters. Send buffers of the system
    do not count."""

    first_frame_seconds_max: Annotated[int, Ge(0)] = 5
    """Time from connecting to the first byte; 0 disables the limit. Kafka clients send at once; a
    connection without any byte is a scanner's or a probe's."""

    frame_seconds_max: Annotated[int, Ge(1)] = 30
    """Time from the first to the last byte of one request."""

    idle_seconds_max: Annotated[int, Ge(0)] = 600
    """A connection without a request in progress is closed after this time; 0 disables the limit
    (Kafka: 10 minutes)."""

    write_stall_seconds_max: Annotated[int, Ge(1)] = 60
    """A connection whose peer reads none of its answers for this long is closed."""

    connections_max: Annotated[int, Ge(1)] = 10_000
    """Open connections in total; never more than the process's limit of file descriptors minus a
    reserve for log files."""

    connections_per_address_max: Annotated[int, Ge(0)] = 5_000
    """Open connections from one address; 0 disables the limit, as needed behind a proxy. The
    default of half of all connections does not affect many clients on one host or behind one
    router."""

    connections_per_address_overrides: tuple[str, ...] = ()
    """Addresses with a number of connections of their own, each as `ADDRESS:COUNT`, as in
    `10.0.0.7:20000`; 0 lets nobody in. Names of hosts are not looked up."""

    connection_rate_per_address_max: Annotated[int, Ge(0)] = 2_000
    """New connections from one address in one second; 0 disables the limit. Thousands of clients
    that reconnect together succeed within seconds, while a flood is refused."""

    connection_rate_max: Annotated[int, Ge(1), Le(RATE_MAX)] = RATE_MAX
    """New connections in one second from all addresses. Beyond it nobody is refused: the node
    accepts later, and whoever connects waits. The default is no limit, as in Kafka."""

    listeners: tuple[str, ...] = ()
    """Limits of single listeners, each as `NAME.setting=value` with `connections_max` or
    `connection_rate_max`, beside those of the node: `EXTERNAL.connections_max=500`. `kafka` is the
    listener of `node.host` and `node.port`."""

    protected_listener: Annotated[str, MaxLen(64)] = ""
    """Listener for those who look after the node, by name. Some places are kept for it (16, or a
    quarter where that is less), limits per address and `connection_rate_max` do not hold there, and
    when the node is full the connection idle longest of another listener is closed for a new one.
    Let nobody else reach it."""

    unproven_max: Annotated[int, Ge(1)] = 5_000
    """Connections whose clients are in the middle of TLS or have not proved by SASL who they are,
    and never more than half of `connections_max`. At the limit the oldest is closed for a new
    one."""

    unproven_per_address_max: Annotated[int, Ge(1)] = 2_500
    """Of `unproven_max` those from one address, and never more than half of it."""

    unproven_seconds_max: Annotated[int, Ge(1), Le(3_600)] = 30
    """Time from connecting until a client has to have proved who it is, TLS included."""

    in_flight_max: Annotated[int, Ge(1), Le(10_000)] = 64
    """Unanswered requests of one connection above which its socket is not read. Pausing and
    resuming costs a client with many small requests a tenth of its throughput, and a waiting
    request holds about a kilobyte. Kafka handles one at a time."""

    queued_bytes_max: Annotated[int, Ge(64 * KIB)] = 1 * MIB
    """Bytes of answers that the peer of one connection has not received, above which its socket is
    not read. One answer may exceed it."""

    def __post_init__(self) -> None:
        """Check what is written as text. Raises ConfigError."""
        address_counts(self.connections_per_address_overrides)
        listener_limits(self.listeners)

    def of_listener(self, name: str) -> ListenerLimits:
        """Return the limits of one listener; case does not count, as in Kafka's names."""
        return listener_limits(self.listeners).get(name.lower(), ListenerLimits())


def is_too_large(view: memoryview, at: int, filled: int) -> bool:
    """Whether a large frame at `at` is of a kind that must be small; False until that is known."""
    kind = view[at + 4 : min(at + 6, filled)]
    return len(kind) == len(LARGE_KIND) and kind != LARGE_KIND
