"""The fronts for RocketMQ's clients of both protocols, each where it has a port."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.coordinator.calls.decision import DecisionRequest
from penstock.coordinator.calls.recall import RecallRequest
from penstock.node.clients.grpc import grpc_port
from penstock.node.clients.remoting import remoting_front
from penstock.remoting.config import RemotingConfig

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.coordinator.calls.asking import Caller
    from penstock.grpc.port import GrpcPort
    from penstock.kafka.front import KafkaFront
    from penstock.node.settings.settings import NodeSettings
    from penstock.remoting.front import RemotingFront
    from penstock.remoting.halves.times import Times
    from penstock.remoting.keeping import Keeping
    from penstock.remoting.pop.desk import PopDesk
    from penstock.runtime.calls.broker_calls import BrokerCalls


class RocketFronts(NamedTuple):
    """None where there is no port."""

    remoting: RemotingFront | None
    grpc: GrpcPort | None

    @property
    def desk(self) -> PopDesk | None:
        """What both have for popping."""
        front = self.remoting or (None if self.grpc is None else self.grpc.front)
        return None if front is None else front.desk

    @property
    def keeping(self) -> Keeping | None:
        """What both have for messages that are delivered later."""
        front = self.remoting or (None if self.grpc is None else self.grpc.front)
        return None if front is None else front.keeping


def answer_brokers(fronts: RocketFronts, broker: Broker, calls: BrokerCalls) -> None:
    """Answer other brokers about messages that wait in the sets that are led here."""
    keeping = fronts.keeping
    if keeping is None:
        return
    from penstock.remoting.halves import passing_on  # noqa: PLC0415  as below
    from penstock.remoting.recall import asking  # noqa: PLC0415

    calls.server.serve(RecallRequest, partial(asking.answer, keeping.recalls))
    calls.server.serve(DecisionRequest, partial(passing_on.answer, broker, keeping.halves))


def rocketmq_fronts(settings: NodeSettings, kafka: KafkaFront, calls: Caller) -> RocketFronts:
    """Return the fronts of a broker."""
    remoting = remoting_front(settings.remoting, kafka, calls)
    shared = None if remoting is None else (remoting.desk, remoting.keeping)
    fronts = RocketFronts(remoting, grpc_port(settings.grpc, kafka, calls, shared))
    if fronts.keeping is not None:
        fronts.keeping.halves.times = _times(settings.remoting)
    return fronts


def _times(config: RemotingConfig) -> Times:
    """Return when producers are asked about transactions, whatever protocol they speak."""
    from penstock.remoting.halves.times import Times  # noqa: PLC0415  nothing of it without a port

    return Times(
        first_ms=config.transaction_first_check_ms,
        interval_ms=config.transaction_check_interval_ms,
        checks_max=config.transaction_checks_max,
    )
