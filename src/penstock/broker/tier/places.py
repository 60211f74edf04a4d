"""Where the tier's metadata is: in the internal partition of the replica set whose data it is of.

    set ─► partition of `__tier_state` in that set, made when the first partition is to be copied

Source: docs/adr/0121; share_places.py, which does the same for shares.
"""

import logging

from penstock.base.ids import ReplicaSetId
from penstock.broker.broker import Broker
from penstock.broker.submitting import submit
from penstock.controller.commands.command import PlaceInternal
from penstock.controller.commands.topic_names import TIER_STATE_TOPIC
from penstock.controller.errors import MetadataError

log = logging.getLogger(__name__)


class TierPlaces:
    """The internal partitions of the tier, by the image that this node follows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def partition_of(self, set_id: ReplicaSetId) -> int | None:
        """Return the internal partition of a set; None: there is none yet."""
        topic = self._broker.metadata.topics_by_name.get(TIER_STATE_TOPIC)
        if topic is None or not topic.internal or set_id not in topic.partitions.set_ids:
            return None
        return topic.partitions.set_ids.index(set_id)

    async def ensure(self, set_id: ReplicaSetId) -> None:
        """Have the internal partition of a set made if there is none; it may take a while to come.

        What stands against it is logged; whoever asked asks again.
        """
        if self.partition_of(set_id) is not None:
            return
        command = PlaceInternal(topic=TIER_STATE_TOPIC, replica_set_id=set_id)
        answer = await submit(self._broker, command)
        if isinstance(answer, MetadataError):
            log.warning("%s in set=%d not made yet: %s", TIER_STATE_TOPIC, set_id, answer)
