"""How long is a node away after kill -9, with a gigabyte in its active log or 10,000 partitions?

From the start of the process to its first answer. With the default segments only the last of them
is looked through; with one segment of 2 GiB all of the log is in the active one. Over three stores,
partitions have records in the log, in files of the second level, and in an object store.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import RESULTS
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node, with_a_store
from harness.node import NodeProcess, SettingsOf
from harness.results import median, publish
from harness.workload import create_topic
from penstock.client.admin import LATEST, Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings
from penstock.client.tier import tier_part

GOAL = (
    "start after kill -9 with 10,000 partitions <= 5 s, and over three stores <= 2 x that; "
    "first start <= 1 s"
)
BIG_SEGMENT = {"log": {"flush_policy": "async", "segment_bytes": 1 << 31}}
TOPICS = 10
FILL_BYTES = 10**7
COPY_SECONDS = 900.0
PAUSE_SECONDS = 0.5


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"restart left out: {reason}")
        return
    rounds = 3 if quick else 7
    rows = [_log(PAGE_CACHE, "256 MiB segments", size, rounds) for size in (0, 1 << 30)]
    rows += [_log(BIG_SEGMENT, "one 2 GiB segment", size, rounds) for size in (0, 1 << 30)]
    rows += [_partitions(count, rounds) for count in (10, 1000, 10_000)]
    rows += [_three_stores(count, rounds) for count in (10, 10_000)]
    publish(RESULTS, "restart", rows, goal=GOAL)


def _log(settings: SettingsOf, name: str, size: int, rounds: int) -> dict[str, object]:
    with temporary_node(settings) as node:
        create_topic(node.bootstrap, "filled", 1)
        if size:
            librdkafka("produce", node.bootstrap, "filled", 1, 1024, 65_536, "none", "1", size)
        return _row(f"{size >> 20:,} MiB in the log, {name}", node, rounds)


def _partitions(count: int, rounds: int) -> dict[str, object]:
    with temporary_node(PAGE_CACHE) as node:
        for number in range(TOPICS):
            create_topic(node.bootstrap, _topic(number), count // TOPICS)
        _fill(node, count)
        return _row(f"{count:,} partitions", node, rounds)


def _three_stores(count: int, rounds: int) -> dict[str, object]:
    configs = {"remote.storage.enable": "true"}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-store-") as store,
        temporary_node(with_a_store(Path(store))) as node,
        Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster,
    ):
        admin = Admin(cluster)
        for number in range(TOPICS):
            admin.create_topic(_topic(number), partitions=count // TOPICS, configs=configs)
        _fill(node, count)
        _until_copied(cluster, admin, count, lambda: _fill(node, count))
        return _row(f"{count:,} partitions over three stores", node, rounds)


def _until_copied(cluster: Cluster, admin: Admin, count: int, fill: Callable[[], object]) -> None:
    """Write on until all that is there now is in the object store; the newest records never are."""
    partitions = list(range(count // TOPICS))
    wanted = {
        (_topic(number), partition): found.offset
        for number in range(TOPICS)
        for partition, found in admin.list_offsets(_topic(number), LATEST, partitions).items()
    }
    deadline = time.monotonic() + COPY_SECONDS
    while wanted:
        fill()
        time.sleep(PAUSE_SECONDS)
        wanted = {
            (topic, partition): end
            for (topic, partition), end in wanted.items()
            if tier_part(cluster, topic, partition, end).end_offset < end
        }
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(wanted):,} partitions are not in the store")


def _topic(number: int) -> str:
    return f"wide-{number}"


def _fill(node: NodeProcess, count: int) -> None:
    for number in range(TOPICS):
        librdkafka(
            "produce", node.bootstrap, _topic(number), count // TOPICS, 1024, 65_536, "none", "1",
            FILL_BYTES,
        )  # fmt: skip


def _row(case: str, node: NodeProcess, rounds: int) -> dict[str, object]:
    seconds = [node.restart() for _ in range(rounds)]
    return {
        "case": case,
        "seconds": median(seconds),
        "min": min(seconds),
        "max": max(seconds),
    }
