"""The ports for clients of a node."""

from penstock.base.endpoints import FIRST_LISTENER
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.net.listener import Endpoint, Listener
from penstock.net.memory_share import pinned_bytes_max
from penstock.net.receive import FrameBudget
from penstock.node.apply_settings import SESSIONS_PART
from penstock.node.settings.settings import NodeSettings


def listener_of(front: KafkaFront, settings: NodeSettings) -> Listener:
    """Return the listener by which clients reach `front`, not started yet.

    What clients pin has one budget; fetch sessions get a part of it.
    """
    node, net, dispatcher = settings.node, settings.net, Dispatcher(front)
    named = [Endpoint(one.host, one.port, one.name) for one in node.named_listeners()]
    endpoints = [Endpoint(node.host, node.port, FIRST_LISTENER), *named]
    budget = FrameBudget(pinned_bytes_max(net))
    front.fetch_sessions.bytes_max = budget.limit // SESSIONS_PART
    listener = Listener(
        endpoints, net, dispatcher.on_frame, on_run=dispatcher.on_run, budget=budget
    )
    listener.pinned_elsewhere = lambda: front.pinned_bytes
    table, clock = front.broker.quota_table, front.broker.clock

    def quota_delay_ms(address: str) -> int:
        if not table.limits_addresses:
            return 0
        return table.connection_delay_ms(address, clock.monotonic_ms())

    listener.quota_delay_ms = quota_delay_ms
    return listener
