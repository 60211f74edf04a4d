"""Planted bugs of the real disk, of failing disks, retention, and producers."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import DISK, FOLLOWING, PRODUCERS, RECOVERY, RETENTION, WRITING

WRITES = "storage/commit_log/gathered_writes.py"
COMMIT = "storage/commit_log/group_commit.py"
RECOVER = "storage/recover/recovery.py"
RULES = "storage/stores/rules.py"
WINDOW = "storage/index/producers.py"
REAL = "runtime/io/disk.py"
SPACE = "storage/commit_log/space_waiting.py"

REAL_DISK = (
    plant(
        "disk-sync-does-nothing", "Left-out fsync: the disk",
        "the real disk's sync does not reach the kernel",
        (REAL, "            os.fdatasync(self._descriptor)\n", "            pass\n"),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-replace-not-synced", "Left-out fsync: the disk",
        "a replaced file gets its name before its bytes are durable",
        (REAL, "                os.fsync(descriptor)\n            finally", "            finally"),
        kind=Kind.ORDER, near=DISK,
    ),
    plant(
        "disk-replace-forgets-directory", "Left-out fsync: the disk",
        "a replaced file's new name is not durable",
        (REAL, "        _sync_directory(target.parent)\n", ""),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-rename-forgets-directory", "Left-out fsync: the disk",
        "a renamed file's new name is not durable",
        (REAL, "        _sync_directory((self._root / target).parent)\n", ""),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-directory-sync-does-nothing", "Left-out fsync: the disk",
        "syncing a directory does not reach the kernel",
        (REAL, "        _sync_directory(self._root / path)\n", "        pass\n"),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-new-directory-not-synced", "Left-out fsync: the disk",
        "a new directory is gone after a crash, with the log in it",
        (REAL, "                _sync_directory(parent)\n", ""),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-short-write-not-continued", "Writing",
        "a write that the kernel took in part counts as done",
        (REAL, "        while written < total:\n", "        while False:\n"),
        kind=Kind.GUARD, near=DISK,
    ),
    plant(
        "disk-failed-work-reported-as-good", "Failed fsync",
        "an error on a disk thread never reaches the loop",
        (REAL, "                failure = error\n", "                pass\n"),
        kind=Kind.GUARD, near=DISK,
    ),
)  # fmt: skip

FAILURES = (
    plant(
        "log-goes-on-after-failed-fsync", "Failed fsync",
        "a log whose fsync failed acknowledges what the kernel may have dropped",
        (COMMIT, '                self._on_failed(f"sync failed: {error}")\n', "                self._succeeded(target)\n"),
        kind=Kind.GUARD, near=WRITING,
    ),
    plant(
        "log-syncs-again-after-failed-fsync", "Failed fsync",
        "a failed fsync is tried again, and its later success believed",
        (COMMIT, '                self._on_failed(f"sync failed: {error}")\n',
         "                self._unsynced = [*self._lost]\n                self._ticket = self._guard.enter()\n"
         "                self.request()\n"),
        (COMMIT, "        self._under_way = None\n        if error is not None and",
         "        self._lost, self._under_way = self._under_way.files, None\n        if error is not None and"),
        kind=Kind.GUARD, near=WRITING,
    ),
    plant(
        "log-goes-on-after-failed-write", "Failed fsync",
        "a write that failed with an I/O error is tried again as if the disk were full",
        (WRITES, '            self.fence(f"write failed: {error}")\n            return\n',
         "            pass\n"),
        kind=Kind.GUARD, near=WRITING,
    ),
)  # fmt: skip

FULL_DISKS = (
    plant(
        "space-asked-for-once", "Full disks",
        "a log that found the disk full a second time never tries again",
        (SPACE, "        self._timer = None\n        is_all", "        is_all"),
        kind=Kind.CLEARED, near=WRITING,
    ),
    plant(
        "space-is-there-though-not-written", "Full disks",
        "a log says that it is not full while its staged bytes find no space",
        (SPACE, "        elif is_all_written:\n", "        else:\n"),
        kind=Kind.STALE, near=WRITING,
    ),
    plant(
        "space-asked-for-after-the-end", "Full disks",
        "a log that has ended goes on asking for space",
        (SPACE, "        self._is_over = True\n", ""),
        kind=Kind.CLEARED, near=WRITING,
    ),
    plant(
        "space-asked-for-while-opened-anew", "Full disks",
        "a log allocates a file while its directory is being truncated",
        (WRITES, "        self._commit.stop()\n        self.space.stop()\n\n    def settle",
         "        self._commit.stop()\n\n    def settle"),
        kind=Kind.CLEARED, near=WRITING,
    ),
    plant(
        "space-there-and-nothing-written", "Full disks",
        "bytes that were staged while a file was allocated wait for the next append",
        (WRITES, "            self._schedule()\n        self.on_room()\n", "            pass\n        self.on_room()\n"),
        kind=Kind.GUARD, near=WRITING,
    ),
)  # fmt: skip

RETENTION_BUGS = (
    plant(
        "retention-deletes-too-far", "Retention",
        "a partition keeps less than retention.bytes",
        (RULES, "return keep_bytes <= kept_bytes - piece.batch_bytes",
         "return keep_bytes <= kept_bytes"),
        kind=Kind.RANGE, near=RETENTION,
    ),
    plant(
        "retention-forgets-the-newest", "Retention",
        "records younger than retention.ms are deleted",
        (RULES, "if keep_ms >= 0 and 0 <= piece.max_timestamp < self.now_ms - keep_ms:",
         "if keep_ms >= 0 and 0 <= piece.max_timestamp < self.now_ms + keep_ms:"),
        kind=Kind.GUARD, near=RETENTION,
    ),
    plant(
        "retention-removes-living-segment", "Retention",
        "a segment goes when the first of its partitions is done with it",
        ("storage/commit_log/pins.py", "        if not pinning:\n", "        if len(pinning) < 2:\n"),
        kind=Kind.GUARD, near=RETENTION,
    ),
    plant(
        "retention-removes-before-snapshot", "Retention",
        "segments are removed before the new log starts are durable",
        ("storage/stores/retention.py", "self._take_snapshot(self._snapshot_taken)",
         "self._snapshot_taken(True)"),
        kind=Kind.ORDER, near=RETENTION,
    ),
    plant(
        "retention-removes-under-a-read", "Retention",
        "a file is removed and used again while a read off the loop still has it",
        ("storage/commit_log/segments.py", "self.guard.when_clear(lambda: self._delete(segment))",
         "self._delete(segment)"),
        kind=Kind.GUARD, near=("tests/storage/test_guarded_removal.py", *RETENTION),
    ),
)  # fmt: skip

PRODUCER_BUGS = (
    plant(
        "producers-sequence-unchecked", "Producers",
        "a batch is taken although the producer's sequence has a gap",
        (WINDOW, "raise OutOfOrderSequence(producer_id, sequence, (newest + 1) & SEQUENCE_MAX)",
         "return None"),
        kind=Kind.GUARD, near=PRODUCERS,
    ),
    plant(
        "producers-retry-appended-again", "Producers",
        "a producer's retry is appended a second time",
        ("broker/append/append.py", "        if earlier is not None:\n", "        if False:\n"),
        kind=Kind.GUARD, near=("tests/broker/test_batches_end_to_end.py", "tests/broker"),
    ),
    plant(
        "producers-old-epoch-accepted", "Producers",
        "a fenced producer goes on writing",
        (WINDOW, "raise ProducerFenced(producer_id, header.producer_epoch, epoch)", "return None"),
        kind=Kind.GUARD, near=PRODUCERS,
    ),
    plant(
        "producers-window-too-small", "Producers",
        "only the newest batch of a producer is remembered",
        (WINDOW, "WINDOW_BATCHES = 5", "WINDOW_BATCHES = 1"),
        kind=Kind.RANGE, near=PRODUCERS,
    ),
    plant(
        "producers-lost-at-failover", "Producers",
        "a slave does not remember producers, so a new master takes retries again",
        ("storage/replicate/run_append.py", "            index(partition, header, position, size, data[at : at + size])\n",
         "            index(partition, header._replace(producer_id=-1), position, size, data[at : at + size])\n"),
        kind=Kind.SNAPSHOT, near=FOLLOWING,
    ),
    plant(
        "producers-of-snapshot-lost-at-restart", "Producers",
        "a restart forgets the producers that the snapshot has",
        (RECOVER, "        self._states.entries.update(snapshot.producers)\n", ""),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_producers.py", *RECOVERY),
    ),
    plant(
        "producers-told-by-their-oldest-batch", "Producers",
        "the last sequence that is told of a producer is that of its oldest remembered batch",
        (WINDOW, "window[-1][1] if window else NO_SEQUENCE,\n            last_ms", "window[0][1] if window else NO_SEQUENCE,\n            last_ms"),
        kind=Kind.STALE, near=("tests/storage/test_producers.py",),
    ),
    plant(
        "producers-told-of-another-partition", "Producers",
        "the producers of a log are told of each of its partitions",
        (WINDOW, "by_serial.get(key[0])", "next(iter(by_serial.values()))"),
        kind=Kind.GUARD, near=("tests/storage/test_producers.py",),
    ),
    plant(
        "producers-of-tail-lost-at-restart", "Producers",
        "a restart forgets what producers wrote behind the snapshot",
        (RECOVER, "            partition.producers.record(batch, batch.base_offset)\n",
         "            pass\n"),
        kind=Kind.SNAPSHOT, near=("tests/storage/test_producers.py", *RECOVERY),
    ),
)  # fmt: skip

MUTANTS = (*REAL_DISK, *FAILURES, *FULL_DISKS, *RETENTION_BUGS, *PRODUCER_BUGS)
