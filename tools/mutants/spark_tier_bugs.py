"""Bugs of history that Spark reads from the store: rows that are missing, or are there wrongly."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "History from the store"
PLAN = "spark/tier/plan.py"
READING = "spark/tier/reading.py"
READER = "tier/read/reader.py"
MANIFEST = "tier/metadata/manifest.py"
CLIENT = "client/tier.py"
RUNS = "tier/metadata/run_bytes.py"
STORE = "spark/tier/store.py"
PIECES = ("tests/spark/test_tier_pieces.py",)
TOLD = ("tests/client/test_tier.py",)

MUTANTS = (
    plant(
        "history-lease-from-the-answer",
        AREA,
        "a job reads objects for longer than they stay, by as long as the leader took to answer",
        (
            PLAN,
            "        until_ms = asked_ms + part.lease_ms\n",
            "        until_ms = int(time.time() * 1000) + part.lease_ms\n",
        ),
        kind=Kind.STALE,
        near=PIECES,
    ),
    plant(
        "history-behind-what-is-decided",
        AREA,
        "rows of a transaction whose abort is not copied yet",
        (
            PLAN,
            "            end = _decided(reader, runs, end)\n",
            "            _decided(reader, runs, end)\n",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-decided-by-the-next",
        AREA,
        "the run behind a piece is asked whether it decides the piece",
        (
            PLAN,
            "        decided, _ = call(reader.decided(runs.manifest(), end - 1, end))\n",
            "        decided, _ = call(reader.decided(runs.manifest(), end, end))\n",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-without-the-deciding-run",
        AREA,
        "a task lacks the run that says what was aborted in its piece",
        (
            PLAN,
            "        if run.first_offset >= last.first_offset:\n",
            "        if run.end_offset >= last.first_offset:\n",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-one-page-of-runs",
        AREA,
        "what follows the first runs that a leader tells is never read from the store",
        (
            PLAN,
            "            self.all = [*kept, *part.runs]\n        return follows\n",
            "            pass\n        return False\n",
        ),
        kind=Kind.CLEARED,
        near=PIECES,
    ),
    plant(
        "history-what-counts-no-more",
        AREA,
        "records below the partition's start come back",
        (
            PLAN,
            "        start = max(span.start, part.start_offset, runs.all[0].first_offset)\n",
            "        start = max(span.start, runs.all[0].first_offset)\n",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-of-decides-before-its-beginning",
        AREA,
        "a range is planned twice where the tier begins behind what it decides",
        (PLAN, "        if end <= start:\n            return None\n", ""),
        (
            PLAN,
            "min(wanted.end, found.end) <= max(wanted.start, found.start)",
            "wanted.end <= found.start or found.end <= wanted.start",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-required-of-brokers",
        AREA,
        "brokers give what they were not to feel",
        (
            PLAN,
            "        if self._options.use == REQUIRED:\n            raise HistoryUnreadable(*name, offset, reason)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-asks-for-each-batch",
        AREA,
        "a stream ahead of the tier asks the leader of each partition with each batch",
        (PLAN, "or (now < until and end <= start)", "or (now < until and end < 0)"),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-ahead-for-ever",
        AREA,
        "a reader that goes back behind the tier's end is given brokers",
        (PLAN, "or (now < until and end <= start)", "or now < until"),
        kind=Kind.STALE,
        near=PIECES,
    ),
    plant(
        "history-aborted-of-all-windows",
        AREA,
        "committed rows of a producer that aborted earlier are left out",
        (
            READING,
            "self._reader.aborted(self._manifest, start, end)",
            "self._reader.aborted(self._manifest, *self._offsets)",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-behind-a-cut",
        AREA,
        "records that the log has lost in an unclean election are rows",
        (
            READING,
            "        end = min(end, found.next_offset)\n",
            "        end = found.next_offset\n",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-over-a-gap",
        AREA,
        "rows behind records that are gone, without a word",
        (
            READING,
            "        (first, *_) = planner.plan(self._leaders, [rest])\n",
            "        (*_, first) = planner.plan(self._leaders, [rest])\n",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-lost-at-once",
        AREA,
        "an object that was written anew is called lost",
        (
            READING,
            "                if lost == error.name:",
            "                if lost != error.name:",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-damage-passed-over",
        AREA,
        "nobody hears that an object is damaged",
        (
            READING,
            "            except LyingObject as error:\n                raise HistoryUnreadable(*rest.name, rest.start, str(error)) from error\n",
            "            except LyingObject:\n                return\n",
        ),
        kind=Kind.GUARD,
        near=PIECES,
    ),
    plant(
        "history-of-another-topic",
        AREA,
        "records of a topic that was made again stand in the old one's place",
        (
            READING,
            "        if piece is not None and piece.topic_id != old.topic_id:\n",
            "        if False:\n",
        ),
        kind=Kind.EPOCH,
        near=PIECES,
    ),
    plant(
        "history-lease-for-ever",
        AREA,
        "a task goes on with what it was told, however long ago",
        (
            READING,
            "            if self._is_begun and self._is_late():\n",
            "            if False:\n",
        ),
        kind=Kind.STALE,
        near=PIECES,
    ),
    plant(
        "history-lease-over-at-the-end",
        AREA,
        "a task that has read everything asks a leader that may be down",
        (
            READING,
            "            if self._next is None:\n                return False\n            if self._is_begun and self._is_late():\n                return True\n",
            "            if self._is_begun and self._is_late():\n                return True\n            if self._next is None:\n                return False\n",
        ),
        kind=Kind.ORDER,
        near=PIECES,
    ),
    plant(
        "history-last-window-short",
        AREA,
        "the last block of a run that has wanted offsets is not read",
        (
            READER,
            "        while block < len(blocks.places) and blocks.first_offsets[block] < end:\n",
            "        while block < len(blocks.places) and blocks.first_offsets[block] < end - 1:\n",
        ),
        kind=Kind.RANGE,
        near=PIECES,
    ),
    plant(
        "history-run-that-ended-before",
        AREA,
        "a leader tells of a run that ends where the question begins",
        (
            MANIFEST,
            "self._runs[at].end_offset <= offset:\n            at += 1\n        yield",
            "self._runs[at].end_offset < offset:\n            at += 1\n        yield",
        ),
        kind=Kind.RANGE,
        near=("tests/tier/test_told.py",),
    ),
    plant(
        "history-believes-any-runs",
        AREA,
        "a gap between runs that a leader tells is a gap in the rows",
        (
            RUNS,
            "        one.end_offset == other.first_offset\n",
            "        one.end_offset <= other.first_offset\n",
        ),
        kind=Kind.GUARD,
        near=TOLD,
    ),
)
