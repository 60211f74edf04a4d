"""Bugs of archives and replays: records that are lost, double, or believed though they lie."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Archives and replays"
COPYING = "archive/copying.py"
CHUNKS = "archive/chunks.py"
FILES = "archive/files.py"
LEDGER = "archive/ledger.py"
MANIFEST = "archive/manifest.py"
PRUNING = "archive/pruning.py"
SWEEPING = "archive/sweeping.py"
PLAN = "archive/replay/plan.py"
PROGRESS = "archive/replay/progress.py"
REPLAYING = "archive/replay/replaying.py"
ENDING = "client/ending.py"
COPIES = ("tests/archive/test_copying.py",)
LIES = ("tests/archive/test_lies.py",)
REPLAYS = ("tests/archive/test_replay.py",)
PRUNES = ("tests/archive/test_pruning.py",)

MUTANTS = (
    plant(
        "archive-sweep-before-the-fence",
        AREA,
        "files are deleted that a run which still lives commits a moment later",
        (
            COPYING,
            "    ledger.commit(\n        Began(",
            "    lows = {number: own[0][0] for number, own in spans.items()}\n    summary = RunSummary(swept=sweep(ledger.files, ledger.manifest, lows))\n    ledger.commit(\n        Began(",
        ),
        (
            COPYING,
            "    lows = {number: own[0][0] for number, own in spans.items()}\n    summary = RunSummary(swept=sweep(ledger.files, ledger.manifest, lows))\n    with tempfile",
            "    with tempfile",
        ),
        kind=Kind.ORDER,
        near=COPIES,
    ),
    plant(
        "archive-sweep-of-a-last-copy",
        AREA,
        "a file whose entry was lost is deleted, though the topic has its records no more",
        (
            SWEEPING,
            "    return is_behind and starts[found.partition] <= found.start\n",
            "    return is_behind\n",
        ),
        kind=Kind.GUARD,
        near=COPIES,
    ),
    plant(
        "archive-taken-number-is-ours",
        AREA,
        "a second writer believes that the other one's entry is its own",
        (
            FILES,
            "            return self.read(name) == data\n",
            "            return True\n",
        ),
        kind=Kind.GUARD,
        near=COPIES,
    ),
    plant(
        "archive-entries-in-any-order",
        AREA,
        "an entry that was changed, with a checksum that agrees, is believed",
        (
            LEDGER,
            "        if entry.number != number or entry.previous != read.entry:\n",
            "        if entry.number != number:\n",
        ),
        kind=Kind.GUARD,
        near=LIES,
    ),
    plant(
        "archive-gap-unsaid",
        AREA,
        "offsets between two chunks are missing and nobody is told",
        (
            MANIFEST,
            "        if chunk.gap_start != part.end or not part.end",
            "        if not part.end",
        ),
        kind=Kind.GUARD,
        near=LIES,
    ),
    plant(
        "archive-gap-from-the-range",
        AREA,
        "a chunk behind records that are gone does not say so",
        (
            COPYING,
            "self._chunk(wanted, self._ends.get(wanted.partition, wanted.start))",
            "self._chunk(wanted, wanted.start)",
        ),
        kind=Kind.STALE,
        near=COPIES,
    ),
    plant(
        "archive-checksum-unread",
        AREA,
        "a flipped byte of a value is served",
        (
            CHUNKS,
            "    if digest(data) != file.sha256:\n",
            "    if not file.sha256:\n",
        ),
        kind=Kind.GUARD,
        near=LIES,
    ),
    plant(
        "archive-rows-by-file",
        AREA,
        "records of several days are not put back in the order of offsets",
        (
            CHUNKS,
            '    rows = pa.concat_tables(tables).sort_by("offset")\n    if not _is_rising(rows):\n',
            "    rows = pa.concat_tables(tables)\n    if not rows.num_rows:\n",
        ),
        kind=Kind.ORDER,
        near=REPLAYS,
    ),
    plant(
        "archive-prune-by-the-oldest",
        AREA,
        "a chunk goes whose newest record is to be kept",
        (
            PRUNING,
            "        if chunk.last_ms >= limit_ms:\n",
            "        if chunk.first_ms >= limit_ms:\n",
        ),
        kind=Kind.RANGE,
        near=PRUNES,
    ),
    plant(
        "archive-prune-deletes-first",
        AREA,
        "files are gone that the ledger still names, if the prune dies or another writer was there",
        (
            PRUNING,
            "    if found:\n        starts",
            "    old = {number: list(_older(part, now_ms - keep_ms)) for number, part in manifest.parts.items()}\n    ledger.files.delete([file.name for chunks in old.values() for chunk in chunks for file in chunk.files])\n    if found:\n        starts",
        ),
        kind=Kind.ORDER,
        near=PRUNES,
    ),
    plant(
        "replay-looks-before-it-fences",
        AREA,
        "another replay commits between the look at the positions and the first write",
        (
            REPLAYING,
            "            producer.flush()\n            transaction = producer.transaction\n",
            "            self._check_alone()\n            producer.flush()\n            transaction = producer.transaction\n",
        ),
        (
            REPLAYING,
            '            assert transaction is not None, "nothing was written"\n            self._check_alone()\n',
            '            assert transaction is not None, "nothing was written"\n',
        ),
        kind=Kind.ORDER,
        near=REPLAYS,
    ),
    plant(
        "replay-reads-before-it-fences",
        AREA,
        "the positions at the start are those from before the last transaction of another replay",
        (
            REPLAYING,
            "        Transactions(self._cluster).abort(self._id)\n        self._positions = self._progress.read()\n",
            "        self._positions = self._progress.read()\n        Transactions(self._cluster).abort(self._id)\n",
        ),
        kind=Kind.ORDER,
        near=REPLAYS,
    ),
    plant(
        "replay-position-of-the-last",
        AREA,
        "the last record of a transaction is written again",
        (
            REPLAYING,
            '            to = portion.column("offset")[-1].as_py() + 1\n',
            '            to = portion.column("offset")[-1].as_py()\n',
        ),
        kind=Kind.RANGE,
        near=REPLAYS,
    ),
    plant(
        "replay-positions-of-one-shard",
        AREA,
        "a target that got more partitions forgets how far some of the archive's were",
        (
            PROGRESS,
            "        shards = [at % self._count] if self._count else range(self._partition_count())\n        self._count = self._count or len(shards)\n",
            "        self._count = self._count or self._partition_count()\n        shards = [at % self._count]\n",
        ),
        kind=Kind.STALE,
        near=REPLAYS,
    ),
    plant(
        "replay-position-refused",
        AREA,
        "records are committed whose position the coordinator has refused",
        (
            ENDING,
            "                check_code(told.error_code, what)\n",
            "                check_code(0, what)\n",
        ),
        kind=Kind.GUARD,
        near=REPLAYS,
    ),
    plant(
        "replay-left-open",
        AREA,
        "an error leaves a transaction open, and readers wait for its time-out",
        (
            REPLAYING,
            "                end_transactions(cluster, [transaction], is_commit=False)\n",
            "                cluster.describe([])\n",
        ),
        kind=Kind.CLEARED,
        near=REPLAYS,
    ),
    plant(
        "replay-abort-is-a-commit",
        AREA,
        "a transaction that was aborted by its time-out counts as written",
        (
            REPLAYING,
            "        if outcome is ErrorCode.NONE:\n",
            "        if outcome is not ErrorCode.INVALID_PRODUCER_ID_MAPPING:\n",
        ),
        kind=Kind.GUARD,
        near=REPLAYS,
    ),
    plant(
        "replay-from-the-first-young-chunk",
        AREA,
        "a time within a chunk skips the rest of it",
        (
            PLAN,
            "            if chunk.files and chunk.last_ms >= time_ms:\n",
            "            if chunk.files and chunk.first_ms >= time_ms:\n",
        ),
        kind=Kind.RANGE,
        near=REPLAYS,
    ),
)
