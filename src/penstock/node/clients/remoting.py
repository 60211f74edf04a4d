"""The port for RocketMQ's remoting clients, beside those for Kafka's clients, on the same listener.

    frame ─► by the port it came in by ─► Kafka's dispatcher
                                      └─► remoting's dispatcher

So both kinds of clients share connections, memory, turns of the loop and their limits. A node
without the port loads nothing of the remoting front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.net.connection import Connection
from penstock.net.context import OnClose, OnFrame, OnRun
from penstock.remoting.config import LISTENER_NAME, RemotingConfig

if TYPE_CHECKING:
    from penstock.controller.metadata.image import BrokerImage
    from penstock.coordinator.calls.asking import Caller
    from penstock.kafka.front import KafkaFront
    from penstock.remoting.front import RemotingFront


class Served(NamedTuple):
    """What a listener calls."""

    on_frame: OnFrame[Connection]
    on_run: OnRun[Connection]
    on_close: OnClose[Connection] | None = None


def remoting_front(
    config: RemotingConfig, kafka: KafkaFront, calls: Caller
) -> RemotingFront | None:
    """Return the front for remoting clients of a broker; None where they have no port."""
    if not config.port:
        return None
    from penstock.remoting.front import RemotingFront  # noqa: PLC0415  see the module

    def endpoint_of(image: BrokerImage) -> tuple[str, int] | None:
        return image.endpoint(LISTENER_NAME)

    front = RemotingFront(kafka.broker, kafka.spawn, endpoint_of, calls)
    front.configs = kafka.configs
    front.delay_ms_max = config.delay_ms_max
    front.finding.bytes_max = config.index_bytes
    front.desk.ensure_groups = kafka.internal_topic.ensure
    return front


def served_beside(kafka: Served, front: RemotingFront) -> Served:
    """Return what a listener calls that has both kinds of ports."""
    from penstock.remoting.dispatch import RemotingDispatcher  # noqa: PLC0415  see the module

    on_remoting = RemotingDispatcher(front).on_frame

    def on_frame(connection: Connection, frame: memoryview) -> None:
        if connection.listener_name == LISTENER_NAME:
            on_remoting(connection, frame)
        else:
            kafka.on_frame(connection, frame)

    def on_run(
        connection: Connection, memory: memoryview, at: int, end: int, most: int
    ) -> tuple[int, int]:
        if connection.listener_name == LISTENER_NAME:
            return 0, at
        return kafka.on_run(connection, memory, at, end, most)

    def on_close(connection: Connection) -> None:
        if connection.listener_name == LISTENER_NAME:
            front.on_close(connection)

    return Served(on_frame, on_run, on_close)
