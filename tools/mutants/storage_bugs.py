"""Planted bugs of the commit log that a careful person could write: stale state, order, bounds."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import CUTTING, FOLLOWING, RECOVERY, RETENTION, WRITING

COMMIT = "storage/commit_log/group_commit.py"
CHECKPOINT = "storage/commit_log/checkpoint.py"
RECOVER = "storage/recover/recovery.py"
CHANGE = "storage/commit_log/pending_change.py"
SEGMENTS = "storage/commit_log/segments.py"
RETAIN = "storage/commit_log/retention.py"
RULES = "storage/stores/rules.py"
TRUNCATE = "storage/commit_log/truncation.py"
APPENDER = "storage/replicate/run_append.py"
CLOSING = ("tests/storage/test_close_durability.py", *WRITING)
FILES = ("tests/storage/test_missing_files.py", *RECOVERY)
READING = ("tests/storage/test_reading.py", "tests/storage/test_set_log_model.py")
MEMORY = ("tests/storage/test_memory_and_snapshot.py",)
COPYING = ("tests/storage/test_base_copy.py", "tests/storage/test_replica_model.py")

STALE = (
    plant(
        "log-slave-appends-to-dropped-partition", "Stale state: commit log",
        "a slave goes on with the object of a partition that was dropped: its records are in no index",
        (APPENDER, "if partition is None or partition.is_dropped:", "if partition is None:"),
        (APPENDER, "if partition is None or partition.is_dropped or not partition.last_end_position:",
         "if partition is None or not partition.last_end_position:"),
        kind=Kind.STALE, near=MEMORY,
    ),
    plant(
        "log-confirmed-beyond-the-end", "Stale state: commit log",
        "what the set has confirmed beyond the own end counts when the log grows there by other bytes",
        (CHECKPOINT, "        position = min(position, self._writer.end_position)\n", ""),
        kind=Kind.STALE, near=CUTTING,
    ),
    plant(
        "log-side-numbers-begin-again", "Stale state: commit log",
        "a start counts side files from its snapshot's, and overwrites one that another snapshot needs",
        (RECOVER, "self.side_number = max(self.side_number, int(name[21:-5]))",
         "pass"),
        kind=Kind.STALE, near=MEMORY,
    ),
    plant(
        "log-fits-beside-unsynced-bytes", "Stale state: commit log",
        "a slave syncs a segment for its size while bytes in it are still to be synced",
        (APPENDER, "        if writer.flushed_position < writer.written_position:\n",
         "        if writer.flushed_position > writer.written_position:\n"),
        kind=Kind.STALE, near=WRITING,
    ),
    plant(
        "log-close-believes-unheard-sync", "Stale state: commit log",
        "a close takes a sync that is under way for one that has worked",
        (COMMIT, "is_certain = before is None or before.has_worked", "is_certain = True"),
        kind=Kind.STALE, near=CLOSING,
    ),
)  # fmt: skip

ORDERS = (
    plant(
        "log-mark-before-sync", "Wrong order: commit log",
        "how far the log is synced is noted before it is",
        (COMMIT, "            for file in self.files:\n                file.sync()\n",
         "            mark.write(self.target)\n            for file in self.files:\n                file.sync()\n"),
        kind=Kind.ORDER, near=CLOSING,
    ),
    plant(
        "log-snapshot-before-flush", "Wrong order: commit log",
        "a snapshot is written when the log is written up to it, and not synced",
        (CHECKPOINT, "if writer.flushed_position < position or", "if writer.written_position < position or"),
        kind=Kind.ORDER, near=("tests/storage/test_snapshot_durability.py", *RECOVERY),
    ),
    plant(
        "log-planned-anew-after-half-a-cut", "Wrong order: commit log",
        "a truncation that is tried again is planned by files that the first attempt has removed",
        ("storage/commit_log/open_log.py", "                if read_change(disk, directory) is None:\n                    prepare()\n",
         "                prepare()\n"),
        kind=Kind.ORDER, near=("tests/storage/test_truncation_faults.py", *CUTTING),
    ),
)  # fmt: skip

RANGES = (
    plant(
        "retention-deletes-at-the-limit", "Bounds: commit log",
        "retention by size takes a segment although that leaves less than is to be kept",
        (RULES, "return keep_bytes <= kept_bytes - piece.batch_bytes",
         "return keep_bytes <= kept_bytes"),
        kind=Kind.RANGE, near=RETENTION,
    ),
    plant(
        "retention-deletes-a-millisecond-early", "Bounds: commit log",
        "a record of exactly the age that is to be kept goes",
        (RULES, "0 <= piece.max_timestamp < self.now_ms - keep_ms",
         "0 <= piece.max_timestamp <= self.now_ms - keep_ms"),
        kind=Kind.RANGE, near=MEMORY,
    ),
    plant(
        "retention-counts-a-segment-twice", "Bounds: commit log",
        "a dead segment that stays for others is taken off a partition's size in every pass",
        (RETAIN, "            partition.sized_from = segment.end\n",
         "            partition.sized_from = segment.base\n"),
        kind=Kind.RANGE, near=MEMORY,
    ),
    plant(
        "log-serials-begin-one-early", "Bounds: commit log",
        "after a start a new partition shares its number, and so its producers, with an old one",
        (RECOVER, "self.next_serial = max(self.next_serial, state.serial + 1)",
         "self.next_serial = max(self.next_serial, state.serial)"),
        kind=Kind.RANGE, near=MEMORY,
    ),
    plant(
        "log-high-watermark-one-batch-low", "Bounds: commit log",
        "a batch that ends exactly at the confirm position is not shown",
        ("storage/index/partition_log.py", "            if end > position:\n", "            if end >= position:\n"),
        kind=Kind.RANGE, near=MEMORY,
    ),
    plant(
        "log-cut-batch-stays-in-window", "Bounds: commit log",
        "the first batch that a truncation takes stays in its producer's window: its retry is no more than a duplicate",
        (TRUNCATE, "if span[2] < ends.get(key[0], 0))", "if span[2] <= ends.get(key[0], 0))"),
        kind=Kind.RANGE, near=("tests/storage/test_truncation_durability.py", *CUTTING),
    ),
    plant(
        "log-file-removed-a-read-late", "Bounds: commit log",
        "files are closed and removed only when another read has begun and ended",
        (SEGMENTS, "self._waiting[0][0] <= oldest", "self._waiting[0][0] < oldest"),
        kind=Kind.RANGE, near=("tests/storage/test_guarded_removal.py", *RETENTION),
    ),
    plant(
        "log-missing-active-segment-passes", "Bounds: commit log",
        "the segment that the snapshot ends in may be missing",
        (RECOVER, "counted = [base for base in snapshot.segments if base < snapshot.position]",
         "counted = [base for base in snapshot.segments if base < snapshot.active_base]"),
        kind=Kind.RANGE, near=FILES,
    ),
)  # fmt: skip

SNAPSHOTS = (
    plant(
        "log-new-side-file-begins-in-the-middle", "Memory, snapshot, replay: commit log",
        "a new side file lacks the entries that the one before had",
        (CHECKPOINT, "            for partition in writer.touched:\n                partition.side_count = partition.aborted_side_count = 0\n", ""),
        kind=Kind.SNAPSHOT, near=MEMORY,
    ),
    plant(
        "log-deleted-records-not-in-snapshot", "Memory, snapshot, replay: commit log",
        "a log start that was raised by a frame is not in the next snapshot: deleted records come back",
        ("storage/commit_log/set_log.py", "        partition.tell_log_start(offset)\n        self.writer.dirty.append(partition)\n",
         "        partition.tell_log_start(offset)\n"),
        kind=Kind.SNAPSHOT, near=MEMORY,
    ),
    plant(
        "log-slave-deletes-not-in-snapshot", "Memory, snapshot, replay: commit log",
        "a log start that a master's frame has raised is not in the slave's next snapshot",
        (APPENDER, "                partition.tell_log_start(min(Offset(frame.value), partition.log_end_offset))\n                writer.dirty.append(partition)\n",
         "                partition.tell_log_start(min(Offset(frame.value), partition.log_end_offset))\n"),
        kind=Kind.SNAPSHOT, near=MEMORY,
    ),
    plant(
        "log-dropped-partition-in-snapshot", "Memory, snapshot, replay: commit log",
        "a partition that was dropped stays in the snapshots, and is back after a start",
        ("storage/commit_log/set_log.py", "        self._checkpointer.dropped.append(partition.serial)\n", ""),
        kind=Kind.SNAPSHOT, near=MEMORY,
    ),
    plant(
        "log-rebuild-mixes-up-producers", "Memory, snapshot, replay: commit log",
        "a rebuild gives producers to the partition that had the number before",
        (TRUNCATE, "states.entries.setdefault((serials[serial], producer_id), producer)",
         "states.entries.setdefault((serial, producer_id), producer)"),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_truncation_durability.py", *CUTTING),
    ),
    plant(
        "log-truncates-to-a-snapshot-without-its-segment", "Memory, snapshot, replay: commit log",
        "a truncation goes by a snapshot whose active segment lies behind the one that becomes the last",
        (TRUNCATE, "if usable and are_below and is_all_there(usable[0], segments):", "if usable:"),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_runs.py", *CUTTING),
    ),
    plant(
        "log-starts-lost-with-a-snapshot", "Memory against snapshot: commit log",
        "after a fall back to an older snapshot log starts point at segments that are gone",
        (RECOVER, "        if self._are_starts_lost or self._older.are_used:\n", "        if False:\n"),
        kind=Kind.SNAPSHOT, near=RETENTION,
    ),
)  # fmt: skip

CLEARINGS = (
    plant(
        "log-sync-lets-go-of-its-files", "Cleared too early or late: commit log",
        "files that are still to be synced may be closed by the rolls during the sync before",
        (COMMIT, "            self._ticket = self._guard.enter()\n",
         "            self._ticket = self._guard.enter()\n            self._guard.leave(self._ticket)\n            self._ticket = -1\n"),
        (COMMIT, "            self._guard.leave(sync.ticket)\n            self._finished", "            self._finished"),
        (COMMIT, "            self._guard.leave(self._take().ticket)\n", "            self._take()\n"),
        (COMMIT, "                self._guard.leave(rest.ticket)\n", "                pass\n"),
        kind=Kind.CLEARED, near=WRITING,
    ),
    plant(
        "log-fenced-sync-keeps-its-files", "Cleared too early or late: commit log",
        "a log that is fenced never closes the files that it was still to sync",
        (COMMIT, "            self._guard.leave(self._take().ticket)\n", "            self._take()\n"),
        kind=Kind.CLEARED, near=CLOSING,
    ),
    plant(
        "log-spares-survive-a-cut", "Cleared too early or late: commit log",
        "recycled segments stay over a truncation, and name positions that the log reaches again",
        (CHANGE, 'if is_behind or name.endswith(".spare"):', "if is_behind:"),
        kind=Kind.CLEARED, near=("tests/storage/test_truncation_faults.py", *CUTTING),
    ),
)  # fmt: skip

EPOCHS = (
    plant(
        "log-epoch-begins-behind-the-marker", "Wrong epoch: commit log",
        "a mastership that begins with an end marker is said to begin with the next segment",
        ("storage/commit_log/writer.py", "epoch, data_end if has_marker else old.end", "epoch, old.end"),
        kind=Kind.EPOCH, near=("tests/storage/test_epoch_at_segment_end.py", *FOLLOWING),
    ),
    plant(
        "log-forgets-the-epoch-of-its-start", "Wrong epoch: commit log",
        "the mastership that covers the first kept byte is forgotten with those before",
        (CHECKPOINT, "while len(epochs) > 1 and epochs[1][1] <= first:", "while len(epochs) > 1 and epochs[0][1] < first:"),
        kind=Kind.EPOCH, near=CUTTING,
    ),
    plant(
        "log-copy-resumed-by-another-epoch", "Wrong epoch: commit log",
        "segments of an earlier copy are kept by the oldest mastership that both images name",
        ("storage/replicate/install.py", "    return below[-1] if below else None\n", "    return below[0] if below else None\n"),
        kind=Kind.EPOCH, near=COPYING,
    ),
)  # fmt: skip

MUTANTS = STALE + ORDERS + RANGES + SNAPSHOTS + CLEARINGS + EPOCHS
