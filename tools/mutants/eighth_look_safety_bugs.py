"""Bugs of what decides what is safe to keep, to hand over and to call confirmed."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

RANGE = "storage/second_level/range_rebuild.py"
ADMISSIONS, FETCHING = "kafka/shares/admissions.py", "kafka/shares/fetching.py"
SYNC_STATE, ALIGN = "replication/sync_state.py", "replication/alignment.py"
LEADER, RAFT_LOG, QUEUE = "raft/roles/leader.py", "raft/log.py", "runtime/raft/disk_queue.py"
REPLAY, LIVENESS = "controller/metadata/replay_sets.py", "controller/active/liveness.py"
CHECKPOINT, RETENTION = (
    "storage/commit_log/checkpoint.py",
    "storage/commit_log/retention.py",
)
RUNTIME, EXPIRY = (
    "coordinator/runtime.py",
    "groups/expiry.py",
)
TXN_COORDINATOR, DECIDE, TABLE = (
    "transactions/coordinator.py",
    "transactions/decide.py",
    "transactions/table.py",
)
SNAPSHOT, SHARE = (
    "shares/snapshot.py",
    "shares/share.py",
)
PARTITIONS, MARKERS, GUARDS = (
    "broker/partitions.py",
    "broker/append/markers.py",
    "broker/append/transactional.py",
)
TRUNCATION = "storage/commit_log/truncation.py"
GROUPS, STATE = "groups/table.py", "transactions/state.py"
CLOCK = "broker/sets/retention_clock.py"
IN_STEP, ALIGNED = (
    ("tests/replication/test_sync_state_returns.py", "tests/replication/test_sync_state.py"),
    ("tests/replication/test_alignment.py",),
)

MUTANTS = (
    plant("taken-part-has-the-epoch-behind-it", "Second level: cleaning and repair", "the part of an extent that is taken notes an epoch of which it has nothing",
          (RANGE, "    count = bisect_left(starts, end_offset)\n", "    count = bisect_right(starts, end_offset)\n"),
          kind=Kind.RANGE, near=("tests/storage/test_range_rebuild.py",)),
    plant("share-void-question-is-noted", "Shares", "no answer for a share that is void ends the questions of its group, or takes away a newer answer",
          (ADMISSIONS, "            if self._said.get(key) is not said:\n                continue  # void: the deletion may have come after the answer\n", ""),
          kind=Kind.STALE, near=("tests/kafka/test_share_admissions.py",)),
    plant("share-fetch-is-early-for-ever", "Shares", "a fetch that came before its share was loaded looks again all the time",
          (FETCHING, "        self._is_asking = self._is_refused = self._is_early = False\n", "        self._is_asking = self._is_refused = False\n"),
          kind=Kind.CLEARED, near=("tests/kafka/test_share_waits.py",)),
    # Replication
    plant("adaptive-safe-set-by-its-size", "Sync-state set", "a member that takes another one's place under adaptive counts as if it had been there",
          (SYNC_STATE, "is_smaller = not set(self._recorded.sync_state_set) <= set(wanted)", "is_smaller = len(wanted) < len(self._recorded.sync_state_set)"),
          kind=Kind.RANGE, near=IN_STEP),
    plant("caught-up-before-it-connected", "Sync-state set", "what a slave was to reach before it connected again counts as reached now",
          (SYNC_STATE, "        slave.mark_position, slave.mark_ms = log_end, now_ms\n\n    def disconnected", "        slave.mark_ms = now_ms\n\n    def disconnected"),
          kind=Kind.CLEARED, near=IN_STEP),
    plant("in-step-by-the-logs-of-before", "Sync-state set", "what a lost log acknowledged counts for the one in its place",
          (SYNC_STATE, "        self._recorded = recorded\n        replaced = tuple(\n", "        earlier, self._recorded = self._recorded, recorded\n        replaced = tuple(\n"),
          (SYNC_STATE, "{NO_REPLICA, recorded.replica_ids.get(broker_id)}", "{NO_REPLICA, earlier.replica_ids.get(broker_id)}"),
          kind=Kind.STALE, near=IN_STEP),
    plant("aligned-beyond-the-common-epoch", "Alignment", "a slave keeps the bytes of a later epoch that its master does not know",
          (ALIGN, "end = min(slave.end_of(at), master.end_of(master_at))", "end = min(slave.end_position, master.end_of(master_at))"),
          kind=Kind.RANGE, near=ALIGNED),
    # Raft
    plant("raft-majority-heard-of-a-lost-directory", "Raft", "a voter that runs with an empty directory keeps a leader in office",
          (LEADER, "counted = {voter: self._replicator.counted(voter) for voter in core.other_voters}", "counted = {voter: self._peers.get(voter) for voter in core.other_voters}"),
          kind=Kind.EPOCH, near=("tests/raft/test_directories.py",)),
    plant("raft-first-state-of-a-write", "Raft", "of several votes or terms that share a write the first is kept",
          (QUEUE, "for one in reversed(group) if one.hard_state", "for one in group if one.hard_state"),
          kind=Kind.ORDER, near=("tests/runtime/test_disk_queue.py",)),
    plant("raft-installed-beside-a-write", "Raft", "a write under way counts as that of entries behind a snapshot that was installed meanwhile",
          (RAFT_LOG, "        self._forget_writes_after(self.commit_index)\n", ""),
          kind=Kind.CLEARED, near=("tests/raft/test_log.py",)),
    plant("raft-leader-begins-with-nothing-uncommitted", "Raft", "entries of earlier terms are taken off a count that never had them",
          (LEADER, "self._uncommitted_bytes = log.bytes_between(log.commit_index, log.last_index)", "self._uncommitted_bytes = 0"),
          kind=Kind.STALE, near=("tests/raft/test_raft_thesis.py", "tests/raft/test_raft_paper.py",)),
    # Controller
    plant("next-replica-id-falls-with-a-snapshot", "Controller", "a replica id is given out twice once the metadata were read from a snapshot",
          (REPLAY, "next_replica_id=max(before.next_replica_id, ReplicaId(replica_id + 1)),", "next_replica_id=ReplicaId(replica_id + 1),"),
          kind=Kind.SNAPSHOT, near=("tests/controller/test_told_by_snapshots.py", "tests/controller/test_replay.py", "tests/controller/test_install.py",)),
    plant("last-master-of-the-image-before", "Controller", "who led last is forgotten where a set without a master is read from a snapshot",
          (REPLAY, "last_master=record.master if is_anybody else record.last_master,", "last_master=record.master if is_anybody else before.last_master,"),
          kind=Kind.SNAPSHOT, near=("tests/controller/test_replay.py", "tests/controller/test_election.py", "tests/controller/test_install.py",)),
    plant("own-pause-excuses-into-the-future", "Controller", "a broker that was heard amid a pause of the controller counts as heard later than now, and dies later",
          (LIVENESS, "session.heard_ms = min(now_ms, session.heard_ms + paused_ms)", "session.heard_ms = session.heard_ms + paused_ms"),
          kind=Kind.RANGE, near=("tests/controller/test_liveness.py",)),
    # Storage
    plant("failed-checkpoint-keeps-its-side-file", "Snapshots", "what a failed checkpoint had taken is in no side file",
          (CHECKPOINT, "is_new_side = store.active.base != self._side_base or self.last_error is not None", "is_new_side = store.active.base != self._side_base"),
          kind=Kind.STALE, near=("tests/storage/test_memory_and_snapshot.py",)),
    plant("retention-size-of-the-first-segment", "Retention", "the bytes of the segment in which a size was taken count for ever",
          (RETENTION, "        elif partition.sized_from <= segment.base:\n", "        elif partition.sized_from < segment.base:\n"),
          kind=Kind.RANGE, near=("tests/storage/test_retention.py",)),
    plant("cut-at-a-marker-decides-it", "Truncation", "a marker that ends exactly where a log is cut opens its transaction again",
          (TRUNCATION, "yield one._replace(marker_end=OPEN) if one.marker_end > position else one", "yield one._replace(marker_end=OPEN) if one.marker_end >= position else one"),
          kind=Kind.RANGE, near=("tests/storage/test_transactional_truncation.py", "tests/storage/test_transaction_model.py", "tests/storage/test_transactional_runs.py", "tests/storage/test_truncation.py",)),
    # Coordinators and groups
    plant("rewrite-held-for-the-next-mastership", "Coordinators", "a partition that was held once is never rewritten here again, and its growth counts twice",
          (RUNTIME, "        self._unread.pop(partition, None)\n        self.base.rewrites.forget(partition)\n", "        self._unread.pop(partition, None)\n"),
          kind=Kind.STALE, near=("tests/coordinator/test_runtime.py", "tests/coordinator/test_shards.py", "tests/coordinator/test_rewrite_tracker.py",)),
    plant("group-expires-by-its-commits-alone", "Consumer groups", "a group whose members have just left loses its positions if they are old",
          (EXPIRY, "wall_ms - max(last_commit_ms, group.state_since_ms) > retention_ms", "wall_ms - last_commit_ms > retention_ms"),
          kind=Kind.STALE, near=("tests/groups/test_admin.py", "tests/groups/test_vacant_groups.py", "tests/groups/test_unread_records.py", "tests/groups/test_machine.py",)),
    plant("writers-of-ended-transactions", "Consumer groups", "which groups a producer has written in outlives its transaction",
          (GROUPS, "return [*self._of.get(partition, {}).pop(producer_id, ())]", "return [*self._of.get(partition, {}).get(producer_id, ())]"),
          kind=Kind.CLEARED, near=("tests/groups/test_transactional_commits.py", "tests/groups/test_loading.py",)),
    plant("loaded-bytes-count-for-nothing", "Coordinators", "a partition that was loaded is due for a rewrite only after it has grown as much again",
          (RUNTIME, "        self.base.rewrites.appended(partition, loading.loaded_bytes)\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/coordinator/test_runtime.py", "tests/coordinator/test_shards.py",)),
    # Transactions
    plant("time-out-of-the-newest-partition", "Transactions", "each partition that enters an open transaction gives it its whole time again",
          (TXN_COORDINATOR, "        elif self._base.deadlines.at(key) is None:\n            open_for_ms = max(self._clock.wall_ms() - one.start_ms, 0)\n", "        else:\n            open_for_ms = 0\n"),
          kind=Kind.CLEARED, near=("tests/transactions/test_producers.py", "tests/transactions/test_retries.py", "tests/transactions/test_machine.py",)),
    plant("number-of-each-added-partition", "Transactions", "a transaction that gets more partitions counts as the next one, and its late marker is taken for overtaken",
          (DECIDE, "number=one.number if is_going else one.number + 1,", "number=one.number + 1,"),
          kind=Kind.RANGE, near=("tests/transactions/test_producers.py", "tests/transactions/test_records.py", "tests/transactions/test_machine.py",)),
    plant("growth-of-a-refused-change-stays", "Transactions", "places that a refused change would have taken are never given back",
          (TABLE, "        self._grow(*(-each for each in self._growth.pop(ticket)))\n", "        self._growth.pop(ticket)\n"),
          kind=Kind.CLEARED, near=("tests/transactions/test_portions.py", "tests/transactions/test_retries.py", "tests/transactions/test_machine.py",)),
    plant("id-before-the-last-is-forgotten", "Transactions", "a retry of the end that used up an id's epochs is refused as somebody else's",
          (STATE, "            previous_producer_id=self.producer_id,\n", ""),
          kind=Kind.CLEARED, near=("tests/transactions/test_end.py", "tests/transactions/test_producers.py", "tests/transactions/test_machine.py",)),
    # Shares
    plant("share-snapshot-since-its-end", "Shares", "updates that were replayed amid a snapshot count as covered by it",
          (SNAPSHOT, "    share.snapshot_seq = since\n", "    share.snapshot_seq = share.seq\n"),
          kind=Kind.SNAPSHOT, near=("tests/shares/test_large.py", "tests/shares/test_rewrites.py", "tests/shares/test_records.py", "tests/shares/test_histories.py",)),
    plant("share-ends-with-the-chunk-read-last", "Shares", "a chunk that a snapshot wrote late moves the end of the window back",
          (SNAPSHOT, "share.end = max(share.end, (number << SHIFT) + end)", "share.end = (number << SHIFT) + end"),
          kind=Kind.SNAPSHOT, near=("tests/shares/test_rewrites.py", "tests/shares/test_records.py", "tests/shares/test_histories.py",)),
    plant("share-moved-beyond-its-end", "Shares", "a window that was moved beyond all that was handed out ends before it begins",
          (SHARE, "        self.end = max(self.end, self.base)\n", ""),
          kind=Kind.RANGE, near=("tests/shares/test_updates.py", "tests/shares/test_histories.py",)),
    plant("share-freed-before-the-first-free", "Shares", "records that come back before the first free chunk are not found",
          (SHARE, "                    self.first_free = min(self.first_free, first >> SHIFT)\n                else:\n", "                else:\n"),
          kind=Kind.STALE, near=("tests/shares/test_large.py", "tests/shares/test_taking.py", "tests/shares/test_updates.py", "tests/shares/test_histories.py",)),
    # Broker
    plant("marker-overtaken-by-an-earlier-mastership", "Markers", "what an earlier mastership noted of a transaction has this one's marker given up",
          (MARKERS, "    if leader_epoch != hosted.member.leader_epoch:\n        newest = NO_NUMBER\n", ""),
          kind=Kind.EPOCH, near=("tests/broker/test_transactional_appends.py", "tests/kafka/test_late_markers.py",)),
    plant("numbers-of-transactions-of-two-masterships", "Markers", "numbers that an earlier mastership noted stay for ever",
          (GUARDS, "    if older is not None and older[0] != leader_epoch:\n        numbers.clear()\n", ""),
          kind=Kind.CLEARED, near=("tests/broker/test_transactional_appends.py", "tests/kafka/test_late_markers.py",)),
    plant("jump-of-the-clock-goes-on-counting", "Retention", "a second jump of the wall clock is accepted by the time of the first one",
          (CLOCK, "        if jump_ms <= JUMP_MS:\n            self._since_ms = None\n            self._lead_ms = lead_ms\n", "        if jump_ms <= JUMP_MS:\n            self._lead_ms = lead_ms\n"),
          kind=Kind.CLEARED, near=("tests/broker/test_retention_clock.py",)),
)  # fmt: skip
