"""Planted bugs of the commit log: syncs, recovery, truncation, runs."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import CUTTING, FOLLOWING, RECOVERY, WRITING

WRITER = "storage/commit_log/writer.py"
WRITES = "storage/commit_log/gathered_writes.py"
COMMIT = "storage/commit_log/group_commit.py"
RECOVER = "storage/recover/recovery.py"
CHANGE = "storage/commit_log/pending_change.py"
CHECK = "frames/run_check.py"

SYNCS = (
    plant(
        "log-durable-is-written", "Left-out fsync: commit log",
        "what is only in the page cache counts as durable: acknowledged before the own sync",
        (WRITES, "return self.flushed_position if self._is_sync_policy else self.written_position",
         "return self.written_position"),
        kind=Kind.SNAPSHOT, near=WRITING,
    ),
    plant(
        "log-group-commit-syncs-nothing", "Left-out fsync: commit log",
        "the group commit reports a sync that it did not do",
        (COMMIT, "            for file in self.files:\n                file.sync()\n",
         "            pass\n"),
        kind=Kind.GUARD, near=WRITING,
    ),
    plant(
        "log-group-commit-forgets-older-file", "Left-out fsync: commit log",
        "after a roll only the newest segment is synced",
        (COMMIT, "            for file in self.files:\n                file.sync()\n",
         "            for file in self.files[-1:]:\n                file.sync()\n"),
        kind=Kind.CLEARED, near=WRITING,
    ),
    plant(
        "log-sync-covers-later-writes", "Left-out fsync: commit log",
        "what was written while a sync ran counts as synced by it",
        (COMMIT, "self._finished(sync.target, error)", "self._finished(self._written, error)"),
        kind=Kind.RANGE, near=WRITING,
    ),
    plant(
        "log-close-without-sync", "Left-out fsync: commit log",
        "a clean close marks the log as clean without syncing it",
        (COMMIT,
         "            for file in [*(before.files if before else ()), *(rest.files if rest else ())]:\n                file.sync()\n",
         ""),
        kind=Kind.GUARD, near=("tests/storage/test_close_durability.py", *WRITING),
    ),
    plant(
        "log-recovered-tail-not-synced", "Left-out fsync: commit log",
        "what recovery read counts as durable though it was only in the page cache",
        (RECOVER,
         "scan.position > max(start, segment.base):\n                file.sync()\n",
         "scan.position > max(start, segment.base):\n                pass\n"),
        kind=Kind.GUARD, near=("tests/storage/test_recovered_durability.py", *RECOVERY),
    ),
    plant(
        "log-found-not-written-again", "Failed fsync",
        "what recovery read behind a failed sync is only synced, which writes nothing any more",
        (RECOVER, "        if header.position + len(frame) > self._synced:\n", "        if False:\n"),
        kind=Kind.GUARD, near=("tests/storage/test_recovered_durability.py", *RECOVERY),
    ),
    plant(
        "log-cut-not-synced", "Left-out fsync: commit log",
        "the end that recovery cut off may come back after the next crash",
        (RECOVER, "            active.end = self.position\n        file.sync()\n",
         "            active.end = self.position\n"),
        kind=Kind.GUARD, near=RECOVERY,
    ),
    plant(
        "log-removed-segments-come-back", "Left-out fsync: commit log",
        "segments behind the end are removed without a sync of the directory",
        (RECOVER, '        self._disk.sync_directory(f"{self._directory}/log")\n        active = ',
         "        active = "),
        kind=Kind.GUARD, near=(*RECOVERY, *CUTTING),
    ),
    plant(
        "log-snapshot-before-its-bytes", "Left-out fsync: commit log",
        "a snapshot is written before the bytes that it speaks of are durable",
        ("storage/commit_log/checkpoint.py",
         "if writer.flushed_position < position or not self.may_write(position):",
         "if not self.may_write(position):"),
        kind=Kind.ORDER, near=("tests/storage/test_snapshot_durability.py", *RECOVERY),
    ),
    plant(
        "log-truncation-not-made-certain", "Left-out fsync: commit log",
        "the record of a truncation under way is not durable when the cutting begins",
        (CHANGE, "    disk.replace(change.path(directory), change.encode())\n",
         "    file = disk.open(change.path(directory), create=True)\n    file.truncate(0)\n"
         "    file.write(0, [change.encode()])\n    file.close()\n"),
        kind=Kind.GUARD, near=CUTTING,
    ),
    plant(
        "log-truncated-segment-not-synced", "Left-out fsync: commit log",
        "a truncated segment gets its old end back after a crash",
        (CHANGE, "        file.sync()\n        file.allocate(", "        file.allocate("),
        (CHANGE, "change.segment_end - change.segment_base)\n        file.sync()\n",
         "change.segment_end - change.segment_base)\n"),
        kind=Kind.GUARD, near=CUTTING,
    ),
    plant(
        "log-truncation-removal-not-synced", "Left-out fsync: commit log",
        "segments and snapshots behind a cut come back after a crash",
        (CHANGE,
         "    for part in PARTS:\n        disk.sync_directory(f\"{directory}/{part}\")\n\n\ndef _fit",
         "\n\ndef _fit"),
        (CHANGE, "        file.close()\n    disk.sync_directory(f\"{directory}/log\")\n",
         "        file.close()\n"),
        kind=Kind.GUARD, near=CUTTING,
    ),
    plant(
        "log-installed-segment-not-synced", "Left-out fsync: commit log",
        "a copied segment is swapped in before it is durable",
        ("storage/replicate/install.py", "        file.sync()\n        self.close()\n",
         "        self.close()\n"),
        kind=Kind.GUARD, near=("tests/storage/test_base_copy.py", *CUTTING),
    ),
    plant(
        "log-catching-up-note-late", "Left-out fsync: commit log",
        "a slave trusts no claims any more before the note that says so is durable",
        ("storage/commit_log/catching_up.py", "self._offload.submit(lambda: disk.replace(path, note), self._noted)",
         "self._noted(None, None)"),
        kind=Kind.ORDER, near=("tests/storage/test_catching_up_durability.py", *FOLLOWING),
    ),
)  # fmt: skip

RECOVERY_BUGS = (
    plant(
        "log-frame-checksum-unchecked", "Checksums",
        "recovery takes a frame whose checksum does not agree",
        ("frames/frames.py",
         "    if crc32c(buffer[at + 4 : covered_end]) != header.crc:\n"
         '        raise CorruptFrame(header.position, "frame checksum does not agree")\n', ""),
        kind=Kind.GUARD, near=("tests/storage/test_formats.py", *RECOVERY),
    ),
    plant(
        "log-batch-checksum-unchecked", "Checksums",
        "recovery keeps a torn batch: its checksum is not looked at",
        ("frames/frames.py",
         "    if crc32c(buffer[covered_end:end]) != CRC.unpack_from(buffer, payload + 17)[0]:\n"
         '        raise CorruptFrame(header.position, "batch checksum does not agree")\n', ""),
        kind=Kind.GUARD, near=("tests/storage/test_formats.py", *RECOVERY),
    ),
    plant(
        "log-recovery-cuts-durable-records", "Recovery",
        "damage in the middle of durable records is taken for a torn end, and all behind it is cut",
        (RECOVER,
         "            if header.flushed_before > self.position and header.position < self._proof_end:\n"
         "                raise CorruptLog(self._directory, self.position, self.report.stop_reason)\n",
         "            pass\n"),
        kind=Kind.GUARD, near=("tests/storage/test_proofs_of_damage.py", *RECOVERY),
    ),
    plant(
        "log-rot-at-the-end-is-cut", "Recovery",
        "damage in the last durable record is taken for a torn end and cut",
        (RECOVER, "        if self.position < self._synced:\n", "        if False:\n"),
        kind=Kind.GUARD, near=("tests/storage/test_proofs_of_damage.py", *RECOVERY),
    ),
    plant(
        "log-reads-unchecked", "Checksums",
        "a consumer is given a record that has rotted on the disk",
        ("storage/read/read_check.py",
         "        crc32c(data[head + 4 : covered_end]) != crc\n        or crc32c",
         "        crc32c"),
        ("storage/read/read_check.py", "[covered_end : at + size]) != batch_crc\n",
         "[covered_end : at + size]) < 0\n"),
        kind=Kind.GUARD, near=("tests/storage/test_rotten_reads.py", "tests/storage/test_reading.py"),
    ),
    plant(
        "log-recovery-keeps-stale-tail", "Recovery",
        "old frames stay behind the recovered end, and are read again behind newer ones",
        (RECOVER, "        if not is_untouched:\n            self._empty_tail",
         "        if False:\n            self._empty_tail"),
        kind=Kind.GUARD, near=RECOVERY,
    ),
    plant(
        "log-recovery-cuts-one-frame-too-many", "Recovery",
        "the last whole frame of the log is not read at a start",
        ("storage/recover/scan.py", "            self.position = Position(self.position + header.frame_bytes)\n            yield",
         "            if not any(self._file.read(\n"
         "                self.position - self._base + header.frame_bytes, FRAME_HEADER_BYTES\n"
         "            )):\n                return\n"
         "            self.position = Position(self.position + header.frame_bytes)\n            yield"),
        kind=Kind.RANGE, near=RECOVERY,
    ),
    plant(
        "log-recovery-trusts-unproved-claims", "Recovery",
        "a slave that was catching up refuses to start: its frames' claims count as proof",
        (RECOVER, "        self._proof_end = read_note(", "        read_note("),
        kind=Kind.GUARD, near=("tests/storage/test_catching_up_durability.py", *FOLLOWING),
    ),
    plant(
        "log-claims-too-much", "Recovery",
        "frames claim that everything before them was flushed",
        (WRITER, "            position - self.claim.position,\n            base_offset,\n",
         "            0,\n            base_offset,\n"),
        kind=Kind.RANGE, near=(*WRITING, *RECOVERY),
    ),
    plant(
        "log-epochs-lost-at-restart", "Leader epochs",
        "masterships that began behind the snapshot are forgotten by a restart",
        (RECOVER, "                self.epochs.append((LeaderEpoch(epoch), Position(start)))\n", "                pass\n"),
        kind=Kind.SNAPSHOT, near=RECOVERY,
    ),
    plant(
        "log-slave-forgets-epochs", "Leader epochs",
        "a slave does not remember masterships that reach it with the stream",
        ("storage/replicate/run_append.py",
         "            self._checkpointer.epochs.append((frame.leader_epoch, writer.epoch_start))\n", ""),
        kind=Kind.SNAPSHOT, near=FOLLOWING,
    ),
    plant(
        "log-empty-mastership-not-recorded", "Leader epochs",
        "a mastership that wrote nothing leaves no trace in the log",
        (WRITER, "            self._stage_epoch()\n        return self.epoch_start",
         "        return self.epoch_start"),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_epoch_at_segment_end.py", *RECOVERY),
    ),
    plant(
        "log-old-epoch-accepted-at-recovery", "Leader epochs",
        "frames of an older mastership behind newer ones are taken for part of the log",
        (RECOVER,
         "        if self.epochs and header.leader_epoch < self.epochs[-1][0]:\n"
         '            raise CorruptLog(self._directory, header.position, "leader epoch went back")\n',
         ""),
        kind=Kind.GUARD, near=("tests/storage/test_proofs_of_damage.py", *RECOVERY),
    ),
    plant(
        "log-snapshot-of-unconfirmed", "Recovery",
        "a snapshot of what the set has not confirmed is written, and can not be cut any more",
        ("storage/commit_log/checkpoint.py", "return self._is_sole_member or position <= self.confirmed_position",
         "return True"),
        kind=Kind.SNAPSHOT, near=CUTTING,
    ),
)  # fmt: skip

TRUNCATION = (
    plant(
        "log-truncation-keeps-later-segments", "Truncation",
        "segments behind the cut stay, and their frames come back",
        (CHANGE, 'is_behind = name.endswith(".log") and int(name[:20]) > change.segment_base', "is_behind = False"),
        kind=Kind.CLEARED, near=CUTTING,
    ),
    plant(
        "log-truncation-keeps-snapshot", "Truncation",
        "a snapshot that speaks of what was cut stays",
        (CHANGE, "is_kept = change.kind is ChangeKind.TRUNCATE and int(name[:20]) <= change.position",
         "is_kept = True"),
        kind=Kind.SNAPSHOT, near=CUTTING,
    ),
    plant(
        "log-interrupted-rebuild-forgotten", "Truncation",
        "a truncation below the snapshots that a crash interrupts is not gone on with",
        (RECOVER, "            complete_change(self._disk, self._directory, self._change)\n",
         "            complete_change(self._disk, self._directory, self._change)\n"
         "            remove_change(self._disk, self._directory)\n"),
        kind=Kind.CLEARED, near=("tests/storage/test_truncation_durability.py", *CUTTING),
    ),
    plant(
        "log-interrupted-truncation-not-completed", "Truncation",
        "a truncation that a crash interrupted is dropped at the next start",
        (RECOVER, "            complete_change(self._disk, self._directory, self._change)\n",
         "            pass\n"),
        kind=Kind.GUARD, near=CUTTING,
    ),
    plant(
        "log-truncation-keeps-producer-windows", "Truncation",
        "a producer's retry of a batch that was cut is answered as a duplicate, and lost",
        ("storage/commit_log/truncation.py",
         "kept = tuple(span for span in window if span[2] < ends.get(key[0], 0))", "kept = window"),
        kind=Kind.CLEARED, near=("tests/storage/test_truncation_durability.py", *CUTTING),
    ),
    plant(
        "log-install-unchecked", "Checksums",
        "a copied base is swapped in without looking at its frames",
        ("storage/replicate/install.py",
         "if scan.position == end or (not is_last and scan.error is None):", "if True:"),
        kind=Kind.GUARD, near=("tests/storage/test_base_copy.py",),
    ),
    plant(
        "log-install-keeps-segments-of-another-copy", "Truncation",
        "a copy goes on with segments of an earlier copy from another history",
        ("storage/replicate/install.py",
         "if _epoch_at(earlier, end) != _epoch_at(manifest, end):", "if False:"),
        kind=Kind.CLEARED, near=("tests/storage/test_base_copy.py", *CUTTING),
    ),
)  # fmt: skip

RUNS = (
    plant(
        "slave-frame-checksum-unchecked", "Checksums",
        "a slave writes a frame whose header was damaged on the way",
        (CHECK,
         "        if crc32c(view[at + 4 : covered]) != crc:\n"
         '            raise BadRun(position, "frame checksum does not agree")\n', ""),
        kind=Kind.GUARD, near=FOLLOWING,
    ),
    plant(
        "slave-batch-checksum-unchecked", "Checksums",
        "a slave writes a batch that was damaged on the way",
        (CHECK,
         "        if crc32c(view[covered:end]) != batch_crc:\n"
         '            raise BadRun(position, "batch checksum does not agree")\n', ""),
        kind=Kind.GUARD, near=FOLLOWING,
    ),
    plant(
        "slave-takes-offset-gap", "Following",
        "a slave takes a batch whose offset does not follow from what it has",
        (CHECK,
         "        if base_offset < 0 or (expected >= 0 and base_offset != expected):\n"
         '            raise BadRun(position, f"offset {base_offset}, expected {expected}")\n', ""),
        kind=Kind.GUARD, near=FOLLOWING,
    ),
    plant(
        "slave-takes-run-at-gap", "Following",
        "a slave takes a run that does not begin at the end of its log",
        ("storage/replicate/run_append.py",
         "        if run.position != end:\n            raise GapInRun(run.position, end)\n", ""),
        kind=Kind.GUARD, near=FOLLOWING,
    ),
    plant(
        "slave-takes-older-epoch", "Leader epochs",
        "a slave takes batches of an epoch that its log is past",
        (CHECK, "if end - payload < BATCH_HEADER_BYTES or epoch != self._epoch:",
         "if end - payload < BATCH_HEADER_BYTES:"),
        kind=Kind.GUARD, near=("tests/storage/test_run_epochs.py", *FOLLOWING),
    ),
    plant(
        "slave-epoch-starts-anywhere", "Leader epochs",
        "a slave takes an epoch frame that names another start than the one it knows",
        (CHECK,
         "        if epoch == known and start != self._epoch_start:\n"
         '            raise BadRun(position, f"epoch {epoch} starts at {self._epoch_start}, not'
         ' {start}")\n', ""),
        kind=Kind.GUARD, near=("tests/storage/test_run_epochs.py", *FOLLOWING),
    ),
    plant(
        "slave-writes-untrue-claims", "Following",
        "a slave writes frames that claim as flushed what it has not flushed",
        (CHECK, "if trusts_claims and position - unflushed > flushed:", "if False:"),
        kind=Kind.GUARD, near=FOLLOWING,
    ),
)  # fmt: skip

MUTANTS = (*SYNCS, *RECOVERY_BUGS, *TRUNCATION, *RUNS)
