"""The port for RocketMQ's gRPC clients, on the same listener as those for the others.

It speaks HTTP/2, so its connections are its own; who is let in, turns of the loop and memory are
shared. A node without the port loads nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.grpc.config import LISTENER_NAME, GrpcConfig

if TYPE_CHECKING:
    from penstock.controller.metadata.image import BrokerImage
    from penstock.coordinator.calls.asking import Caller
    from penstock.grpc.port import GrpcPort
    from penstock.kafka.front import KafkaFront
    from penstock.remoting.keeping import Keeping
    from penstock.remoting.pop.desk import PopDesk


def grpc_port(
    config: GrpcConfig,
    kafka: KafkaFront,
    calls: Caller,
    shared: tuple[PopDesk, Keeping] | None,
) -> GrpcPort | None:
    """Return the port for gRPC clients of a broker; None where they have none.

    `shared` is what the remoting front has, if there is one: a group may pop by both, and a half
    message is decided once.
    """
    if not config.port:
        return None
    from penstock.grpc.front import GrpcFront  # noqa: PLC0415  see the module
    from penstock.grpc.methods.table import METHODS  # noqa: PLC0415
    from penstock.grpc.port import GrpcPort  # noqa: PLC0415
    from penstock.http2.limits import Http2Limits  # noqa: PLC0415
    from penstock.remoting.keeping import Keeping  # noqa: PLC0415
    from penstock.remoting.pop.desk import PopDesk  # noqa: PLC0415

    def endpoint_of(image: BrokerImage) -> tuple[str, int] | None:
        return image.endpoint(LISTENER_NAME)

    broker, spawn = kafka.broker, kafka.spawn
    if shared is None:
        keeping = Keeping(broker, spawn)
        desk = PopDesk(broker, spawn, calls, keeping.places, keeping.sending)
        desk.ensure_groups = kafka.internal_topic.ensure
        shared = desk, keeping
    front = GrpcFront(*shared, endpoint_of, METHODS, Http2Limits())
    front.delay_ms_max = config.delay_ms_max
    return GrpcPort(front)
