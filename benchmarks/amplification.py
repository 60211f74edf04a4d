"""How often is a byte written to the disk, from a producer until it lies where it stays?

    short        it expires in the files of the log: written once
    long         it is moved to files sorted by partition: written twice
    compacted    it is moved, and cleaning writes again what stays of it

What the kernel counts as written by the node and its housekeeper, by what was produced, keys and
values. Each record is on the disk before it is acknowledged. The compacted topic has as many keys
as a part of what is written has records, and a part is cleaned before the next one is written:
about half of the partition is dirty each time, at which the default ratio has it cleaned.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from benchmarks import RESULTS
from benchmarks.parts.keys import KEY_BYTES
from benchmarks.parts.native import librdkafka, why_not
from benchmarks.parts.nodes import FSYNC, merged, temporary_node
from benchmarks.parts.processes import io_bytes
from benchmarks.parts.second_level import (
    SEGMENT_BYTES,
    UNBOUND,
    NodeProgress,
    processes_of,
    wait_clean,
)
from harness.node import NodeProcess
from harness.results import publish
from harness.waiting import wait_until
from harness.workload import create_topic

GOAL: Final = "1 with short retention, 2 with long, <= 4 compacted"
MIB: Final = 1 << 20
VALUE_BYTES: Final = 1024
BATCH_BYTES: Final = 262_144
PARTS: Final = 8
WAIT_SECONDS: Final = 300.0
TOPIC: Final = "written"


class Case(NamedTuple):
    """A topic, and how much of the log stays in its own files whatever its age."""

    name: str
    configs: Mapping[str, str]
    level0_bytes: int
    is_moved: bool = True


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = why_not()
    if reason is not None:
        print(f"amplification left out: {reason}")
        return
    part_bytes = (48 if quick else 192) * MIB
    rows = [measured(case, part_bytes) for case in cases(part_bytes)]
    publish(RESULTS, "amplification", rows, goal=GOAL)


def cases(part_bytes: int) -> tuple[Case, ...]:
    """Return what is measured with parts of so many bytes."""
    short = {"retention.bytes": str(part_bytes // 2)}
    return (
        Case("short retention", short, 3 * part_bytes, is_moved=False),
        Case("long retention", {"retention.ms": "-1"}, 0),
        Case("compacted", {"cleanup.policy": "compact"}, 0),
    )


def measured(case: Case, part_bytes: int) -> dict[str, object]:
    """Write all parts to a new node; return how often their bytes were written."""
    log = {
        "segment_bytes": SEGMENT_BYTES,
        "first_segment_bytes": SEGMENT_BYTES,
        "level0_bytes": case.level0_bytes,
    }
    with temporary_node(merged(FSYNC, UNBOUND, {"log": log})) as node:
        create_topic(node.bootstrap, TOPIC, 1, dict(case.configs))
        whole = NodeProgress(node)
        before = io_bytes(processes_of(node), "write_bytes")
        records = 0
        for _ in range(PARTS):
            records = _write_part(case, node, part_bytes, records)
        written = io_bytes(processes_of(node), "write_bytes") - before
        whole.look()
    produced = records * (KEY_BYTES + VALUE_BYTES)
    return {
        "case": case.name,
        "produced MB": round(produced / 1e6),
        "written MB": round(written / 1e6),
        "times": round(written / produced, 2),
        "moved MB": round(whole.grown("penstock_housekeeper_bytes_total") / 1e6),
        "passes": round(whole.grown("penstock_cleaner_passes_total")),
        "left by passes MB": round(whole.grown("penstock_cleaner_kept_bytes_total") / 1e6),
    }


def _write_part(case: Case, node: NodeProcess, part_bytes: int, first: int) -> int:
    """Write the records from number `first` on, and wait for all that follows from them.

    Returns the number of the next record.
    """
    moved_bytes = part_bytes - 2 * SEGMENT_BYTES  # the open file, and what is left of a closed one
    dirty_bytes = part_bytes + SEGMENT_BYTES
    progress = NodeProgress(node, moved_bytes=moved_bytes, dirty_bytes_max=dirty_bytes)
    keys = part_bytes // VALUE_BYTES
    how = (1, VALUE_BYTES, BATCH_BYTES, "none", "all", part_bytes, WAIT_SECONDS, keys, first)
    told = librdkafka("produce", node.bootstrap, TOPIC, *how)
    end = first + 1 + int(told["records"])
    if case.is_moved:
        wait_clean(progress, seconds=WAIT_SECONDS, on_change=lambda: None)
    else:
        _wait_expired(node, end - (part_bytes + 2 * SEGMENT_BYTES) // VALUE_BYTES)
    return end


def _wait_expired(node: NodeProcess, offset: int) -> None:
    """Wait until the topic begins at or above an offset."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "looker"})
    partition = TopicPartition(TOPIC, 0)
    try:
        if not wait_until(
            lambda: consumer.get_watermark_offsets(partition)[0] >= offset,
            WAIT_SECONDS,
            every_seconds=0.25,
        ):
            raise TimeoutError(f"retention has left what is below {offset:,}")
    finally:
        consumer.close()
