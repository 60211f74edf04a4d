"""What the tier has of a partition, for readers that read the store themselves.

Runs from an offset on, a bounded number of them: whoever wants more asks again, from the end of the
last one. What is told may be used for as long as the lease: objects that go after that stay in the
store for longer (`tier.grace_ms`).

Source: docs/adr/0154; KIP-1254 has brokers tell consumers in the answer of a fetch.
"""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import told_first_offset
from penstock.broker.tier.standing import is_remote
from penstock.tier.metadata.manifest import Run

RUNS_TOLD_MAX = 500
"""Of one answer: 70 KB, and less than a ms to encode."""


class ToldTier(NamedTuple):
    """A partition in the tier, as no failover can undo it."""

    start_offset: int
    """Inclusive; what the tier has below it was deleted, or counts no more."""
    end_offset: int
    runs: Sequence[Run]


def is_to_be_copied(broker: Broker, hosted: HostedPartition) -> bool:
    """Whether this node copies the partition, or will once it knows what the tier has."""
    image = broker.metadata.topics_by_id.get(hosted.topic.topic_id)
    return broker.tier is not None and image is not None and is_remote(image)


def told_tier(
    broker: Broker, hosted: HostedPartition, offset: int, runs_max: int
) -> ToldTier | None:
    """Return what the tier has from `offset` on; None: it has nothing, or it is not known."""
    tier, key = broker.tier, hosted.log.topic_partition
    manifest = None if tier is None else tier.manifest(hosted.member, key)
    if manifest is None:
        return None
    start = max(manifest.start_offset, told_first_offset(hosted, tier))
    runs = islice(manifest.runs_from(max(start, offset)), runs_max)
    return ToldTier(start, manifest.end_offset, tuple(runs))
