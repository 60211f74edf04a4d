"""What the audit adds to a Produce request: processor time, for runs of several lengths.

    python -m benchmarks.audit_cost

Only what is called for the audit is measured, beside the counters of the API that are behind it:
the rest of the path costs ten to twenty times as much, and its variation hides this. Each number is
the best of five.
"""

import gc
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from penstock.audit import compiled, counts
from penstock.audit.fold import Fold
from penstock.broker.api_stats import ApiStats, Measure
from penstock.cli.exit_codes import end_with
from penstock.kafka import audited as kafka_audited
from penstock.kafka.audited import audited, note_produced
from penstock.kafka.context import Software
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.produce import PartitionAnswer, PartitionData
from penstock.record.build import Record, build_batch

RUNS = ((1, 1), (2, 1), (8, 1), (32, 1), (32, 8), (32, 32))
"""Requests of a run, and how many partitions they go to."""
REQUESTS = 200_000
ROUNDS = 5
API = cast("Any", SimpleNamespace(name="produce", key=ApiKey.PRODUCE))
BATCH = build_batch([Record(None, b"x" * 100, (), 1_700_000_000_000)])


def main() -> None:
    gc.disable()
    twins = {"Python": counts.count_batches, "C": compiled.count_batches}
    for name, twin in twins.items():
        kafka_audited.count_batches = twin  # type: ignore[attr-defined]
        for requests, partitions in RUNS:
            without, with_audit = _calls(requests, partitions)
            rounds = REQUESTS // requests
            more = (_best(with_audit, rounds) - _best(without, rounds)) / rounds / requests
            print(f"{name}: run={requests} partitions={partitions} {more * 1e6:.3f} us a request")


def _calls(requests: int, partitions: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what is called for a run without and with the audit."""
    stats, fold = ApiStats("produce"), Fold(0)
    memory = memoryview(BATCH * requests)
    size = len(BATCH)
    parts = [
        PartitionData(b"events", number % partitions, number * size, (number + 1) * size)
        for number in range(requests)
    ]
    answers = [PartitionAnswer(b"events", part.partition) for part in parts]
    hosted = SimpleNamespace(name="events", partitions=[None] * partitions)
    tables = SimpleNamespace(by_name={b"events": hosted}, by_id={})
    client = SimpleNamespace(
        principal="User:alice",
        client_id="producer-1",
        software=Software("librdkafka", "2.6"),
        host="10.0.0.9",
        audited=None,
        broker=SimpleNamespace(partitions=tables),
    )
    context = cast("Any", client)

    def count(measure: Measure) -> None:
        measure.received(size * requests, requests)
        measure.handled(50)
        measure.answered(60 * requests, 40)

    def without() -> None:
        count(stats)

    def with_audit() -> None:
        measure = audited(fold, context, stats, API)
        note_produced(context, memory, parts, answers, by_id=False)
        count(measure)

    return without, with_audit


def _best(call: Callable[[], None], rounds: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(rounds):
            call()
        best = min(best, time.process_time() - began)
    return best


if __name__ == "__main__":
    end_with(main)
