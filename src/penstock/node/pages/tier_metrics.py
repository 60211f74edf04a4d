"""The metrics of the tier: what this node copies, and what the sets that it leads have there."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.base.ids import ReplicaSetId
from penstock.broker.tier.view import TierView
from penstock.replica.replica_set import ReplicaSetMember, Role
from penstock.tier.copies.counters import CopyCounters
from penstock.tier.metadata.objects import State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.read.counters import ReadCounters

COUNTERS = {
    "objects": "Objects that this node has put into the store.",
    "object_bytes": "Bytes of these objects.",
    "failures": "Requests to the store, and to the tier's metadata, that failed; each is repeated.",
    "deleted": "Objects that this node has deleted from the store.",
    "merges": "Objects that this node has put in place of several small ones.",
    "merged_runs": "Ranges of partitions in objects whose place these have taken.",
    "merge_failures": "Merges that were given up; what they were to merge stays as it is.",
}

READ_COUNTERS = {
    "reads": "Reads for clients of what only the store has.",
    "read_bytes": "Bytes of the records that they gave.",
    "read_failures": "Tries of such reads that failed, or gave bytes that are not believed.",
    "reads_refused": "Such reads that were put off because a bound was reached.",
    "freed": "How often the local start of a partition rose, so that disks could be freed.",
}

GAUGES = {
    "live_objects": "Objects in the store that have records which are kept.",
    "live_bytes": "Bytes of these objects.",
    "leaving_objects": "Objects that are under way, or are to be deleted.",
    "runs": "Ranges of partitions in the live objects; ids are refused at 100,000.",
    "waiting_bytes": "Records in files of the second level that are to be copied, and are not yet.",
}


def tier_metrics(
    members: Mapping[ReplicaSetId, ReplicaSetMember], tier: TierView | None
) -> Iterator[Metric]:
    """Yield what was copied, and for each set that is led here what the tier has of it."""
    counters = CopyCounters() if tier is None else tier.counters
    for name, text in COUNTERS.items():
        value = getattr(counters, name)
        yield CounterMetricFamily(f"penstock_tier_{name}", text, value=value)
    reads = ReadCounters() if tier is None else tier.reads.counters
    for name, text in READ_COUNTERS.items():
        value = getattr(reads, name)
        yield CounterMetricFamily(f"penstock_tier_{name}", text, value=value)
    yield GaugeMetricFamily(
        "penstock_tier_reads_open",
        "Reads for clients of what only the store has that are in progress, or wait.",
        value=0 if tier is None else tier.reads.open_count,
    )
    gauges = {
        name: GaugeMetricFamily(f"penstock_tier_{name}", text, labels=["replica_set"])
        for name, text in GAUGES.items()
    }
    for set_id, member in members.items():
        metadata = None if tier is None else tier.metadata_of(set_id)
        if tier is not None and member.role is Role.MASTER and metadata is not None:
            values = (*_of(metadata), tier.waiting_bytes(member))
            for gauge, value in zip(gauges.values(), values, strict=True):
                gauge.add_metric([str(set_id)], value)
    yield from gauges.values()


def _of(metadata: TierMetadata) -> tuple[int, int, int, int]:
    live = [row for row in metadata.objects.rows.values() if row.state is State.LIVE]
    leaving = len(metadata.objects.rows) - len(live)
    return len(live), sum(row.object_bytes for row in live), leaving, metadata.run_count
