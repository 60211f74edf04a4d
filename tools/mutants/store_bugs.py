"""Bugs where the stores of a partition meet: what each is asked for, and what goes when."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

OLDER = "storage/stores/older.py"
LOST = "storage/recover/lost_starts.py"
SET_LOG = "storage/commit_log/set_log.py"
STORES = ("tests/storage/test_stores.py",)

MUTANTS = (
    plant(
        "stores-read-above-a-stale-limit", "Stores of a partition",
        "who does not know that it is confirmed is shown what was released",
        (OLDER, "        if limit_position < self.released_position:\n            return Chunk", "        if False:\n            return Chunk"),
        kind=Kind.GUARD, near=STORES,
    ),
    plant(
        "stores-oldest-gives-what-a-newer-has", "Stores of a partition",
        "an older store is read beyond where the newer one begins",
        (OLDER, "                end = held.start_offset\n", ""),
        kind=Kind.RANGE, near=STORES,
    ),
    plant(
        "stores-look-by-time-from-the-newest-on", "Stores of a partition",
        "the first record at a time is looked for in the commit log first",
        (OLDER, "SearchInOrder([*reversed(searches), commit_log])", "SearchInOrder([commit_log, *searches])"),
        kind=Kind.ORDER, near=STORES,
    ),
    plant(
        "stores-newest-of-two-with-one-time", "Stores of a partition",
        "of records with the same largest time the last store's is told",
        (OLDER, "hit.max_timestamp > best.max_timestamp", "hit.max_timestamp >= best.max_timestamp"),
        kind=Kind.RANGE, near=STORES,
    ),
    plant(
        "stores-release-what-nobody-has", "Stores of a partition",
        "a segment goes of which the older store has the beginning only",
        (OLDER, "return begins and offset <= held.end_offset", "return begins"),
        kind=Kind.GUARD, near=STORES,
    ),
    plant(
        "stores-epoch-ends-where-the-commit-log-begins", "Stores of a partition",
        "an epoch that ended in an older store ends where the commit log begins",
        (SET_LOG, "end.end_offset > start", "end.end_offset >= start"),
        kind=Kind.EPOCH, near=STORES,
    ),
    plant(
        "stores-epoch-of-which-nothing-is-kept", "Stores of a partition",
        "an epoch older than all that is kept ends where the commit log begins, above newer records",
        (SET_LOG, "min(end.end_offset, partition.log_start_offset)", "end.end_offset"),
        kind=Kind.EPOCH, near=STORES,
    ),
    plant(
        "log-start-told-as-far-as-retention", "Stores of a partition",
        "what a client deletes is told to no slave where the master's retention was ahead",
        (SET_LOG, "if offset <= partition.told_start:", "if offset <= partition.log_start_offset:"),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_told_log_starts.py",),
    ),
    plant(
        "log-start-told-again", "Stores of a partition",
        "each deletion of what is deleted appends a frame",
        ("storage/index/partition_log.py", "        self.told_start = max(self.told_start, offset)\n", ""),
        kind=Kind.STALE, near=("tests/storage/test_told_log_starts.py",),
    ),
    plant(
        "stores-newest-is-judged-first", "Stores of a partition",
        "retention looks at the commit log before the older stores: their records keep it a pass longer",
        ("storage/stores/retention.py", "[self._commit_log, *self._older.stores]", "[*self._older.stores, self._commit_log]"),
        kind=Kind.ORDER, near=STORES,
    ),
    plant(
        "stores-size-of-the-newest-alone", "Stores of a partition",
        "retention by size counts the commit log's bytes and not those of older stores",
        ("storage/stores/rules.py", "partition.size_bytes + self._older_bytes(partition)", "partition.size_bytes"),
        kind=Kind.STALE, near=STORES,
    ),
    plant(
        "stores-gap-is-not-noticed", "Stores of a partition",
        "a log starts though no store has what its log start promises",
        (LOST, "            older.check(directory, partition)\n", ""),
        kind=Kind.GUARD, near=STORES,
    ),
    plant(
        "stores-copy-promises-what-it-has-not", "Stores of a partition",
        "a copy of the commit log alone keeps the log start of all stores",
        ("storage/replicate/install.py", "            if is_part or _first_kept(state, kept) > state.log_start_offset\n", "            if is_part\n"),
        kind=Kind.SNAPSHOT, near=STORES,
    ),
    plant(
        "stores-log-start-takes-the-commit-log-along", "Stores of a partition",
        "a log start that rises within an older store leaves the commit log's start behind it",
        ("storage/stores/view.py", "            self.commit_log_start_offset = max(offset, self.commit_log_start_offset)\n\n    def release", "            self.commit_log_start_offset = offset\n\n    def release"),
        kind=Kind.RANGE, near=STORES,
    ),
)  # fmt: skip
