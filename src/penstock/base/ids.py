"""The identities of the platform, one type each.

`offset` counts records of one partition; `position` counts bytes of one commit log. Both are
int64. Offsets that name an end (log end offset, high watermark) are exclusive, offsets that name a
start (log start offset, base offset) are inclusive; the same holds for positions.

Source: names as in Kafka (offset, leader epoch) and RocketMQ (physical offset = our position).
These are annotations only: nothing is wrapped at run time.
"""

from typing import NamedTuple, NewType, TypeAlias

TopicId = NewType("TopicId", bytes)
"""16 bytes, the big-endian form of a UUID; never changes and is never reused."""

Offset = NewType("Offset", int)
Position = NewType("Position", int)
NO_OFFSET = Offset(-1)
"""Instead of an offset: none."""
LeaderEpoch = NewType("LeaderEpoch", int)
"""int32; grows by one with every mastership of a replica set. -1 means none."""
NO_LEADER_EPOCH = LeaderEpoch(-1)
"""Instead of a leader epoch: none, or any."""
EpochStart: TypeAlias = tuple[LeaderEpoch, int]
"""A leader epoch and the first offset of a partition that was written in it."""

PeerId = NewType("PeerId", int)
"""Which member of the metadata log's Raft group; as a broker the process has the same number. -1
means none."""
ControllerEpoch = NewType("ControllerEpoch", int)
"""The metadata log's term while a controller is the active one; grows with each of them."""
BrokerEpoch = NewType("BrokerEpoch", int)
"""Number of a broker's registration; larger than that of every registration before (KIP-631)."""
SyncStateSetEpoch = NewType("SyncStateSetEpoch", int)
"""Counts the changes of a set's sync-state set; the partition epoch of KIP-497."""

BrokerId = NewType("BrokerId", int)
"""Which broker, and so which member of a replica set; -1 means none."""
ReplicaId = NewType("ReplicaId", int)
"""Which log within one replica set: a broker that lost its log gets a new one. -1 means none."""
ReplicaSetId = NewType("ReplicaSetId", int)
PartitionId = NewType("PartitionId", int)
"""Number of a partition within its topic, from 0."""
ProducerId = NewType("ProducerId", int)
"""-1 means none."""
ProducerEpoch = NewType("ProducerEpoch", int)
"""int16; grows each time a producer id is given out again, which fences the holder before."""
CoordinatorEpoch = NewType("CoordinatorEpoch", int)
"""Leader epoch of the internal partition that a coordinator's records are in: it fences the
coordinator before. -1 means none."""
NO_COORDINATOR_EPOCH = CoordinatorEpoch(-1)
"""Instead of a coordinator's epoch: none."""
MemberEpoch = NewType("MemberEpoch", int)
"""int32; where a group that the broker assigns stands: of the group, of its target assignment and
of each member, which takes the target's once it has given up the rest (KIP-848). 0 joins, negative
values leave."""
NO_MEMBER_EPOCH = MemberEpoch(-1)
"""Instead of a member's epoch: none."""
TopologyEpoch = NewType("TopologyEpoch", int)
"""int32; the version of the topology that a Streams application has given (KIP-1071)."""

SessionEpoch = NewType("SessionEpoch", int)
"""int32; the number of a request within a fetch session or a share session (KIP-227, KIP-932). 0
opens one, -1 ends it."""

SessionId = NewType("SessionId", int)
"""Number that a broker draws for each session with an active controller; 0 means none."""
RequestId = NewType("RequestId", int)
"""Number of a request within a session's or a controller's own counting; its answer names it."""


class TopicPartition(NamedTuple):
    """One partition of one topic, by id: unlike names, ids are never reused."""

    topic_id: TopicId
    partition: int
