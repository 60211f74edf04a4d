"""How far each partition of a set is copied, and what the next record waits for.

    start ....... local start ....... tier end ............................. log end
     only in the tier     in both       waits: to be put | for a file | for a transaction

Source: ours; Kafka has sums by topic only (RemoteCopyLagBytes, KIP-963).
"""

from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.broker.broker import Broker
from penstock.broker.tier.view import CopyStanding
from penstock.broker.turns import Pace
from penstock.controller.metadata.image import TopicImage
from penstock.controller.topic_config.local import COPY_DISABLE, REMOTE, is_copied
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.commit_log.set_log import kept_bytes
from penstock.storage.index.partition_log import PartitionLog
from penstock.tier import retention
from penstock.tier.metadata.manifest import Manifest, Run

RUNS_TOGETHER = 1_000
"""Runs that are summed up in one step: about 100 us."""

COPIED = "nothing"
UNKNOWN = "the metadata of the set"
NO_STORE = "tier.url of this node"
OFF = "remote.storage.enable"
NOT_COPIED = COPY_DISABLE
LEAVES = "its objects' grace"
TO_BE_PUT = "the store"
NO_FILE = "a file of the second level"
OPEN = "the end of a transaction"
UNCONFIRMED = "other members"


class Standing(NamedTuple):
    """One partition in the tier; what is not known is None. Ends are exclusive."""

    topic: str | None
    """None: the topic was deleted, and the tier still has some of it."""
    topic_id: str
    partition: int
    replica_set: int
    start: int | None
    """Of the partition: what is below was deleted."""
    local_start: int | None
    """Of the disks."""
    tier_start: int | None
    tier_end: int | None
    log_end: int | None
    runs: int
    merged_runs: int
    """Of them, those that took the place of several others."""
    tier_bytes: int
    lag_records: int | None
    lag_bytes: int | None
    """About: of records on the disk that the tier does not have."""
    waits_for: str
    """What the first record that is not copied waits for; one of the texts above."""


async def standings(
    broker: Broker, member: ReplicaSetMember, copying: CopyStanding | None, pace: Pace
) -> AsyncIterator[Standing]:
    """Yield each partition of a set that is led here and that the tier has, or is to have."""
    known = {} if copying is None else copying.manifests
    keys = {*known} | {key for key in member.log.partitions if _is_wanted(broker, key)}
    for key in sorted(keys):
        await pace.step()
        manifest = known.get(key)
        runs: Sequence[Run] = () if manifest is None else list(manifest.runs)
        partition = member.log.partitions.get(key)
        if not runs and (partition is None or not _is_wanted(broker, key)):
            continue  # the tier had something of it, which has gone
        held_from = 0 if partition is None else partition.log_start_offset
        tier_bytes = kept = merged = 0
        for at in range(0, len(runs), RUNS_TOGETHER):
            await pace.step()
            some = list(islice(runs, at, at + RUNS_TOGETHER))
            tier_bytes += sum(run.entry.batch_bytes for run in some)
            kept += sum(run.entry.batch_bytes for run in some if run.first_offset >= held_from)
            merged += sum(run.entry.generation > 0 for run in some)
        yield _standing(broker, member, key, manifest, (len(runs), merged, tier_bytes, kept))


def _is_wanted(broker: Broker, key: TopicPartition) -> bool:
    topic = broker.metadata.topics_by_id.get(key.topic_id)
    return topic is not None and is_remote(topic)


def is_remote(topic: TopicImage) -> bool:
    """Whether a topic is to be copied."""
    return not topic.internal and topic.configs.get(REMOTE) == "true"


def _standing(
    broker: Broker,
    member: ReplicaSetMember,
    key: TopicPartition,
    manifest: Manifest | None,
    sums: tuple[int, int, int, int],
) -> Standing:
    """Return a partition's row.

    `sums`: runs, how many of them were merged, their bytes, and those of them on the disk, too.
    """
    topic, partition = (
        broker.metadata.topics_by_id.get(key.topic_id),
        member.log.partitions.get(key),
    )
    run_count, merged_count, tier_bytes, both_bytes = sums
    has = manifest if manifest is not None and manifest.runs else None
    row = Standing(
        topic=None if topic is None else topic.name,
        topic_id=key.topic_id.hex(),
        partition=key.partition,
        replica_set=int(member.replica_set_id),
        start=None,
        local_start=None,
        tier_start=None if has is None else has.start_offset,
        tier_end=None if has is None else has.end_offset,
        log_end=None,
        runs=run_count,
        merged_runs=merged_count,
        tier_bytes=tier_bytes,
        lag_records=None,
        lag_bytes=None,
        waits_for=LEAVES,
    )
    if topic is None or partition is None:
        return row
    local, log_end = int(partition.log_start_offset), int(partition.log_end_offset)
    row = row._replace(
        start=_start(broker, key, manifest, local),
        local_start=local,
        log_end=log_end,
        waits_for=_reason(broker, member, partition, topic, manifest),
    )
    if manifest is None:
        return row
    behind = max(manifest.end_offset, local)
    lag_bytes = max(kept_bytes(member.log, partition) - both_bytes, 0)
    lag = max(log_end - behind, 0)
    return row._replace(lag_records=lag, lag_bytes=lag_bytes if lag else 0)


def _start(
    broker: Broker, key: TopicPartition, manifest: Manifest | None, local: int
) -> int | None:
    hosted = broker.partitions.by_id.get(key.topic_id)
    if hosted is None or hosted.local is None:
        return local
    return None if manifest is None else retention.first_offset(manifest, local)


def _reason(
    broker: Broker,
    member: ReplicaSetMember,
    partition: PartitionLog,
    topic: TopicImage,
    manifest: Manifest | None,
) -> str:
    if not is_remote(topic):
        return OFF
    if broker.tier is None:
        return NO_STORE
    if manifest is None:
        return UNKNOWN
    end = max(manifest.end_offset, int(partition.log_start_offset))
    if end >= partition.log_end_offset:
        return COPIED
    if not is_copied(topic.configs):
        return NOT_COPIED
    return _reason_at(member, partition, end)


def _reason_at(member: ReplicaSetMember, partition: PartitionLog, offset: int) -> str:
    """Return what stands between a record of the log and the tier."""
    log, key = member.log, partition.topic_partition
    unstable = log.transactions.first_unstable(partition, member.confirm_position)
    stable_end = int(partition.log_end_offset if unstable is None else unstable.offset)
    if log.splitting.copies.waiting({key: offset}, {key: stable_end}):
        return TO_BE_PUT
    if stable_end <= offset:
        return OPEN
    confirmed = member.high_watermark(partition)
    return UNCONFIRMED if confirmed is not None and confirmed <= offset else NO_FILE
