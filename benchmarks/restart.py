"""How long is a node away after kill -9, with a gigabyte in its active log or 10,000 partitions?

From the start of the process to its first answer. With the default segments only the last of them
is looked through; with one segment of 2 GiB all of the log is in the active one.
"""

from benchmarks import RESULTS
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from harness.node import NodeProcess, SettingsOf
from harness.results import median, publish
from harness.workload import create_topic

GOAL = "start after kill -9 with 10,000 partitions <= 5 s; first start <= 1 s"
BIG_SEGMENT = {"log": {"flush_policy": "async", "segment_bytes": 1 << 31}}
TOPICS = 10


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
            create_topic(node.bootstrap, f"wide-{number}", count // TOPICS)
        for number in range(TOPICS):
            topic, partitions = f"wide-{number}", count // TOPICS
            librdkafka(
                "produce", node.bootstrap, topic, partitions, 1024, 65_536, "none", "1", 10**7
            )
        return _row(f"{count:,} partitions", node, rounds)


def _row(case: str, node: NodeProcess, rounds: int) -> dict[str, object]:
    seconds = [node.restart() for _ in range(rounds)]
    return {
        "case": case,
        "seconds": median(seconds),
        "min": min(seconds),
        "max": max(seconds),
    }
