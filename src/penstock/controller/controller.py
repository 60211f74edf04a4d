"""The controller: a command becomes a response and records; records alone change the image.

    submit ─► handle(command) ─► Result(response, records) ─► consensus ─► replay(records) ─► delta
                 reads image           image unchanged          orders         changes image

The owner (runtime/controller_driver.py) keeps one command between `handle` and `replay` at a time,
so that a command is always checked against the state it will be applied to. On a controller that
is not active, and on every broker, only `replay` and `install` are called.

Source: Kafka QuorumController and CoordinatorShard: handlers produce records, replay mutates. It
knows no log, no clock and no network.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from penstock.base.ids import TopicId
from penstock.controller.commands import command as c
from penstock.controller.commands.access import commands as a
from penstock.controller.commands.access.acls import add_acls, remove_acls
from penstock.controller.commands.access.quotas import alter_quotas
from penstock.controller.commands.access.scram import alter_scram
from penstock.controller.commands.alter_configs import alter_configs
from penstock.controller.commands.brokers import (
    drain_broker,
    forget_identity,
    leave_sync_state_sets,
    register_broker,
    remove_broker,
)
from penstock.controller.commands.change_topics import create_partitions, delete_topics
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.commands.create_topics import create_topics
from penstock.controller.commands.delegation import commands as t
from penstock.controller.commands.delegation.tokens import (
    create_token,
    expire_token,
    remove_expired_tokens,
    renew_token,
)
from penstock.controller.commands.features import change_feature_level, check_level
from penstock.controller.commands.masterships import (
    begin_mastership,
    begin_masterships,
    change_sync_state_set,
    end_mastership,
    fence_brokers,
)
from penstock.controller.commands.membership import (
    allocate_producer_ids,
    create_cluster,
    set_default_policy,
    set_failover,
)
from penstock.controller.commands.place_internal import place_internal
from penstock.controller.commands.reassignment import commands as m
from penstock.controller.commands.reassignment.reassign import advance, reassign
from penstock.controller.commands.replica_sets import (
    add_replica,
    create_replica_set,
    create_replica_sets,
    register_replica,
    remove_replica,
    set_ack_policy,
    set_unclean_election,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.metadata.image import ClusterDelta, ClusterImage
from penstock.controller.metadata.install import Installation
from penstock.controller.metadata.records import MetadataRecord
from penstock.controller.metadata.replay import replay

R = TypeVar("R")

_HANDLERS: dict[type[Any], Callable[[CommandContext, Any], Result[Any]]] = {
    c.CreateTopics: create_topics,
    c.DeleteTopics: delete_topics,
    c.CreatePartitions: create_partitions,
    c.PlaceInternal: place_internal,
    c.AlterConfigs: alter_configs,
    a.AddAcls: add_acls,
    a.RemoveAcls: remove_acls,
    a.AlterScram: alter_scram,
    a.AlterQuotas: alter_quotas,
    t.CreateToken: create_token,
    t.RenewToken: renew_token,
    t.ExpireToken: expire_token,
    t.RemoveExpiredTokens: remove_expired_tokens,
    c.AllocateProducerIds: allocate_producer_ids,
    c.CreateCluster: create_cluster,
    c.RegisterBroker: register_broker,
    c.ForgetIdentity: forget_identity,
    c.RemoveBroker: remove_broker,
    c.DrainBroker: drain_broker,
    c.LeaveSyncStateSets: leave_sync_state_sets,
    c.CreateReplicaSet: create_replica_set,
    c.CreateReplicaSets: create_replica_sets,
    c.RegisterReplica: register_replica,
    c.AddReplica: add_replica,
    c.RemoveReplica: remove_replica,
    m.Reassign: reassign,
    m.AdvanceReassignment: advance,
    c.SetAckPolicy: set_ack_policy,
    c.SetUncleanElection: set_unclean_election,
    c.SetDefaultPolicy: set_default_policy,
    c.SetFailover: set_failover,
    c.ChangeFeatureLevel: change_feature_level,
    c.BeginMasterships: begin_masterships,
    c.FenceBrokers: fence_brokers,
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
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """`new_topic_id` returns 16 random bytes, `wall_ms` wall time; only `handle` calls them."""
        self._context = CommandContext(
            config=config, image=image, new_topic_id=new_topic_id, wall_ms=wall_ms
        )

    @property
    def image(self) -> ClusterImage:
        """The state after all replayed records."""
        return self._context.image

    def handle(self, command: c.Command[R]) -> Result[R]:
        """Check a command against the current image; return its answer and the records it makes.

        Raises:
            RefusedCommand: the command is refused as a whole. FeatureLevelTooLow, one of its
                kinds: it needs a feature level that the cluster is not at yet.
        """
        result = cast("Result[R]", _HANDLERS[type(command)](self._context, command))
        check_level(self.image, result.records)
        return result

    def replay(self, records: Iterable[MetadataRecord]) -> ClusterDelta:
        """Apply the records of one committed entry (or snapshot) and tell the image's listeners.

        Raises:
            InvariantViolation: the records contradict what was replayed before.
        """
        delta = replay(self.image, records)
        self.image.publish(delta)
        return delta

    def install(self, records: Iterable[MetadataRecord]) -> ClusterDelta:
        """Replace the state by that of a snapshot and give the listeners the difference.

        A snapshot is the full state: what it does not name is gone, topics included.

        Raises:
            InvariantViolation: the snapshot is older than the state, or of another cluster.
        """
        installation = Installation(self.image)
        installation.take(records)
        return self.finish_install(installation)

    def finish_install(self, installation: Installation) -> ClusterDelta:
        """Install a snapshot of this image that was read in parts. Raises: as `install`."""
        delta = installation.finish()
        self.image.publish(delta)
        return delta
