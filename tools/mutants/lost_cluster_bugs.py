"""Bugs of topics that are recovered from the store of a lost cluster."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Archives and replays"
LOST = "archive/lost_cluster.py"
COPYING = "archive/copying.py"
SETTLED = "tier/read/settled.py"
NOTES = ("tests/tier/test_settled.py",)
ABORTED = ("tests/archive/test_lost_cluster.py",)
RECOVERED = ABORTED

MUTANTS = (
    plant(
        "recover-vouched-by-a-cut-run",
        AREA,
        "a run that was cut vouches for markers that went with the cut",
        (
            SETTLED,
            "        if run.end_offset == run.entry.end_offset:  # a part",
            "        if run.end_offset <= run.entry.end_offset:  # a part",
        ),
        kind=Kind.STALE,
        near=NOTES,
    ),
    plant(
        "recover-aborted-behind-the-cut",
        AREA,
        "a marker that was cut away aborts what has no end",
        (SETTLED, "<= marker < run.end_offset:", "<= marker <= run.end_offset:"),
        kind=Kind.RANGE,
        near=NOTES,
    ),
    plant(
        "recover-open-from-its-last-batch",
        AREA,
        "an open transaction is copied but for its last batch",
        (
            SETTLED,
            "        open_from.setdefault(header.producer_id, header.base_offset)",
            "        open_from[header.producer_id] = header.base_offset",
        ),
        kind=Kind.STALE,
        near=NOTES,
    ),
    plant(
        "recover-from-the-newest-open",
        AREA,
        "the newest of several open transactions bounds what is copied",
        (
            SETTLED,
            "    return min(open_from.values(), default",
            "    return max(open_from.values(), default",
        ),
        kind=Kind.RANGE,
        near=NOTES,
    ),
    plant(
        "recover-vouched-by-the-last-run-only",
        AREA,
        "a last run that vouches for nothing takes what earlier ones vouch for with it",
        (
            SETTLED,
            "            vouched = max(vouched, min(notes.decided_end, run.end_offset))",
            "            vouched = max(manifest.start_offset, min(notes.decided_end, run.end_offset))",
        ),
        kind=Kind.STALE,
        near=NOTES,
    ),
    plant(
        "recover-aborted-once",
        AREA,
        "an aborted transaction is left out of the first window that it touches, and not of the next",
        (LOST, "one.marker_offset >= run.offset]", "one.first_offset >= run.offset]"),
        kind=Kind.CLEARED,
        near=ABORTED,
    ),
    plant(
        "recover-aborted-one-window-late",
        AREA,
        "a transaction that begins with a window's end goes with that window",
        (LOST, "coming[0].first_offset < run.end:", "coming[0].first_offset <= run.end:"),
        kind=Kind.RANGE,
        near=ABORTED,
    ),
    plant(
        "recover-over-a-gap",
        AREA,
        "pieces with a gap between them are one",
        (
            LOST,
            "piece[-1].end_offset < run.first_offset:",
            "piece[-1].end_offset > run.first_offset:",
        ),
        kind=Kind.RANGE,
        near=RECOVERED,
    ),
    plant(
        "recover-gap-from-the-last-commit",
        AREA,
        "the gap that a chunk tells begins at the last entry, and not at the chunk before",
        (
            COPYING,
            "            self._ends[wanted.partition] = chunk.end\n",
            "            self._ends.setdefault(wanted.partition, chunk.end)\n",
        ),
        kind=Kind.STALE,
        near=RECOVERED,
    ),
)
