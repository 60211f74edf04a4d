"""The identities of the platform, one type each.

`offset` counts records of one partition; `position` counts bytes of one commit log. Both are
int64. Offsets that name an end (log end offset, high watermark) are exclusive, offsets that name a
start (log start offset, base offset) are inclusive; the same holds for positions.

Source: names as in Kafka (offset, leader epoch) and RocketMQ (physical offset = our position).
These are annotations only: nothing is wrapped at run time.
"""

from typing import NamedTuple, NewType

TopicId = NewType("TopicId", bytes)
"""16 bytes, the big-endian form of a UUID; never changes and is never reused."""

Offset = NewType("Offset", int)
Position = NewType("Position", int)
LeaderEpoch = NewType("LeaderEpoch", int)
"""int32; grows by one with every mastership of a replica set. -1 means none."""

BrokerId = NewType("BrokerId", int)
ReplicaId = NewType("ReplicaId", int)
ReplicaSetId = NewType("ReplicaSetId", int)
ProducerId = NewType("ProducerId", int)


class TopicPartition(NamedTuple):
    """One partition of one topic, by id: unlike names, ids are never reused."""

    topic_id: TopicId
    partition: int
