"""How fast can librdkafka read what was just written, and what does each GB cost the broker?

The records are in the page cache. With many partitions their batches lie interleaved in the shared
log, which is what such a read costs more for.
"""

from benchmarks.harness.native import librdkafka, why_not
from benchmarks.harness.node import NodeProcess
from benchmarks.harness.nodes import PAGE_CACHE, temporary_node
from benchmarks.harness.results import median, publish
from benchmarks.harness.topics import temporary_topic

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
    publish("consume", rows, goal=GOAL)


def _row(
    node: NodeProcess, case: tuple[int, int, int], total: int, rounds: int
) -> dict[str, object]:
    value_bytes, batch_bytes, partitions = case
    total = total // 4 if value_bytes < 1000 else total
    speeds, broker_costs, client_costs = [], [], []
    with temporary_topic(node.bootstrap, partitions) as topic:
        written = librdkafka(
            "produce",
            node.bootstrap,
            topic,
            partitions,
            value_bytes,
            batch_bytes,
            "none",
            "1",
            total,
        )
        for _ in range(rounds):
            before = node.cpu_seconds()
            read = librdkafka("consume", node.bootstrap, topic, partitions, written["bytes"])
            gigabytes = read["bytes"] / 1e9
            speeds.append(read["bytes"] / 1e6 / read["seconds"])
            broker_costs.append((node.cpu_seconds() - before) / gigabytes)
            client_costs.append(read["client_cpu"] / gigabytes)
    return {
        "value B": value_bytes,
        "batch B": batch_bytes,
        "partitions": partitions,
        "MB/s": median(speeds),
        "min": min(speeds),
        "max": max(speeds),
        "broker CPU s/GB": median(broker_costs),
        "client CPU s/GB": median(client_costs),
    }
