"""How does a node compare with Apache Kafka on the same machine, with the same client, in turns?

Kafka 4.1 (KRaft, one process, its own JVM options) answers from the page cache, so the node does as
well. Both are warmed up first: Kafka's compiler needs some gigabytes. A ratio above 1 is in the
node's favour, for CPU and latency as well.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import consume, latency, produce, small_requests
from benchmarks.harness import kafka, native
from benchmarks.harness.broker import Broker
from benchmarks.harness.nodes import PAGE_CACHE, temporary_node
from benchmarks.harness.results import median, publish
from benchmarks.produce import ProduceCase

GOAL = "produce and consume >= 1.5 x; CPU per GB <= 0.5 x Kafka's (ratio >= 2); the rest >= 1 x"
Figures = dict[str, float]
"""Name of a figure -> its value; a name ending in `/s` is better when larger."""


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = native.why_not() or kafka.why_not()
    if reason is not None:
        print(f"peers left out: {reason}")
        return
    total, rounds, seconds = (200_000_000, 3, 5) if quick else (1_000_000_000, 5, 20)
    with (
        tempfile.TemporaryDirectory() as scratch,
        kafka.KafkaProcess() as peer,
        temporary_node(PAGE_CACHE) as node,
    ):
        questions = _questions(total, seconds, Path(scratch))
        for ask in questions.values():
            ask(peer), ask(node)
        rows = [
            row
            for name, ask in questions.items()
            for row in _rows(name, [(ask(node), ask(peer)) for _ in range(rounds)])
        ]
    publish("peers", rows, goal=GOAL)


def _rows(name: str, turns: list[tuple[Figures, Figures]]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for figure in turns[0][0]:
        ours = median([mine[figure] for mine, _ in turns])
        theirs = median([other[figure] for _, other in turns])
        ratio = ours / theirs if figure.endswith("/s") else theirs / ours
        rows.append(
            {"case": name, "figure": figure, "penstock": ours, "kafka": theirs, "ratio": ratio}
        )
    return rows


def _questions(total: int, seconds: int, scratch: Path) -> dict[str, Callable[[Broker], Figures]]:
    found: dict[str, Callable[[Broker], Figures]] = {}
    for batch in produce.BATCHES:
        for codec in produce.CODECS:
            case = ProduceCase(1024, batch, codec, "1", "page cache")
            found[f"produce 1 KiB, {batch}, {codec}"] = _produce(case, total)
    found["consume 1 KiB, 1 partition"] = _consume((1024, 262_144, 1), total)
    found["consume 1 KiB, 100 partitions"] = _consume((1024, 16_384, 100), total)
    found["latency at 5,000/s"] = _latency(5000, seconds)
    for name, connections, in_flight in small_requests.CASES:
        found[f"100 B requests, {name}"] = _storm(scratch, connections, in_flight, seconds)
    return found


def _produce(case: ProduceCase, total: int) -> Callable[[Broker], Figures]:
    def ask(broker: Broker) -> Figures:
        cost = produce.measure(broker, case, total)
        return {"MB/s": cost.megabytes_per_second, "CPU s/GB": cost.broker_cpu_per_gb}

    return ask


def _consume(case: tuple[int, int, int], total: int) -> Callable[[Broker], Figures]:
    def ask(broker: Broker) -> Figures:
        (cost,) = consume.measure(broker, case, total=total, rounds=1)
        return {"MB/s": cost.megabytes_per_second, "CPU s/GB": cost.broker_cpu_per_gb}

    return ask


def _latency(rate: int, seconds: int) -> Callable[[Broker], Figures]:
    def ask(broker: Broker) -> Figures:
        found = latency.measure(broker, rate, seconds, "1")
        return {"p50 us": found["p50"], "p99 us": found["p99"], "p99.9 us": found["p999"]}

    return ask


def _storm(
    scratch: Path, connections: int, in_flight: int, seconds: int
) -> Callable[[Broker], Figures]:
    def ask(broker: Broker) -> Figures:
        found = small_requests.storm(
            broker, scratch, connections=connections, in_flight=in_flight, seconds=seconds
        )
        return {"requests/s": found["per_second"], "CPU us/request": found["cpu_us"]}

    return ask
