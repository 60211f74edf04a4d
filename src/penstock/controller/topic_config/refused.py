"""Topic configurations that Kafka has and Penstock refuses, each with the reason a user reads.

Accepting such a key and ignoring it would let somebody rely on what does not happen.

Source: Kafka TopicConfig, the keys of 4.x and the ones 4.0 took away. What is in neither table is
an unknown key.
"""

from collections.abc import Mapping
from types import MappingProxyType

_SHARED_LOG = (
    "has no effect in Penstock: all partitions of a replica set share one commit log, whose"
    " segments are a setting of the node; leave it out"
)
_FLUSH = (
    "has no effect in Penstock: the flush policy is a setting of the node, and by default every"
    " acknowledged write is on stable storage; leave it out"
)
_COMPACTION = "compaction is not available in this release; leave it out"
_TIER = "tiered storage is not available in this release; leave it out"
_THROTTLE = "replication throttling is not available in this release; leave it out"
_LEVEL = "the level of a codec can not be chosen; leave it out"
_GONE = "Kafka 4.0 took this key away as well; leave it out"

REFUSED_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "segment.bytes": _SHARED_LOG,
        "segment.ms": _SHARED_LOG,
        "segment.jitter.ms": _SHARED_LOG,
        "segment.index.bytes": _SHARED_LOG,
        "index.interval.bytes": _SHARED_LOG,
        "file.delete.delay.ms": _SHARED_LOG,
        "preallocate": _SHARED_LOG,
        "flush.messages": _FLUSH,
        "flush.ms": _FLUSH,
        "delete.retention.ms": _COMPACTION,
        "min.compaction.lag.ms": _COMPACTION,
        "max.compaction.lag.ms": _COMPACTION,
        "min.cleanable.dirty.ratio": _COMPACTION,
        "remote.storage.enable": _TIER,
        "remote.log.copy.disable": _TIER,
        "remote.log.delete.on.disable": _TIER,
        "local.retention.ms": _TIER,
        "local.retention.bytes": _TIER,
        "leader.replication.throttled.replicas": _THROTTLE,
        "follower.replication.throttled.replicas": _THROTTLE,
        "compression.gzip.level": _LEVEL,
        "compression.lz4.level": _LEVEL,
        "compression.zstd.level": _LEVEL,
        "unclean.leader.election.enable": (
            "whether a member that lacks records may become master is decided for each replica"
            " set, by `penstock set unclean`; leave it out"
        ),
        "message.format.version": _GONE,
        "message.downconversion.enable": _GONE,
        "message.timestamp.difference.max.ms": _GONE,
    }
)
