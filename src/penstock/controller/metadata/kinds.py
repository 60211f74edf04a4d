"""Numbers of the kinds of metadata records, and of resources with configuration.

Source: KIP-631 (a type for each record); Kafka's ConfigResource types, whose numbers
are taken as they are. It does not say what a record holds: that is records.py.
"""

from enum import IntEnum

CARRIED_KIND_MIN = 1 << 15
"""Kinds from here on may be carried: a release that does not know one keeps the record by its key,
and does not stop. For records that do not affect the behaviour of releases without them."""


class RecordKind(IntEnum):
    """The `kind` field of the envelope. Numbers are permanent: never reuse one."""

    CLUSTER_CREATED = 1
    BROKER_REGISTERED = 2
    REPLICA_SET_CREATED = 3
    MASTERSHIP_BEGUN = 4
    SYNC_STATE_SET_CHANGED = 5
    TOPIC_CREATED = 6
    PARTITIONS_ADDED = 7
    TOPIC_DELETED = 8
    CONFIG_CHANGED = 9
    PRODUCER_ID_BLOCK_ALLOCATED = 10
    BROKER_FENCED = 11
    BROKER_DRAINED = 12
    BROKER_REMOVED = 13
    REPLICA_REGISTERED = 14
    REPLICAS_CHANGED = 15
    ACK_POLICY_CHANGED = 16
    UNCLEAN_ELECTION_CHANGED = 17
    DEFAULT_POLICY_CHANGED = 18
    FAILOVER_CHANGED = 19
    COPIES_FLOOR_CHANGED = 20
    FEATURE_LEVEL_CHANGED = 21
    CLIENT_QUOTA_CHANGED = 22
    SCRAM_CREDENTIAL_CHANGED = 23
    SCRAM_CREDENTIAL_REMOVED = 24
    ACL_ADDED = 25
    ACL_REMOVED = 26
    DELEGATION_TOKEN_CHANGED = 27
    DELEGATION_TOKEN_REMOVED = 28
    COPIES_GIVEN_UP = 29
    REASSIGNMENT_CHANGED = 32768
    LOGIN_SECRET_CHOSEN = 32769
    BROKER_EPOCH_REACHED = 32770


class ResourceType(IntEnum):
    """Types of resources with configuration, with the numbers of Kafka's ConfigResource."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


KEPT_RESOURCES = frozenset({ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP})
"""Resources other than topics whose configuration is in the log. A broker without a name is the
default of all brokers. Levels of loggers belong to a process and are not in the log."""
