"""Which processes of brokers still live that counted something, and can write it.

A process that leads no partition of its topic keeps its rows until it does: nothing is expected of
it.
"""

from collections.abc import Mapping

from penstock.controller.metadata.image import ClusterImage
from simulator.run.server import Server


class Lives:
    """Since when the present process of each server lives."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def started(self, server: Server, at_s: float) -> None:
        """Note that a process of the server has started."""
        self._since_s[server.name] = at_s

    def counts_on(
        self,
        servers: Mapping[int, Server],
        image: ClusterImage | None,
        node: int,
        at_s: float,
        topic_name: str,
    ) -> bool:
        """Whether the process that was there then lives on, and leads a partition for its rows."""
        server = servers[node]
        if image is None or not server.is_up or self._since_s[server.name] > at_s:
            return False
        topic = image.topics_by_name.get(topic_name)
        set_ids = () if topic is None else topic.partitions.set_ids
        return any(image.replica_sets[set_id].master == node for set_id in set_ids)
