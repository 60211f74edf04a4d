"""Errors of the controller room.

    MetadataError
      RefusedCommand             the request is invalid, or the cluster does not allow it now
        InvalidTopicName, TopicExists, UnknownTopic, UnknownTopicId
        InvalidPartitions, InvalidReplicationFactor, InvalidReplicaAssignment
        InvalidConfig, InvalidMetadataRequest, MetadataPolicyViolation
        UnknownBroker, UnknownReplicaSet, NoReassignment, StaleLeaderEpoch, StaleSyncStateSet
        FeatureLevelTooLow, FeatureLevelRefused
        TokenNotFound, NotOwnerOfToken, TokenExpired
        BrokerIdTaken, NotReplica, NoEligibleMaster, TransferFailed, MalformedCommand
      MetadataUnavailable        the command is valid; the metadata log did not (or may not) take it
        NotActiveController (LeadershipLost: it may have taken it), MetadataTimeout
        MetadataQueueFull, MetadataLogFull, MetadataLogFenced
      CorruptMetadata, UnsupportedMetadata      metadata on disk that cannot be read

A refused command is an expected outcome: these classes are values in the results of single topics
and resources, and are raised only inside this room.

Source: Kafka, org.apache.kafka.common.errors (which of our classes answers with which code is
decided in kafka/error_map.py).
"""

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, PeerId, ReplicaSetId, TopicId


class MetadataError(PlatformError):
    """Anything about cluster metadata."""


class RefusedCommand(MetadataError):
    """A command that is refused and changes nothing."""


class InvalidTopicName(RefusedCommand):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Topic name is not allowed: {reason}")
        self.name = name
        self.reason = reason


class TopicExists(RefusedCommand):
    def __init__(self, name: str) -> None:
        super().__init__(f"Topic '{name}' already exists.")
        self.name = name


class UnknownTopic(RefusedCommand):
    def __init__(self, name: str) -> None:
        super().__init__(f"This server does not host topic '{name}'.")
        self.name = name


class UnknownTopicId(RefusedCommand):
    def __init__(self, topic_id: TopicId) -> None:
        super().__init__(f"This server does not host a topic with id {topic_id.hex()}.")
        self.topic_id = topic_id


class InvalidPartitions(RefusedCommand):
    """A partition count that is out of range, or below the topic's current one."""


class InvalidReplicationFactor(RefusedCommand):
    """No replica set has that many members, or there are not that many brokers."""


class InvalidReplicaAssignment(RefusedCommand):
    """A manual assignment that no replica set can carry."""


class InvalidConfig(RefusedCommand):
    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key}: {reason}")
        self.key = key
        self.reason = reason


class InvalidMetadataRequest(RefusedCommand):
    """The request contradicts itself, or names something that may not be touched."""


class MetadataPolicyViolation(RefusedCommand):
    """A limit that the operator set would be passed."""


class UnacceptableCredential(RefusedCommand):
    """A credential without a user, or with keys or iterations that are not taken."""


class DuplicateCredential(RefusedCommand):
    """A request that changes, or asks for, the same credential twice."""


class CredentialNotFound(RefusedCommand):
    """A user who has no such credential."""


class UnknownScramMechanism(RefusedCommand):
    """A number that is no mechanism's."""


class TokenNotFound(RefusedCommand):
    """No delegation token has that id."""


class NotOwnerOfToken(RefusedCommand):
    """A principal who is neither owner, requester nor renewer of a delegation token."""


class TokenExpired(RefusedCommand):
    """A delegation token that is over: nothing makes it good again."""


class UnknownBroker(RefusedCommand):
    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(f"Broker {broker_id} is not registered.")
        self.broker_id = broker_id


class UnknownReplicaSet(RefusedCommand):
    def __init__(self, replica_set_id: ReplicaSetId) -> None:
        super().__init__(f"Replica set {replica_set_id} does not exist.")
        self.replica_set_id = replica_set_id


