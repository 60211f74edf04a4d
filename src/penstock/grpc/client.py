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
    from penstock.grpc.consuming.attempts import Attempts
    from penstock.grpc.consuming.consumers import Consumers
    from penstock.grpc.consuming.renewing import Renewals
    from penstock.grpc.producing.producers import Producers
    from penstock.grpc.proto.messages import Endpoints
    from penstock.quotas.table import ClientBuckets
    from penstock.remoting.filters.compiled import CompiledExpressions
    from penstock.remoting.keeping import Keeping
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
    keeping: Keeping
    producers: Producers[Any]
    """Of streams, which are calls."""
    compiled: CompiledExpressions
    consumers: Consumers
    renewals: Renewals
    attempts: Attempts
    delay_ms_max: int
    """How far away the delivery of a message may be."""
    read_bytes: int

    def endpoints(self, broker_id: BrokerId) -> Endpoints | None:
        """Return where clients reach a broker that is alive; None where they do not."""

    def own_host(self) -> str:
        """Return where clients reach this broker, as messages tell it."""


class GrpcClient:
    """Who is at the other end of a connection: one for each user of it."""

    __slots__ = (
        "_client_id",
        "_mute",
        "broker",
        "buckets",
        "front",
        "host",
        "principal",
        "software",
    )

    def __init__(
        self, front: Front, host: str, mute: Callable[[int | None], None], principal: str = ""
    ) -> None:
        """`mute` is that of its connection; without a principal it is anonymous."""
        self.front = front
        self.broker = front.broker
        self.host = host
        self.principal = principal or ANONYMOUS
        self.software = ("", "")
        """As its last call told it."""
        self.buckets: ClientBuckets | None = None
        self._client_id = ""
        self._mute = mute

    @property
    def user(self) -> str:
        """The principal, where clients say who they are; else empty: they are not one user."""
        return "" if self.principal == ANONYMOUS else self.principal

    @property
    def client_id(self) -> str:
        """As its last call told it."""
        return self._client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        if client_id != self._client_id:
            self._client_id = client_id
            self.buckets = None

    def mute(self, delay_ms: int | None) -> None:
        """Take no more calls for this time; with None until there is a time."""
        self._mute(delay_ms)

    def gone(self) -> None:
        """Let go of its connection, which has ended and refers to this."""
        self._mute = _nothing


def _nothing(delay_ms: int | None) -> None:
    """There is no connection to mute."""
