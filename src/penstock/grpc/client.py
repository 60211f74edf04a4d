"""The client of a call, as the authoriser and handlers know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from penstock.base.ids import BrokerId
from penstock.broker.access import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.topics_on_demand import TopicsOnDemand
    from penstock.grpc.consuming.consumers import Consumers
    from penstock.grpc.consuming.renewing import Renewals
    from penstock.grpc.proto.messages import Endpoints
    from penstock.remoting.filters.compiled import CompiledExpressions
    from penstock.remoting.pop.desk import PopDesk
    from penstock.remoting.sending import Sending

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class Front(Protocol):
    """What methods need of their front."""

    broker: Broker
    spawn: Spawn
    sending: Sending
    on_demand: TopicsOnDemand
    turns: Iterator[int]
    settled: dict[object, None]
    refusals: Counter[int]
    desk: PopDesk
    compiled: CompiledExpressions
    consumers: Consumers
    renewals: Renewals
    read_bytes: int

    def endpoints(self, broker_id: BrokerId) -> Endpoints | None:
        """Return where clients reach a broker that is alive; None where they do not."""

    def own_host(self) -> str:
        """Return where clients reach this broker, as messages tell it."""


class GrpcClient:
    """Who is at the other end of a connection."""

    __slots__ = ("broker", "front", "host", "principal")

    def __init__(self, front: Front, host: str) -> None:
        self.front = front
        self.broker = front.broker
        self.host = host
        self.principal = ANONYMOUS
