"""Bugs of reads for clients of what only the tier has: gaps."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Tier"
READS = "runtime/tier/reads.py"
SERVED = "broker/fetch/served.py"
READ = "broker/fetch/partition_read.py"
GAPS = ("tests/broker/test_tier_gaps.py", "tests/runtime/test_tier_reads.py")

MUTANTS = (
    plant(
        "tier-read-stops-in-a-gap",
        AREA,
        "a consumer behind whose offset is a gap in the tier hears of a failing store for ever",
        (
            READS,
            "        first = read_header(found.batches[0]).base_offset\n        aborted",
            "        first = read_header(found.batches[0]).base_offset\n        if first > offset:\n            raise TierUnavailable(NOT_KNOWN)\n        aborted",
        ),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-ends-with-the-tier",
        AREA,
        "a consumer in a gap up to the tier's end never gets what the disk has behind it",
        (SERVED, "        if chunk is None or chunk.size:\n", "        if True:\n"),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-passes-one-gap-only",
        AREA,
        "a gap that was passed when the disks had what is behind it leads below the local start: the consumer is reset",
        (
            SERVED,
            "    while offset < hosted.log.log_start_offset:\n",
            "    if offset < hosted.log.log_start_offset:\n",
        ),
        kind=Kind.STALE,
        near=GAPS,
    ),
    plant(
        "tier-read-forgets-where-the-log-was-read",
        AREA,
        "a consumer of committed records in a gap is told that its records went while they were read",
        (SERVED, "    read.begins_at = offset\n", ""),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-keeps-empty-answers",
        AREA,
        "answers without records pile up in memory: each counts for nothing",
        (
            READS,
            "        self._ready_bytes += chunk.size + READY_COSTS\n",
            "        self._ready_bytes += chunk.size\n",
        ),
        kind=Kind.RANGE,
        near=GAPS,
    ),
    plant(
        "tier-read-tells-a-short-gap",
        AREA,
        "a gap is passed one offset a read: thousands of reads of the store for one fetch",
        (READS, "(offset, found.next_offset), [])", "(offset, offset + 1), [])"),
        kind=Kind.RANGE,
        near=GAPS,
    ),
)
