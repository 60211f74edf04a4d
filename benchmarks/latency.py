"""How long does a produce request take at a steady rate?

Open loop: a record is due at its time whether or not earlier ones are answered, and its latency
counts from when it was due. librdkafka, 1 KiB, linger 0. About 100 us of each figure are the
client's own threads; the stub, measured in turns, shows how much.
"""

from typing import Any

from benchmarks import RESULTS
from benchmarks.parts.broker import Broker
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import FSYNC, PAGE_CACHE, temporary_node
from benchmarks.parts.stub import StubProcess
from benchmarks.parts.topics import temporary_topic
from harness.results import median, publish

GOAL = "acks=1 from the page cache: p50 <= 200 us, p99 <= 400 us, p99.9 <= 2 x the stub's"
RATES = (1000, 5000)
VALUE_BYTES = 1024


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"latency left out: {reason}")
        return
    seconds, rounds = (5, 3) if quick else (15, 3)
    rows = []
    for durability, settings, acks in (("page cache", PAGE_CACHE, "1"), ("fsync", FSYNC, "all")):
        with StubProcess() as stub, temporary_node(settings) as node:
            for rate in RATES:
                ours, theirs = [], []
                for _ in range(rounds):
                    ours.append(measure(node, rate, seconds, acks))
                    theirs.append(measure(stub, rate, seconds, acks))
                rows.append({"broker": "penstock", "durable in": durability, **_row(rate, ours)})
                rows.append({"broker": "stub", "durable in": "memory", **_row(rate, theirs)})
    publish(RESULTS, "latency", rows, goal=GOAL)


def _row(rate: int, runs: list[dict[str, Any]]) -> dict[str, object]:
    return {
        "records/s": rate,
        "p50 us": median([one["p50"] for one in runs]),
        "p99 us": median([one["p99"] for one in runs]),
        "p99.9 us": median([one["p999"] for one in runs]),
        "broker us/request": median([one["cpu_us"] for one in runs]),
    }


def measure(broker: Broker, rate: int, seconds: int, acks: str) -> dict[str, Any]:
    """Produce at `rate` for `seconds`; latencies in microseconds."""
    if isinstance(broker, StubProcess):
        return _load(broker, "stub", (rate, seconds, acks))
    with temporary_topic(broker.bootstrap) as topic:
        return _load(broker, topic, (rate, seconds, acks))


def _load(broker: Broker, topic: str, how: tuple[int, int, str]) -> dict[str, Any]:
    before = broker.cpu_seconds()
    measured = librdkafka("latency", broker.bootstrap, topic, VALUE_BYTES, *how)
    requests = measured["records"] + how[0]  # the first second warms up and is not in the latencies
    measured["cpu_us"] = (broker.cpu_seconds() - before) / requests * 1e6
    return measured
