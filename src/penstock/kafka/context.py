"""Who asks, and where they came in: what every handler gets beside its request.

A context belongs to a connection and stands for all its requests that carry the same client id, so
that a request costs no more than a comparison of client ids.

Source: Kafka `RequestContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.access import ANONYMOUS

if TYPE_CHECKING:
    from penstock.kafka.front import KafkaFront
    from penstock.net.connection import Connection


TEXT_KEPT_MAX = 255
"""Characters: what a client says of itself stays in memory as long as its connection."""


class Software(NamedTuple):
    """What the client says that it is (KIP-511); empty where it does not say."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return " ".join(self) if self.name else "unnamed software"


class RequestContext:
    """See the module."""

    principal = ANONYMOUS
    """Who asks, as an authoriser knows him: nobody proves yet who he is."""

    __slots__ = ("broker", "client_id", "front", "host", "listener", "software")

    def __init__(
        self,
        front: KafkaFront,
        connection: Connection,
        client_id: str | None,
        software: Software,
    ) -> None:
        self.front = front
        self.broker = front.broker
        self.client_id = client_id
        self.host = connection.client_host
        """Address that the client connected from."""
        self.listener = connection.listener_name
        """Name of the listener that it came in by: answers say where brokers have that one."""
        self.software = software

    def __str__(self) -> str:
        """For log lines."""
        return f"host={self.host} id={self.client_id} ({self.software}) listener={self.listener}"


def context_of(front: KafkaFront, connection: Connection, client_id: str | None) -> RequestContext:
    """Return the context of a request with this client id."""
    context: RequestContext | None = connection.state
    if context is not None and context.client_id == client_id:
        return context
    software = Software() if context is None else context.software
    new = RequestContext(front, connection, client_id, software)
    if client_id is None or len(client_id) <= TEXT_KEPT_MAX:
        connection.state = new
    return new
