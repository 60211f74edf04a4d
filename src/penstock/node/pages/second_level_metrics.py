"""The metrics of the second level and of the housekeeper that makes its files."""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.base.ids import ReplicaSetId
from penstock.broker.sets.cleanings import Cleanings, CleaningStats
from penstock.broker.sets.extent_repairs import ExtentRepairs, RepairStats
from penstock.broker.sets.housekeeping import Housekeeping
from penstock.broker.sets.shrinkings import ShrinkStats
from penstock.broker.sets.splits import SplitStats
from penstock.replica.replica_set import ReplicaSetMember

GAUGES = {
    "files": "Files of records sorted by partition, behind the shared files of a log.",
    "bytes": "Size of these files.",
    "needed_bytes": "Of them, what something in retention needs; the rest is freed in time.",
    "backlog_bytes": "Records that are due to be moved there, when retention last looked.",
}

COUNTERS = {
    "files": "Files that the housekeeper has made, and that were taken over.",
    "bytes": "Records in them.",
    "failures": "Files that could not be made or taken over; each is tried again.",
}

SHRINKINGS = {
    "files": "Files that were written anew without what nothing needs any more.",
    "copied_bytes": "Records that were copied for it.",
    "freed_bytes": "Bytes by which the files became smaller.",
    "failures": "Files that could not be written anew; each is tried again.",
}

REPAIRS = {
    "found": "Files of the second level in which damage was found.",
    "repaired": "Damaged files that were written anew, with the help of other members.",
    "ranges": "Ranges of compacted partitions that were taken over from another member's cleaning.",
    "failures": "Attempts that failed: each file is tried again.",
    "fetched_bytes": "Batches from other members in files that were repaired.",
}


CLEANER_COUNTERS = {
    "passes": "Passes over a compacted partition whose result was taken over.",
    "read_bytes": "Records that these have read.",
    "kept_bytes": "Of them, what is left.",
    "dropped_records": "Records that they have dropped.",
    "failures": "Passes that failed; the partition is set aside, and tried again.",
}

CLEANER_GAUGES = {
    "failing_partitions": "Compacted partitions whose last pass failed: they keep old records.",
    "dirty_bytes": "Records of compacted partitions that a pass could clean.",
    "oldest_dirty_seconds": "Age of the oldest record that a pass could clean.",
}


def second_level_metrics(
    members: Mapping[ReplicaSetId, ReplicaSetMember], housekeeping: Housekeeping
) -> Iterator[Metric]:
    """Yield what logs have in their second levels, and how the housekeeper gets on."""
    gauges = {
        name: GaugeMetricFamily(f"penstock_second_level_{name}", text, labels=["replica_set"])
        for name, text in GAUGES.items()
    }
    for set_id, member in members.items():
        splitting = member.log.splitting
        needed_bytes = splitting.shrinking.held_bytes
        values = splitting.file_count, splitting.file_bytes, needed_bytes, splitting.backlog_bytes
        for name, value in zip(gauges, values, strict=True):
            gauges[name].add_metric([str(set_id)], value)
    yield from gauges.values()
    splits, pacing = housekeeping.splits, housekeeping.pacing
    stats = SplitStats() if splits is None else splits.stats
    for name, text in COUNTERS.items():
        yield CounterMetricFamily(f"penstock_housekeeper_{name}", text, value=getattr(stats, name))
    yield CounterMetricFamily(
        "penstock_housekeeper_starts",
        "Times the housekeeper's process was started.",
        value=0 if splits is None else splits.starts,
    )
    yield GaugeMetricFamily(
        "penstock_housekeeper_bytes_per_second",
        "How fast the housekeeper may read and write at present; 0: no bound, or there is none.",
        0 if pacing is None else pacing.bytes_per_second,
    )
    yield GaugeMetricFamily(
        "penstock_housekeeper_failing_logs",
        "Logs whose last file could not be made or shrunk: they keep what could be deleted.",
        0 if splits is None else splits.failing_count,
    )
    shrunk = ShrinkStats() if splits is None else splits.shrinkings.stats
    for name, text in SHRINKINGS.items():
        value = getattr(shrunk, name)
        yield CounterMetricFamily(f"penstock_second_level_shrunk_{name}", text, value=value)
    yield from _cleaner_metrics(None if splits is None else splits.cleanings)


def _cleaner_metrics(cleanings: Cleanings | None) -> Iterator[Metric]:
    stats = CleaningStats() if cleanings is None else cleanings.stats
    for name, text in CLEANER_COUNTERS.items():
        yield CounterMetricFamily(f"penstock_cleaner_{name}", text, value=getattr(stats, name))
    values: tuple[float, ...] = (0, 0, 0)
    if cleanings is not None:
        values = cleanings.failing_count, cleanings.dirty_bytes, cleanings.oldest_dirty_seconds
    for (name, text), value in zip(CLEANER_GAUGES.items(), values, strict=True):
        yield GaugeMetricFamily(f"penstock_cleaner_{name}", text, value)


def repair_metrics(
    members: Mapping[ReplicaSetId, ReplicaSetMember], repairs: ExtentRepairs | None
) -> Iterator[Metric]:
    """Yield how many files are damaged now, and what became of those that were."""
    damaged = GaugeMetricFamily(
        "penstock_second_level_damaged_files",
        "Files that are known to be damaged and are not repaired: what is damaged is not served.",
        labels=["replica_set"],
    )
    for set_id, member in members.items():
        damaged.add_metric([str(set_id)], len(member.log.splitting.damage.files))
    yield damaged
    stats = RepairStats() if repairs is None else repairs.stats
    for name, text in REPAIRS.items():
        value = getattr(stats, name)
        yield CounterMetricFamily(f"penstock_second_level_damage_{name}", text, value=value)
