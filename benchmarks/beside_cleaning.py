"""How much longer do producers wait while a compacted topic is cleaned?

Single records of 1 KiB on an open schedule to a topic of their own: quiet, and again while the
housekeeper moves and cleans another topic of the same node, in turns. Once at its default rate,
where it gives way to the node's syncs, and once as fast as it can be. A round counts only if the
housekeeper was at work until its end.
"""

import os
import time
from typing import Final, NamedTuple

from benchmarks import RESULTS
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import FSYNC, PAGE_CACHE, merged, temporary_node
from benchmarks.parts.processes import children_of, io_bytes
from benchmarks.parts.second_level import (
    CLEANING,
    COMPACTED,
    FILLER_BYTES,
    LOADED,
    UNBOUND,
    NotCleaned,
    metrics_of,
)
from benchmarks.parts.topics import temporary_topic
from harness.node import NodeProcess, SettingsOf
from harness.results import median, publish
from harness.waiting import wait_until
from penstock.client.admin import Admin
from penstock.client.cluster import Cluster
from penstock.client.settings import ClientSettings

GOAL: Final = "p99 beside cleaning <= 1.5 x quiet"
VALUE_BYTES: Final = 1024
PER_SECOND: Final = 1_000
KEYS: Final = 100_000
BEGIN_SECONDS: Final = 60.0
LOAD_SECONDS: Final = 300.0


class Case(NamedTuple):
    """A node, and how much there is to be cleaned in each round: more than it does in its time."""

    durable_in: str
    rate: str
    settings: tuple[SettingsOf, ...]
    dirty_bytes: int


CASES: Final = (
    Case("page cache", "default", (PAGE_CACHE, CLEANING), 512 << 20),
    Case("page cache", "no bound", (PAGE_CACHE, CLEANING, UNBOUND), 3 << 30),
    Case("fsync", "default", (FSYNC, CLEANING), 512 << 20),
    Case("fsync", "no bound", (FSYNC, CLEANING, UNBOUND), 3 << 30),
)


class Turn(NamedTuple):
    """What one round showed; latencies as the C client tells them."""

    quiet: dict[str, float]
    beside: dict[str, float]
    housekeeper_speed: float
    """What it read and wrote, in MB/s."""


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"beside_cleaning left out: {reason}")
        return
    rounds, seconds = (3, 3) if quick else (5, 5)
    publish(
        RESULTS, "beside_cleaning", [measured(case, rounds, seconds) for case in CASES], goal=GOAL
    )


def measured(case: Case, rounds: int, seconds: int) -> dict[str, object]:
    """Return the row of a case: medians of the rounds, each on topics of its own."""
    with temporary_node(merged(*case.settings)) as node:
        turns = [_turn(node, case.dirty_bytes, seconds) for _ in range(rounds)]
    ratios = [one.beside["p99"] / one.quiet["p99"] for one in turns]
    return {
        "durable in": case.durable_in,
        "rate": case.rate,
        "quiet p50 us": median([one.quiet["p50"] for one in turns]),
        "quiet p99 us": median([one.quiet["p99"] for one in turns]),
        "beside p50 us": median([one.beside["p50"] for one in turns]),
        "beside p99 us": median([one.beside["p99"] for one in turns]),
        "p99 ratio": median(ratios),
        "from": min(ratios),
        "to": max(ratios),
        "housekeeper MB/s": median([one.housekeeper_speed for one in turns]),
    }


def _turn(node: NodeProcess, dirty_bytes: int, seconds: int) -> Turn:
    with (
        temporary_topic(node.bootstrap, config=dict(LOADED)) as cleaned,
        temporary_topic(node.bootstrap) as behind,
        temporary_topic(node.bootstrap) as own,
        Cluster(ClientSettings(bootstrap=node.bootstrap)) as cluster,
    ):
        _fill(node, cleaned, dirty_bytes)
        _fill(node, behind, FILLER_BYTES)
        os.sync()  # what is still to be written would be measured as quiet
        quiet = _latency(node, own, seconds)
        Admin(cluster).alter_configs(cleaned, set_to=COMPACTED)
        if not wait_until(lambda: _is_at_work(node), BEGIN_SECONDS, every_seconds=0.1):
            raise NotCleaned(f"the housekeeper did not begin in {BEGIN_SECONDS:.0f} s")
        moved, begun = _housekeeper_bytes(node), time.perf_counter()
        beside = _latency(node, own, seconds)
        took, moved = time.perf_counter() - begun, _housekeeper_bytes(node) - moved
        if not _is_at_work(node):
            raise NotCleaned(f"{dirty_bytes:,} bytes were cleaned before the time was over")
    return Turn(quiet, beside, moved / 1e6 / took)


def _fill(node: NodeProcess, topic: str, total: int) -> None:
    how = (1, VALUE_BYTES, 262_144, "none", "1", total, LOAD_SECONDS, KEYS, 0)
    librdkafka("produce", node.bootstrap, topic, *how)


def _latency(node: NodeProcess, topic: str, seconds: int) -> dict[str, float]:
    acks = "all"
    return librdkafka("latency", node.bootstrap, topic, VALUE_BYTES, PER_SECOND, seconds, acks)


def _is_at_work(node: NodeProcess) -> bool:
    """Whether there is a housekeeper, and something for it to do."""
    present = metrics_of(node.metrics_port)
    left = ("penstock_second_level_backlog_bytes", "penstock_cleaner_dirty_bytes")
    return bool(children_of(node.pid)) and any(present[name] for name in left)


def _housekeeper_bytes(node: NodeProcess) -> int:
    """Return what it has read and written, from the page cache or from the disk."""
    pids = children_of(node.pid)
    return io_bytes(pids, "rchar") + io_bytes(pids, "wchar")
