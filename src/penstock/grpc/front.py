"""The front for gRPC clients of one broker: what its methods share beside the broker itself.

    sending      messages on their way into batches, of remoting's kind
    on_demand    creation of missing topics, where that is on
    settled      streams of clients that have told their settings
    desk         what pops have in common, whatever protocol asks (remoting/pop/desk.py)
    keeping      what is delivered later, likewise (remoting/keeping.py)
    producers    which producers are there, of which topics
    consumers    which consumers are there
    renewals     messages in the hands of consumers that want them kept
    attempts     answers of groups that keep the order, for who asks again
    compiled     expressions by which messages are filtered

Source: ours. The broker does not know its fronts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from penstock.base.ids import BrokerId
from penstock.broker.live_broker import live_broker
from penstock.broker.topics_on_demand import TopicsOnDemand
from penstock.grpc.config import DELAY_MS_MAX
from penstock.grpc.consuming.attempts import Attempts
from penstock.grpc.consuming.consumers import Consumers
from penstock.grpc.consuming.renewing import Renewals
from penstock.grpc.errors import CallFault
from penstock.grpc.producing.asking import GrpcAsker
from penstock.grpc.producing.producers import Producers
from penstock.grpc.proto.messages import Address, Endpoints
from penstock.grpc.routes import endpoints_of
from penstock.grpc.statuses import GrpcStatus
from penstock.http2.limits import Http2Limits
from penstock.remoting.filters.compiled import CompiledExpressions

if TYPE_CHECKING:
    from penstock.controller.metadata.image import BrokerImage
    from penstock.grpc.call import Call, Method
    from penstock.remoting.keeping import Keeping
    from penstock.remoting.pop.desk import PopDesk

EndpointOf = Callable[["BrokerImage"], tuple[str, int] | None]
"""Where gRPC clients reach a broker; None where they do not."""


class GrpcFront:
    """See the module; one for each broker."""

    def __init__(
        self,
        desk: PopDesk,
        keeping: Keeping,
        endpoint_of: EndpointOf,
        methods: Iterable[Method],
        limits: Http2Limits,
    ) -> None:
        self.desk = desk
        self.keeping = keeping
        self.broker = broker = desk.broker
        self.spawn = desk.spawn
        self.limits = limits
        self._endpoint_of = endpoint_of
        self._methods = {method.name: method for method in methods}
        self.requests: Counter[str] = Counter()
        """Calls by method."""
        self.refusals: Counter[int] = Counter()
        """Answers by RocketMQ's code, but for OK."""
        self.faults: Counter[str] = Counter()
        """Connections that were closed for what their clients did, by HTTP/2's code."""
        self.settled: dict[object, None] = {}
        """Streams of clients that have told their settings."""
        self.turns: Iterator[int] = count()
        """Queues for messages that name none."""
        self.sending = keeping.sending
        self.on_demand = TopicsOnDemand(broker, desk.spawn)
        self.compiled = CompiledExpressions()
        self.consumers = Consumers()
        self.producers: Producers[Call] = Producers()
        keeping.halves.askers.append(GrpcAsker(broker, self.producers))
        self.renewals = Renewals(desk, self.consumers)
        self.attempts = Attempts()
        self.delay_ms_max = DELAY_MS_MAX
        """How far away the delivery of a message may be."""
        self.read_bytes = 0
        """What was read for calls that are not answered yet."""
        broker.on_expire.append(self._look)

    def _look(self, now_ms: int) -> None:
        del now_ms
        self.renewals.look()

    def method(self, name: str) -> Method:
        """Return a method by its name. Raises CallFault."""
        found = self._methods.get(name)
        if found is None:
            raise CallFault(GrpcStatus.UNIMPLEMENTED, "the service has no such method here")
        return found

    def endpoints(self, broker_id: BrokerId) -> Endpoints | None:
        """Return where clients reach a broker that is alive; None where they do not."""
        image = live_broker(self.broker.metadata, broker_id)
        endpoint = None if image is None else self._endpoint_of(image)
        if endpoint is None:
            return None
        host, port = endpoint
        return endpoints_of(Address(host=host, port=port))

    def own_host(self) -> str:
        """Return where clients reach this broker, as messages tell it."""
        image = self.broker.metadata.brokers.get(self.broker.broker_id)
        endpoint = None if image is None else self._endpoint_of(image)
        return "" if endpoint is None else f"{endpoint[0]}:{endpoint[1]}"
