"""What a node asks other brokers, and answers them."""

from collections.abc import Callable

from penstock.base.ids import BrokerId, SessionId
from penstock.controller.metadata.image import ClusterImage
from penstock.node.control_plane import ProcessPorts
from penstock.node.settings.settings import NodeSettings
from penstock.runtime.calls.broker_calls import BrokerCalls
from penstock.runtime.calls.ports import CallPorts


def new_calls(
    settings: NodeSettings,
    image: ClusterImage,
    ports: ProcessPorts,
    new_session_id: Callable[[], SessionId],
) -> BrokerCalls:
    """Return the calls of a broker, without anything that answers yet."""
    return BrokerCalls(
        CallPorts(
            broker_id=BrokerId(settings.node.broker_id),
            image=image,
            config=settings.replication,
            clock=ports.clock,
            scheduler=ports.scheduler,
            security=ports.security,
            spawn=ports.spawn,
            new_session_id=new_session_id,
        )
    )
