"""The controller: a command becomes a response and records; records alone change the image.

    submit ─► handle(command) ─► Result(response, records) ─► consensus ─► replay(records) ─► delta
                 reads image           image unchanged          orders         changes image

The owner (runtime/controller_driver.py) keeps one command between `handle` and `replay` at a time,
so that a command is always judged by the state it will be applied to. On a controller that is not
active, and on every broker, only `replay` and `install_snapshot` are called.

Source: Kafka QuorumController and CoordinatorShard: handlers produce records, replay mutates. It
knows no log, no clock and no network.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from penstock.base.ids import TopicId
from penstock.controller import commands as c
from penstock.controller.alter_configs import alter_configs
from penstock.controller.change_topics import create_partitions, delete_topics
from penstock.controller.config import ControllerConfig
from penstock.controller.context import CommandContext, Result
from penstock.controller.create_topics import create_topics
from penstock.controller.image import ClusterDelta, ClusterImage
from penstock.controller.membership import (
    allocate_producer_ids,
    begin_mastership,
    change_sync_state_set,
    create_cluster,
    create_replica_set,
    end_mastership,
    register_broker,
)
from penstock.controller.records import MetadataRecord
from penstock.controller.replay import replay

R = TypeVar("R")

_HANDLERS: dict[type[Any], Callable[[CommandContext, Any], Result[Any]]] = {
    c.CreateTopics: create_topics,
    c.DeleteTopics: delete_topics,
    c.CreatePartitions: create_partitions,
    c.AlterConfigs: alter_configs,
    c.AllocateProducerIds: allocate_producer_ids,
    c.CreateCluster: create_cluster,
    c.RegisterBroker: register_broker,
    c.CreateReplicaSet: create_replica_set,
    c.BeginMastership: begin_mastership,
    c.EndMastership: end_mastership,
    c.ChangeSyncStateSet: change_sync_state_set,
}


class Controller:
    """The metadata state machine. `image` is the state; only `replay` changes it."""

    __slots__ = ("_context",)

    def __init__(
        self,
        *,
        config: ControllerConfig,
        image: ClusterImage,
        new_topic_id: Callable[[], TopicId],
    ) -> None:
        """`new_topic_id` returns 16 random bytes; it is called by `handle` only."""
        self._context = CommandContext(config=config, image=image, new_topic_id=new_topic_id)

    @property
    def image(self) -> ClusterImage:
        """The state after all replayed records."""
        return self._context.image

    def handle(self, command: c.Command[R]) -> Result[R]:
        """Judge a command by the present image and return what it would answer and change.

        Raises:
            RefusedCommand: the command as a whole can not be.
        """
        return cast("Result[R]", _HANDLERS[type(command)](self._context, command))

    def replay(self, records: Iterable[MetadataRecord]) -> ClusterDelta:
        """Apply the records of one committed entry (or snapshot) and tell the image's listeners.

        Raises:
            InvariantViolation: they contradict what was replayed before.
        """
        delta = replay(self.image, records)
        self.image.publish(delta)
        return delta
