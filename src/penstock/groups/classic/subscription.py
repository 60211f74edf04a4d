"""The topics a consumer subscribes to, read from its join metadata.

The coordinator treats member metadata as opaque, with two exceptions: offsets of a topic that a
member subscribes to must not be deleted, and a static member that comes back with other topics
needs a rebalance. Only the first fields are read; what follows depends on the version.

Source: Kafka, ConsumerProtocolSubscription.json (version int16, topics array of strings, ...);
KIP-496 for OffsetDelete.
"""

from collections.abc import Sequence

from penstock.coordinator import wire
from penstock.coordinator.errors import MalformedRecord
from penstock.groups.classic.member import Member

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics in one member's metadata; None if it cannot be decoded."""
    reader = wire.Reader(metadata)
    try:
        if reader.int16() < 0:
            return None
        count = reader.int32()
        if not 0 <= 2 * count <= len(metadata):
            return None
        return frozenset(reader.string() for _ in range(count))
    except MalformedRecord:
        return None


def topics_of_group(
    members: Sequence[Member], protocol_type: str | None, protocol_name: str | None
) -> frozenset[str] | None:
    """Return the topics that the members subscribe to; None if that is unknown."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: frozenset[str] = frozenset()
    for member in members:
        own = subscribed_topics(member.metadata_for(protocol_name))
        if own is None:
            return None
        topics |= own
    return topics
