"""Can a topic keep records as an archive has them? Otherwise nothing is written.

    partitions                 with --same-partitions it has as many as the archive
    message.timestamp.type     LogAppendTime would replace the times
    retention.ms               what is older would go at the next pass of retention

Source: docs/adr/0164.
"""

from penstock.archive.errors import ReplayRefused
from penstock.archive.manifest import Manifest
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.delivery import ProduceOptions

TRANSACTION_TIMEOUT_MS = 120_000
"""A replay that died holds up readers of committed records for so long at the most."""
ZSTD = 4


def produce_options(
    cluster: Cluster, manifest: Manifest, topic: str, transactional_id: str, *, is_same: bool
) -> ProduceOptions:
    """Return how to write to the target. Raises ReplayRefused, TopicNotFound, ClientErrors."""
    count = len(cluster.topic(topic).partitions)
    needed = max(manifest.parts, default=-1) + 1
    if is_same and count < needed:
        raise ReplayRefused(
            f"topic {topic} has {count} partitions, and the archive {needed}:"
            f" penstock topic alter {topic} --partitions {needed}, or leave out --same-partitions"
        )
    configs = {entry.name: entry.value for entry in Admin(cluster).describe_configs(topic)}
    if configs.get("message.timestamp.type") == "LogAppendTime":
        raise ReplayRefused(
            f"topic {topic} would replace the times of the records: penstock config set topic"
            f" {topic} message.timestamp.type=CreateTime"
        )
    default = ProduceOptions()
    limit = int(configs.get("max.message.bytes") or default.batch_bytes_max)
    return ProduceOptions(
        codec=ZSTD,
        batch_bytes_max=min(default.batch_bytes_max, limit),
        record_bytes_max=limit,
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )


def check_retention(cluster: Cluster, topic: str, oldest_ms: int, now_ms: int) -> None:
    """Raise ReplayRefused if the topic would delete a record of that time by its age."""
    configs = {entry.name: entry.value for entry in Admin(cluster).describe_configs(topic)}
    retention_ms = int(configs.get("retention.ms") or -1)
    is_deleting = "delete" in (configs.get("cleanup.policy") or "delete")
    if is_deleting and 0 <= retention_ms < now_ms - oldest_ms:
        raise ReplayRefused(
            f"topic {topic} keeps records for {retention_ms} ms, and the oldest of these are"
            f" older: it would delete them at once; penstock config set topic {topic}"
            " retention.ms=-1"
        )
