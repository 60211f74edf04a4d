"""How fast can librdkafka read what was just written, and what does each GB cost the broker?

The records are in the page cache. With many partitions their batches lie interleaved in the shared
log, which is what such a read costs more for.
"""

from typing import NamedTuple

from benchmarks import RESULTS
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from benchmarks.parts.topics import temporary_topic
from harness.node import NodeProcess
from harness.results import median, publish

GOAL = "CPU s/GB <= 0.30 with 1 partition, <= 0.60 with 100"
CASES = (
    (1024, 16_384, 1),
    (1024, 262_144, 1),
    (1024, 1_000_000, 1),
    (100, 16_384, 1),
    (100, 1_000_000, 1),
    (1024, 16_384, 12),
    (1024, 16_384, 100),
)


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"consume left out: {reason}")
        return
    total, rounds = (200_000_000, 3) if quick else (1_000_000_000, 5)
    with temporary_node(PAGE_CACHE) as node:
        rows = [_row(node, case, total, rounds) for case in CASES]
    publish(RESULTS, "consume", rows, goal=GOAL)


class ConsumeCost(NamedTuple):
    """What one run of it showed."""

    megabytes_per_second: float
    broker_cpu_per_gb: float
    client_cpu_per_gb: float


def measure(
    broker: Broker, case: tuple[int, int, int], *, total: int, rounds: int
) -> list[ConsumeCost]:
    """Fill a topic once, then read all of it `rounds` times."""
    value_bytes, batch_bytes, partitions = case
    with temporary_topic(broker.bootstrap, partitions) as topic:
        how = (partitions, value_bytes, batch_bytes, "none", "1", total)
        written = librdkafka("produce", broker.bootstrap, topic, *how)
        return [_read(broker, topic, partitions, written["bytes"]) for _ in range(rounds)]


def _read(broker: Broker, topic: str, partitions: int, total: int) -> ConsumeCost:
    before = broker.cpu_seconds()
    read = librdkafka("consume", broker.bootstrap, topic, partitions, total)
    gigabytes = read["bytes"] / 1e9
    return ConsumeCost(
        read["bytes"] / 1e6 / read["seconds"],
        (broker.cpu_seconds() - before) / gigabytes,
        read["client_cpu"] / gigabytes,
    )


def _row(
    node: NodeProcess, case: tuple[int, int, int], total: int, rounds: int
) -> dict[str, object]:
    scaled = total // 4 if case[0] < 1000 else total
    costs = measure(node, case, total=scaled, rounds=rounds)
    speeds = [cost.megabytes_per_second for cost in costs]
    return {
        "value B": case[0],
        "batch B": case[1],
        "partitions": case[2],
        "MB/s": median(speeds),
        "min": min(speeds),
        "max": max(speeds),
        "broker CPU s/GB": median([cost.broker_cpu_per_gb for cost in costs]),
        "client CPU s/GB": median([cost.client_cpu_per_gb for cost in costs]),
    }
