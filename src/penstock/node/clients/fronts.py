"""The fronts for RocketMQ's clients of both protocols, each where it has a port."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.node.clients.grpc import grpc_port
from penstock.node.clients.remoting import remoting_front

if TYPE_CHECKING:
    from penstock.coordinator.calls import Caller
    from penstock.grpc.port import GrpcPort
    from penstock.kafka.front import KafkaFront
    from penstock.node.settings.settings import NodeSettings
    from penstock.remoting.front import RemotingFront
    from penstock.remoting.pop.desk import PopDesk


class RocketFronts(NamedTuple):
    """None where there is no port."""

    remoting: RemotingFront | None
    grpc: GrpcPort | None

    @property
    def desk(self) -> PopDesk | None:
        """What both have for popping."""
        front = self.remoting or (None if self.grpc is None else self.grpc.front)
        return None if front is None else front.desk


def rocketmq_fronts(settings: NodeSettings, kafka: KafkaFront, calls: Caller) -> RocketFronts:
    """Return the fronts of a broker."""
    remoting = remoting_front(settings.remoting, kafka, calls)
    desk = None if remoting is None else remoting.desk
    return RocketFronts(remoting, grpc_port(settings.grpc, kafka, calls, desk))
