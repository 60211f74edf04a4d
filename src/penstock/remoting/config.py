"""Settings of the port for RocketMQ's remoting clients.

Source: RocketMQ `NettyServerConfig` (10911, and 9876 for name servers; here one port is both).
It imports nothing of this room, so a node without the port loads none of it.
"""

import socket
from dataclasses import dataclass
from typing import Annotated, Final

from annotated_types import Ge, Le, MaxLen, MinLen

from penstock.base.endpoints import NamedEndpoint

LISTENER_NAME: Final = "remoting"
"""By which brokers tell each other where these clients reach them."""
_PORT_MAX: Final = 65_535
DELAY_MS_MAX: Final = 3 * 86_400_000
"""RocketMQ's `timerMaxDelaySec`."""
DELAY_MS_MOST: Final = 40 * 86_400_000
INDEX_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotingConfig:
    """Where RocketMQ's remoting clients reach a node: as name server and as broker."""

    host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """Address the port for RocketMQ's remoting clients binds; `0.0.0.0` for every interface. Where
    other machines reach it, `security.listener_security_protocol_map` has to make clients prove who
    they are, as `remoting:SASL_SSL` does, or `security.open_listeners=remoting` permit that it does
    not."""

    port: Annotated[int, Ge(0), Le(_PORT_MAX)] = 0
    """Port for RocketMQ's remoting clients, name server and broker in one; 0: none. Give every
    node one: clients do not reach what is led by a node without it."""

    advertised_host: Annotated[str, MaxLen(255)] = ""
    """Host name or address advertised to these clients. Empty: `remoting.host`, or the machine's
    name where that stands for every interface."""

    advertised_port: Annotated[int, Ge(0), Le(_PORT_MAX)] = 0
    """Port advertised to these clients; 0 means `remoting.port`."""

    transaction_first_check_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 6_000
    """After how long a producer is first asked about a half message that it has not decided, unless
    the message says so itself (`CHECK_IMMUNITY_TIME_IN_SECONDS`). Shorter than its local
    transactions take: it is asked about those under way."""

    transaction_check_interval_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 30_000
    """After how long it is asked again."""

    transaction_checks_max: Annotated[int, Ge(1), Le(1_000)] = 15
    """How often it is asked. A half message that is not decided then is discarded: it is in
    `rmq.transactions.discarded`, and consumers never see it."""

    delay_ms_max: Annotated[int, Ge(1_000), Le(DELAY_MS_MOST)] = DELAY_MS_MAX
    """How far away the time may be at which a message of these clients is to be delivered
    (`TIMER_DELAY_SEC`, `TIMER_DELAY_MS`, `TIMER_DELIVER_MS`): three days as with RocketMQ
    (`timerMaxDelaySec`), forty days at most. A message that waits is written again each two
    hours."""

    index_bytes: Annotated[int, Ge(0), Le(1 << 40)] = INDEX_BYTES
    """Bytes on the disk, for each log of the node, of the index by which messages are found by id
    and key (`queryMsgByKey`, `penstock message find`): 20 for each id and each key, so the default
    is enough for 13 million messages with one key each. The oldest are let go. 0: no index."""

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
