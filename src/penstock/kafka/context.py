"""The context of a request: its client and the listener, which every handler gets.

A context belongs to a connection and is shared by all its requests with the same client id, so that
a request costs no more than a comparison of client ids.

Source: Kafka `RequestContext`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.broker.access import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.access import Authoriser
    from penstock.broker.api_stats import Measure
    from penstock.kafka.front import KafkaFront
    from penstock.net.connection import Connection
    from penstock.quotas.table import ClientBuckets


TEXT_KEPT_MAX = 255
"""Characters kept of each value: they stay in memory as long as the connection."""


class Software(NamedTuple):
    """Name and version of the client software (KIP-511); empty if it does not send them."""

    name: str = ""
    version: str = ""

    def __str__(self) -> str:
        return " ".join(self) if self.name else "unnamed software"


class WritableTopics:
    """Topics that a client has written to, as requests name them: permitted as long as nothing is
    changed, neither the rules nor who the client is.
    """

    __slots__ = ("authoriser", "generation", "ids", "names", "principal")

    def __init__(self, authoriser: Authoriser, principal: str) -> None:
        self.authoriser, self.generation = authoriser, authoriser.generation
        self.principal = principal
        self.names: set[bytes] = set()
        self.ids: set[bytes] = set()


class RequestContext:
    """See the module."""

    __slots__ = (
        "audited",
        "broker",
        "buckets",
        "client_id",
        "front",
        "host",
        "is_by_token",
        "is_unproven",
        "listener",
        "principal",
        "software",
        "writable",
    )

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
        """Name of the client's listener: answers have the brokers' addresses of that one."""
        self.principal = connection.principal or ANONYMOUS
        """Who the client is, for the authoriser; another one only if it has proved so meanwhile."""
        self.is_by_token = connection.is_by_token
        """Whether the client has proved it by a delegation token: it may not ask for further."""
        self.is_unproven = connection.guard is not None and not connection.principal
        """Whether the client has yet to say who it is."""
        self.software = software
        self.buckets: ClientBuckets | None = None
        """What the client fills of its quotas, as it was last found (throttled.py)."""
        self.audited: dict[int, Measure] | None = None
        """What adds to the audit, by API key (audited.py)."""
        self.writable: WritableTopics | None = None
        """What the gate remembers of topics that were written to."""

    def __str__(self) -> str:
        """Return the text for log lines."""
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
