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


class RocketFronts(NamedTuple):
    """None where there is no port."""

    remoting: RemotingFront | None
    grpc: GrpcPort | None


def rocketmq_fronts(settings: NodeSettings, kafka: KafkaFront, calls: Caller) -> RocketFronts:
    """Return the fronts of a broker."""
    return RocketFronts(
        remoting_front(settings.remoting, kafka, calls), grpc_port(settings.grpc, kafka)
    )
