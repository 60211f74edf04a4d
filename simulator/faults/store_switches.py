"""Operators that switch the copying of the history's topic off, and on again.

    give up     no store at all: what it alone has is given up     on again when it is over
    no copies   what is there stays and is read                    copies again when it is over

What was given up must stay so: where the members' logs begin once an image says that it was, the
partition begins from then on, as if a client had deleted what is below.
"""

import asyncio
from collections.abc import Callable, Mapping

from penstock.base.ids import TopicPartition
from penstock.controller.commands.command import (
    AlterConfigs,
    ConfigEdit,
    ConfigOperation,
    ResourceEdits,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.records import ResourceType
from penstock.controller.topic_config.local import (
    COPY_DISABLE,
    DELETE_ON_DISABLE,
    FOLLOWS,
    LOCAL_BYTES,
    REMOTE,
)
from penstock.node.node import Node
from simulator.clients.world import now_ns
from simulator.history import Deletion
from simulator.run.cluster import SimCluster
from simulator.run.plan import Fault, FaultKind, Plan
from simulator.run.topology import TOPIC

Heal = Callable[[], None]
LOOK_SECONDS = 0.01
LOOKS = 1_000
"""For an image that tells of a give-up; a node that is behind for longer says nothing of it."""


class StoreSwitches:
    """See the module, and doing.py."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self.given_up: list[Deletion] = []
        """Below which offsets nothing may come back."""

    def kinds(self) -> Mapping[FaultKind, Callable[[Fault], Heal | None]]:
        """Return what begins each kind of wish."""
        return {FaultKind.GIVE_UP: self._give_up, FaultKind.NO_COPIES: self._no_copies}

    def _give_up(self, _: Fault) -> Heal | None:
        async def off(node: Node) -> None:
            assert node.sessions is not None
            before = give_ups(node.image)
            await node.sessions.submit(_alter({REMOTE: "false", DELETE_ON_DISABLE: "true"}))
            for _ in range(LOOKS):
                if give_ups(node.image) > before:
                    self.given_up += self._begins()
                    return
                await asyncio.sleep(LOOK_SECONDS)

        if not self._cluster.shape.is_tiered or not self._cluster.ask("give up", off):
            return None
        return lambda: self._cluster.insist(
            "store again",
            _alter({REMOTE: "true"}),
            lambda image: _configs(image).get(REMOTE) == "true",
        )

    def _begins(self) -> list[Deletion]:
        """Return from where on at least each partition is in the logs of all members that run."""
        starts: dict[TopicPartition, list[int]] = {}
        for node in self._cluster.nodes():
            topic = node.image.topics_by_name.get(TOPIC)
            for member in () if node.manager is None else node.manager.members.values():
                for key, partition in member.log.partitions.items():
                    if topic is not None and key.topic_id == topic.topic_id:
                        starts.setdefault(key, []).append(int(partition.log_start_offset))
        return [
            Deletion(key.partition, min(found), now_ns()) for key, found in sorted(starts.items())
        ]

    def _no_copies(self, _: Fault) -> Heal | None:
        shape = self._cluster.shape
        if not shape.is_tiered:
            return None
        off = _alter({COPY_DISABLE: "true", LOCAL_BYTES: FOLLOWS})

        async def work(node: Node) -> None:
            assert node.sessions is not None
            await node.sessions.submit(off)

        if not self._cluster.ask("no copies", work):
            return None
        local = str(shape.local_retention_bytes) if shape.local_retention_bytes >= 0 else FOLLOWS
        return lambda: self._cluster.insist(
            "copies again",
            _alter({COPY_DISABLE: "false", LOCAL_BYTES: local}),
            lambda image: _configs(image).get(COPY_DISABLE) != "true",
        )


def switched_keys(plan: Plan) -> tuple[str, ...]:
    """Return the settings of the topic, of those it was made with, that a plan's wishes change."""
    wishes = {FaultKind.GIVE_UP, FaultKind.NO_COPIES}
    return (REMOTE, LOCAL_BYTES) if any(one.kind in wishes for one in plan.faults) else ()


def give_ups(image: ClusterImage) -> int:
    """Return how often the history's topic was given up."""
    topic = image.topics_by_name.get(TOPIC)
    return 0 if topic is None else image.configuration.give_ups.get(topic.topic_id, 0)


def _configs(image: ClusterImage) -> Mapping[str, str]:
    topic = image.topics_by_name.get(TOPIC)
    return {} if topic is None else topic.configs


def _alter(keys: Mapping[str, str]) -> AlterConfigs:
    edits = tuple(
        ConfigEdit(key=key, operation=ConfigOperation.SET, value=value)
        for key, value in keys.items()
    )
    resource = ResourceEdits(resource_type=ResourceType.TOPIC, resource_name=TOPIC, edits=edits)
    return AlterConfigs(resources=(resource,))
