"""The port for gRPC clients: its connections, and what they hold together.

Above `bytes_max` no connection is read that holds something, until all of them hold less: what they
hold ends soon, by an answer, by a deadline, or by the time in which a request has to be whole.

Source: ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.grpc.transport import GrpcConnection

if TYPE_CHECKING:
    from penstock.grpc.front import GrpcFront
    from penstock.net.admission.other_ports import Shared

HANDED_BYTES = 3 << 10
"""Of a hand-out that is renewed, with its 32 offsets."""
CONSUMER_BYTES = 1 << 10
PRODUCER_BYTES = 1 << 10
ALL_MAX = 64 << 20
"""Where nobody has said another bound."""


class GrpcPort:
    """See the module; an OtherPort of a listener."""

    def __init__(self, front: GrpcFront) -> None:
        self.front = front
        self.connections: dict[GrpcConnection, None] = {}
        self.starved: dict[GrpcConnection, None] = {}
        """Those that are not read since all together hold too much."""
        self.bytes_max = ALL_MAX
        self.bytes_now = 0

    @property
    def pinned_bytes(self) -> int:
        """Bytes that clients pin."""
        front = self.front
        kept = len(front.renewals) * HANDED_BYTES + len(front.consumers) * CONSUMER_BYTES
        kept += front.producers.count * PRODUCER_BYTES
        kept += front.attempts.bytes_now
        return self.bytes_now + front.read_bytes + front.compiled.bytes_now + kept

    def use_memory(self, bytes_max: int) -> None:
        """Let requests and answers of all clients have so many bytes.

        A sixteenth is for the expressions by which they filter.
        """
        self.front.compiled.bytes_max = bytes_max // 16
        self.bytes_max = bytes_max - self.front.compiled.bytes_max

    @property
    def streams(self) -> int:
        """Requests of all clients without their whole answer."""
        return sum(len(one.core.streams) for one in self.connections)

    def connect(self, host: str, shared: Shared) -> GrpcConnection:
        """Return a connection to be opened."""
        return GrpcConnection(self.front, self, host, shared)

    def count(self, more: int) -> bool:
        """Count what is held; whether that is too much."""
        self.bytes_now += more
        if self.starved and self.bytes_now <= self.bytes_max // 4 * 3:
            starved, self.starved = self.starved, {}
            for connection in starved:
                connection.read_again()
        return self.bytes_now > self.bytes_max

    def sweep(self) -> None:
        """A second has passed."""
        for connection in list(self.connections):
            connection.sweep()

    def drain(self) -> None:
        """End each connection once what it has begun is answered."""
        for connection in list(self.connections):
            connection.drain()

    def abort(self) -> None:
        """End all of them at once."""
        for connection in list(self.connections):
            connection.abort()