class NoReassignment(RefusedCommand):
    def __init__(self, replica_set_id: ReplicaSetId) -> None:
        super().__init__(
            f"No reassignment of replica set {replica_set_id} is under way, or it was cancelled."
        )
        self.replica_set_id = replica_set_id


class StaleLeaderEpoch(RefusedCommand):
    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"Leader epoch {asked} is not the current one, which is {current}.")
        self.asked = asked
        self.current = current


class StaleSyncStateSet(RefusedCommand):
    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"Sync-state set epoch {asked} was overtaken by {current}.")
        self.asked = asked
        self.current = current


class BrokerIdTaken(RefusedCommand):
    def __init__(self, broker_id: BrokerId) -> None:
        super().__init__(
            f"Broker id {broker_id} belongs to another data directory: give this one an id of its"
            " own, or let an operator forget the old identity if those disks are lost."
        )
        self.broker_id = broker_id


class NotReplica(RefusedCommand):
    def __init__(self, broker_id: BrokerId, replica_set_id: ReplicaSetId) -> None:
        super().__init__(f"Broker {broker_id} is not a member of replica set {replica_set_id}.")
        self.broker_id = broker_id
        self.replica_set_id = replica_set_id


class NoEligibleMaster(RefusedCommand):
    def __init__(self, replica_set_id: ReplicaSetId, reason: str) -> None:
        super().__init__(f"Replica set {replica_set_id} has nobody to elect: {reason}.")
        self.replica_set_id = replica_set_id
        self.reason = reason


class TransferFailed(RefusedCommand):
    def __init__(self, replica_set_id: ReplicaSetId, reason: str) -> None:
        super().__init__(
            f"The mastership of replica set {replica_set_id} stays where it is: {reason}."
        )
        self.replica_set_id = replica_set_id
        self.reason = reason


class FeatureLevelTooLow(RefusedCommand):
    """What was asked for can not be written before a feature's level is raised."""

    def __init__(self, feature: str, needed: int, level: int) -> None:
        super().__init__(
            f"This needs {feature} at level {needed}, and the cluster is at {level}: once every"
            " process runs a release that has it, raise the level (penstock cluster upgrade)."
        )
        self.feature = feature
        self.needed = needed
        self.level = level


class FeatureLevelRefused(RefusedCommand):
    """A level that a feature can not be set to."""

    def __init__(self, feature: str, level: int, reason: str) -> None:
        super().__init__(f"{feature} can not be set to level {level}: {reason}.")
        self.feature = feature
        self.level = level
        self.reason = reason


class MalformedCommand(RefusedCommand):
    """Bytes that are no command, answer or error of this release."""


class MetadataUnavailable(MetadataError):
    """The log did not take the command, or its fate is unknown; asking again may help."""


class NotActiveController(MetadataUnavailable):
    def __init__(self, controller_id: PeerId) -> None:
        super().__init__(f"Not the active controller; that is {controller_id} (-1: unknown).")
        self.controller_id = controller_id


class LeadershipLost(NotActiveController):
    """The change was proposed, and whether it is committed is up to the next leader."""

    def __init__(self, controller_id: PeerId) -> None:
        MetadataUnavailable.__init__(
            self,
            "The active controller was replaced while it wrote the change; the change may still"
            " happen.",
        )
        self.controller_id = controller_id


class MetadataTimeout(MetadataUnavailable):
    def __init__(self, waited_ms: int) -> None:
        super().__init__(f"No commit within {waited_ms} ms; the change may still happen.")
        self.waited_ms = waited_ms


class MetadataQueueFull(MetadataUnavailable):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} metadata changes are waiting already; try again later.")
        self.limit = limit


class MetadataLogFull(MetadataUnavailable):
    """The disk has no room for the entry; nothing was changed. Free space and try again."""


class MetadataLogFenced(MetadataUnavailable):
    """The log can not be trusted to take writes any more until the node is restarted."""


class CorruptMetadata(MetadataError):
    """Bytes of the metadata log or snapshot that can not be what was written."""


class UnsupportedMetadata(MetadataError):
    """A record kind or version that this release does not know; a newer one wrote it."""
