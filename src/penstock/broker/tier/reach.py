"""From where on a partition can be read: its own log, and below that what only the tier has.

    log start .............. local start .............. log end
       the tier alone           the log of each member

The log of a member begins at the local start (PartitionView.log_start_offset). A topic with local
limits may reach further back: as far as the tier does, where that and the log have no gap between
them. The master alone knows it, once the tier's metadata is loaded and fenced.

Source: KIP-405 (`logStartOffset`, `localLogStartOffset`); docs/adr/0124.
"""

from penstock.base.ids import Offset
from penstock.broker.errors import TierUnavailable
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.view import TierView
from penstock.replica.replica_set import Role
from penstock.tier import retention

NOT_KNOWN = "what the tier has of the partition is not known yet"
NO_STORE = "this node has no tier.url"


def is_tiered(hosted: HostedPartition) -> bool:
    """Whether the partition may have records in the tier alone."""
    return hosted.topic.local is not None


def first_offset(hosted: HostedPartition, tier: TierView | None) -> Offset | None:
    """Return the log start; None: nobody here knows it yet. A slave tells its own log's."""
    own = hosted.log.log_start_offset
    if not is_tiered(hosted) or hosted.member.role is not Role.MASTER:
        return own
    manifest = None if tier is None else tier.manifest(hosted.member, hosted.log.topic_partition)
    return None if manifest is None else Offset(retention.first_offset(manifest, own))


def told_first_offset(hosted: HostedPartition, tier: TierView | None) -> Offset:
    """Return the log start for clients that only look at it; the local one if it is not known."""
    found = first_offset(hosted, tier)
    return hosted.log.log_start_offset if found is None else found


def known_first_offset(hosted: HostedPartition, tier: TierView | None) -> Offset:
    """Return the log start. Raises TierUnavailable: it is not known yet; the client asks again."""
    found = first_offset(hosted, tier)
    if found is None:
        raise TierUnavailable(NO_STORE if tier is None else NOT_KNOWN)
    return found
