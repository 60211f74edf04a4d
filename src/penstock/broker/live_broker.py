"""Whether a broker of the cluster image is alive, as far as the controllers know."""

from penstock.base.ids import BrokerId
from penstock.controller.metadata.image import BrokerImage, ClusterImage


def live_broker(image: ClusterImage, broker_id: BrokerId) -> BrokerImage | None:
    """Return a broker that is registered and not fenced."""
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.is_fenced else broker
