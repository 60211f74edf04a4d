"""How fast can librdkafka write, and what does each GB cost the broker?

Every figure stands beside librdkafka's own mock broker (C, in memory, checks nothing), measured in
turns with the node so that noise hits both. Page-cache rows answer from memory with acks=1, fsync
rows answer from the disk with acks=all. The client takes most of the two cores; the broker's CPU
seconds per GB are the figure that carries over to other machines. "header" is the same node and a
topic whose batches are taken without a look at their records.
"""

import time
from typing import NamedTuple

from benchmarks import RESULTS
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import FSYNC, PAGE_CACHE, temporary_node
from benchmarks.parts.stub import StubProcess
from benchmarks.parts.topics import temporary_topic
from harness.node import NodeProcess
from harness.results import median, publish

GOAL = "1 KiB: CPU s/GB <= 1.1 at 16 KiB and <= 0.45 at 256 KiB batches; >= 0.75 of the stub's MB/s"
SIZES = (100, 1024)
BATCHES = {"16 KiB": 16_384, "256 KiB": 262_144, "1 MiB": 1_000_000}
CODECS = ("none", "lz4")
RECYCLE_SECONDS = 1.5
HEADER_ONLY = {"penstock.record.validation": "header"}


class ProduceCase(NamedTuple):
    """One way to produce."""

    value_bytes: int
    batch: str
    codec: str
    acks: str
    durable_in: str


class ProduceCost(NamedTuple):
    """What one run of it showed."""

    megabytes_per_second: float
    broker_cpu_per_gb: float
    client_cpu_per_gb: float


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"produce left out: {reason}")
        return
    total, rounds = (200_000_000, 3) if quick else (1_000_000_000, 5)
    cases = [
        ProduceCase(size, batch, codec, "1", "page cache")
        for size in SIZES
        for batch in BATCHES
        for codec in CODECS
    ]
    with StubProcess() as stub:
        with temporary_node(PAGE_CACHE) as node:
            _warm_up(node, cases[-2], total)
            rows = [_row(node, stub, case, total, rounds) for case in cases]
        with temporary_node(FSYNC) as node:
            synced = [ProduceCase(1024, batch, "none", "all", "fsync") for batch in BATCHES]
            _warm_up(node, synced[-1], total)
            rows += [_row(node, stub, case, total, rounds) for case in synced]
    publish(RESULTS, "produce", rows, goal=GOAL)


def _row(
    node: NodeProcess, stub: StubProcess, case: ProduceCase, total: int, rounds: int
) -> dict[str, object]:
    scaled = total // 4 if case.value_bytes < 1000 else total
    ours, unchecked, theirs = [], [], []
    for _ in range(rounds):
        ours.append(measure(node, case, scaled))
        unchecked.append(measure(node, case, scaled, HEADER_ONLY))
        theirs.append(measure(stub, case, scaled))
    node_speed = median([one.megabytes_per_second for one in ours])
    stub_speed = median([one.megabytes_per_second for one in theirs])
    return {
        "value B": case.value_bytes,
        "batch": case.batch,
        "codec": case.codec,
        "acks": case.acks,
        "durable in": case.durable_in,
        "MB/s": node_speed,
        "min": min(one.megabytes_per_second for one in ours),
        "max": max(one.megabytes_per_second for one in ours),
        "stub MB/s": stub_speed,
        "ratio": node_speed / stub_speed,
        "broker CPU s/GB": median([one.broker_cpu_per_gb for one in ours]),
        "header MB/s": median([one.megabytes_per_second for one in unchecked]),
        "header CPU s/GB": median([one.broker_cpu_per_gb for one in unchecked]),
        "stub CPU s/GB": median([one.broker_cpu_per_gb for one in theirs]),
        "client CPU s/GB": median([one.client_cpu_per_gb for one in ours]),
    }


def _warm_up(node: NodeProcess, case: ProduceCase, total: int) -> None:
    """Touch memory and segment files for the first time, and let them be recycled."""
    for _ in range(3):
        measure(node, case, max(total, 800_000_000))
        time.sleep(RECYCLE_SECONDS)


def measure(
    broker: Broker, case: ProduceCase, total: int, config: dict[str, str] | None = None
) -> ProduceCost:
    """Produce `total` bytes in one way, to a topic with this configuration."""
    if isinstance(broker, StubProcess):
        return _load(broker, "stub", case, total)
    with temporary_topic(broker.bootstrap, config=config) as topic:
        return _load(broker, topic, case, total)


def _load(broker: Broker, topic: str, case: ProduceCase, total: int) -> ProduceCost:
    before = broker.cpu_seconds()
    how = (1, case.value_bytes, BATCHES[case.batch], case.codec, case.acks, total)
    client = librdkafka("produce", broker.bootstrap, topic, *how)
    gigabytes = client["bytes"] / 1e9
    return ProduceCost(
        client["bytes"] / 1e6 / client["seconds"],
        (broker.cpu_seconds() - before) / gigabytes,
        client["client_cpu"] / gigabytes,
    )
