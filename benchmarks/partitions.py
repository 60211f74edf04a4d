"""Does a node with 10,000 partitions write as fast as one with 10?

librdkafka writes 1 KiB records round robin over ten partitions in both cases; in the second there
are 9,990 others beside them. A last row spreads the writes over 1,000 partitions.
"""

from benchmarks import RESULTS
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import PAGE_CACHE, temporary_node
from harness.node import NodeProcess
from harness.results import median, publish
from harness.workload import create_topic

GOAL = "produce with 10,000 partitions >= 80 % of that with 10"


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"partitions left out: {reason}")
        return
    total, rounds = (200_000_000, 3) if quick else (1_000_000_000, 5)
    with temporary_node(PAGE_CACHE) as few, temporary_node(PAGE_CACHE) as many:
        for node in (few, many):
            create_topic(node.bootstrap, "ten", 10)
        for number in range(9):
            create_topic(many.bootstrap, f"wide-{number}", 1110)
        for node in (few, many):
            _produce(node, "ten", 10, total)  # touches memory and segments for the first time
        speeds: dict[str, list[float]] = {"few": [], "many": [], "spread": []}
        for _ in range(rounds):
            speeds["few"].append(_produce(few, "ten", 10, total))
            speeds["many"].append(_produce(many, "ten", 10, total))
            speeds["spread"].append(_produce(many, "wide-0", 1000, total))
    base = median(speeds["few"])
    names = {
        "few": "10 partitions",
        "many": "10 of 10,000 partitions",
        "spread": "1,000 of 10,000 partitions",
    }
    rows = [
        {"case": names[key], "MB/s": median(found), "share": median(found) / base}
        for key, found in speeds.items()
    ]
    publish(RESULTS, "partitions", rows, goal=GOAL)


def _produce(node: NodeProcess, topic: str, partitions: int, total: int) -> float:
    client = librdkafka(
        "produce", node.bootstrap, topic, partitions, 1024, 262_144, "none", "1", total
    )
    speed: float = client["bytes"] / 1e6 / client["seconds"]
    return speed
