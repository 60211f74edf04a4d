"""What does acks=all over three nodes cost, in throughput and in waiting?

Three nodes on one machine with two cores, so that everything competes: the client, the master, both
slaves and their disks, which are one. CPU seconds per GB, of all three nodes together, carry over.
librdkafka; latency by open loop, as in `latency`.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import RESULTS
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import FSYNC, PAGE_CACHE
from benchmarks.parts.topics import temporary_topic
from harness.cluster import ClusterProcess
from harness.results import median, publish

GOAL = "latency at 5,000/s: page cache p50 <= 0.4, p99 <= 0.8 ms; fsync p50 <= 1, p99 <= 3 ms"
RATE = 5_000
VALUE_BYTES = 1024
BATCHES = {"16 KiB": 16_384, "256 KiB": 262_144}


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"replicated left out: {reason}")
        return
    rounds, seconds, total = (3, 5, 200_000_000) if quick else (5, 15, 500_000_000)
    speeds, waits = [], []
    for durable_in, settings in (("page cache", PAGE_CACHE), ("fsync", FSYNC)):
        with (
            tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
            ClusterProcess(Path(directory), settings=settings) as cluster,
        ):
            for batch in BATCHES:
                _produce(cluster, batch, total)
                runs = [_produce(cluster, batch, total) for _ in range(rounds)]
                speeds.append(_speed_row(durable_in, batch, runs))
            taken = [_latency(cluster, seconds) for _ in range(rounds)]
            waits.append(_latency_row(durable_in, taken))
    publish(RESULTS, "replicated", [*speeds, *waits], goal=GOAL)


def _cpu_seconds(cluster: ClusterProcess) -> float:
    return sum(node.cpu_seconds() for node in cluster.nodes.values())


def _produce(cluster: ClusterProcess, batch: str, total: int) -> tuple[float, float]:
    """Return MB/s and the three nodes' CPU seconds per GB."""
    with temporary_topic(cluster.bootstrap) as topic:
        before = _cpu_seconds(cluster)
        how = (1, VALUE_BYTES, BATCHES[batch], "none", "all", total)
        client = librdkafka("produce", cluster.bootstrap, topic, *how)
        cpu = _cpu_seconds(cluster) - before
    return client["bytes"] / 1e6 / client["seconds"], cpu / (client["bytes"] / 1e9)


def _latency(cluster: ClusterProcess, seconds: int) -> dict[str, Any]:
    with temporary_topic(cluster.bootstrap) as topic:
        return librdkafka("latency", cluster.bootstrap, topic, VALUE_BYTES, RATE, seconds, "all")


def _speed_row(durable_in: str, batch: str, runs: list[tuple[float, float]]) -> dict[str, object]:
    return {
        "measured": f"produce, {batch}",
        "durable in": durable_in,
        "MB/s": median([speed for speed, _ in runs]),
        "min": min(speed for speed, _ in runs),
        "max": max(speed for speed, _ in runs),
        "CPU s/GB, 3 nodes": median([cpu for _, cpu in runs]),
    }


def _latency_row(durable_in: str, runs: list[dict[str, Any]]) -> dict[str, object]:
    return {
        "measured": f"latency at {RATE}/s",
        "durable in": durable_in,
        "p50 us": median([one["p50"] for one in runs]),
        "p99 us": median([one["p99"] for one in runs]),
        "p99.9 us": median([one["p999"] for one in runs]),
    }
