"""The ports for clients of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.endpoints import FIRST_LISTENER
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.net.listener import Endpoint, Listener
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.receive import FrameBudget
from penstock.node.apply_settings import GRPC_PART, KEPT_PART, REMOTING_PART, SESSIONS_PART
from penstock.node.clients.fronts import RocketFronts
from penstock.node.clients.remoting import Served, served_beside
from penstock.node.settings.settings import NodeSettings

if TYPE_CHECKING:
    from penstock.grpc.port import GrpcPort
    from penstock.remoting.front import RemotingFront


def listener_of(
    front: KafkaFront,
    settings: NodeSettings,
    remoting: RemotingFront | None = None,
    grpc: GrpcPort | None = None,
) -> Listener:
    """Return the listener by which clients reach the fronts, not started yet.

    What clients pin has one budget; fetch sessions get a part of it, and so do requests of remoting
    clients.
    """
    node, net, dispatcher = settings.node, settings.net, Dispatcher(front)
    named = [Endpoint(one.host, one.port, one.name) for one in settings.bound_listeners()]
    endpoints = [Endpoint(node.host, node.port, FIRST_LISTENER), *named]
    budget = FrameBudget(pinned_bytes_max(net))
    front.fetch_sessions.bytes_max = budget.limit // SESSIONS_PART
    served = Served(dispatcher.on_frame, dispatcher.on_run)
    if remoting is not None:
        remoting.use_memory(budget.limit // REMOTING_PART)
        served = served_beside(served, remoting)
    on_frame, on_run, on_close = served
    listener = Listener(endpoints, net, on_frame, on_run=on_run, on_close=on_close, budget=budget)
    if grpc is not None:
        grpc.use_memory(budget.limit // GRPC_PART)
        listener.others = {GRPC: grpc}

    desk = RocketFronts(remoting, grpc).desk
    if desk is not None:
        desk.kept.bytes_max = budget.limit // KEPT_PART

    def pinned_elsewhere() -> int:
        others = (one.pinned_bytes for one in (remoting, grpc) if one is not None)
        kept = 0 if desk is None else desk.kept.bytes_now
        return front.pinned_bytes + sum(others) + kept

    listener.pinned_elsewhere = pinned_elsewhere
    table, clock = front.broker.quota_table, front.broker.clock

    def quota_delay_ms(address: str) -> int:
        if not table.limits_addresses:
            return 0
        return table.connection_delay_ms(address, clock.monotonic_ms())

    listener.quota_delay_ms = quota_delay_ms
    return listener
