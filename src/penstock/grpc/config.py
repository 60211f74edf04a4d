"""Settings of the port for RocketMQ's gRPC clients.

Source: RocketMQ's proxy (`grpcServerPort`, 8081). It imports nothing of this room, so a node
without the port loads none of it.
"""

import socket
from dataclasses import dataclass
from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from penstock.base.endpoints import NamedEndpoint
from penstock.remoting.config import DELAY_MS_MOST

LISTENER_NAME: Final = "grpc"
"""By which brokers tell each other where these clients reach them."""
_PORT_MAX: Final = 65_535
DELAY_MS_MAX: Final = 86_400_000
"""The proxy's `maxDelayTimeMills`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """Where RocketMQ's gRPC clients, those of 5.x, reach a node."""

    host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address the port for RocketMQ's gRPC clients binds; `0.0.0.0` for every interface."""

    port: Annotated[int, Ge(0), Le(_PORT_MAX)] = 0
    """Port for RocketMQ's gRPC clients; 0: none. Give every node one: clients do not reach what is
    led by a node without it."""

    advertised_host: Annotated[str, MaxLen(255)] = ""
    """Host name or address advertised to these clients. Empty: `grpc.host`, or the machine's name
    where that stands for every interface."""

    advertised_port: Annotated[int, Ge(0), Le(_PORT_MAX)] = 0
    """Port advertised to these clients; 0 means `grpc.port`."""

    delay_ms_max: Annotated[int, Ge(1_000), Le(DELAY_MS_MOST)] = DELAY_MS_MAX
    """How far away the time may be at which a message of these clients is to be delivered: a day as
    with RocketMQ's proxy (`maxDelayTimeMills`), forty days at most. A message that waits is written
    again each two hours."""

    takes_tls: bool = False
    """Take TLS as well where the port is open, as RocketMQ's proxy does: Java's client begins with
    it unless it is told otherwise. Who begins with plain text is served so. The certificate is that
    of `security.ssl_certificate_file`; without one the node makes its own at each start, which no
    client can check."""

    def bound(self) -> tuple[NamedEndpoint, ...]:
        """Return the listener as it is bound; none where there is no port."""
        return (NamedEndpoint(LISTENER_NAME, self.host, self.port),) if self.port else ()

    def told(self) -> tuple[NamedEndpoint, ...]:
        """Return the listener as it is advertised; none where there is no port."""
        if not self.port:
            return ()
        every_interface = self.host in {"0.0.0.0", "::"}  # noqa: S104  compared, not bound
        host = self.advertised_host or (socket.gethostname() if every_interface else self.host)
        return (NamedEndpoint(LISTENER_NAME, host, self.advertised_port or self.port),)
