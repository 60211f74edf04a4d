"""Planted bugs that a careful reader thought of, and that no test of their room noticed at first."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import CONTROLLER, GROUPS, IN_STEP

KEEPER = "replication/sync_state.py"
FOLLOWED = "replica/followed_set.py"
PENDING = "replica/pending_runs.py"
CHECKPOINT = "storage/commit_log/checkpoint.py"
MASTERSHIPS = "controller/commands/masterships.py"
TRANSFERS = "controller/active/transfers.py"
DRAINS = "controller/active/drains.py"

FOLLOWS = ("tests/replica/test_followed_set.py",)
REGISTERED = ("tests/controller/test_registration.py", *CONTROLLER)
MOVED = ("tests/controller/test_transfers.py", *CONTROLLER)
SNAPSHOTS = ("tests/storage/test_memory_and_snapshot.py",)

IN_STEP_AND_LINKS = (
    plant(
        "sync-grace-begins-again", "Sync-state set",
        "a slave that greets and is gone again, for ever, is never found to be away",
        (KEEPER, "if slave is not None and slave.is_connected:\n            slave.is_connected = False",
         "if slave is not None:\n            slave.is_connected = False"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "sync-failures-outlive-the-set", "Sync-state set",
        "changes of a new set wait as long as the last ones of the set before",
        (KEEPER, "            self._is_answered = False\n            self._failures = 0\n",
         "            self._is_answered = False\n"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "follow-begins-where-an-earlier-link-did", "Following",
        "what was agreed on an earlier link begins on the next one before the master has answered",
        (FOLLOWED, "        self._pending.clear()\n        self._begin_at = None\n",
         "        self._pending.clear()\n"),
        kind=Kind.STALE, near=FOLLOWS,
    ),
    plant(
        "follow-pending-bytes-for-ever", "Following",
        "what waited on links that are gone counts against the master's next ones",
        (PENDING, "        self.runs.clear()\n        self._bytes = 0\n", "        self.runs.clear()\n"),
        kind=Kind.CLEARED, near=FOLLOWS,
    ),
    plant(
        "follow-rest-of-a-run-last", "Following",
        "the rest of a run that the log took in part is appended behind what came after it",
        (PENDING, "            self.runs.appendleft(run)\n", "            self.runs.append(run)\n"),
        kind=Kind.ORDER, near=FOLLOWS,
    ),
    plant(
        "follow-acknowledged-before-the-cut", "Following",
        "a slave that was cut is silent until it holds more than it ever acknowledged",
        (FOLLOWED, "        self._failures = 0\n        self._acknowledged = position\n",
         "        self._failures = 0\n"),
        kind=Kind.STALE, near=FOLLOWS,
    ),
    plant(
        "set-removed-members-log-known", "Sync-state set",
        "the log of a member that was removed is taken for registered when it comes back",
        ("controller/metadata/replay_sets.py", "        log_ids=_only(before.log_ids, members),\n",
         "        log_ids=before.log_ids,\n"),
        kind=Kind.STALE, near=REGISTERED,
    ),
    plant(
        "set-floor-survives-unclean", "Election",
        "after an unclean election more answers are asked for than there can be copies",
        (MASTERSHIPS, "    floor = NO_FLOOR if wanted.is_unclean else raised_floor(after)\n",
         "    floor = raised_floor(after)\n"),
        kind=Kind.CLEARED, near=REGISTERED,
    ),
    plant(
        "set-floor-of-the-set-before", "Election",
        "how many hold everything after an election is counted in the set before it",
        (MASTERSHIPS, "    floor = NO_FLOOR if wanted.is_unclean else raised_floor(after)\n",
         "    floor = NO_FLOOR if wanted.is_unclean else raised_floor(replica_set)\n"),
        kind=Kind.STALE, near=REGISTERED,
    ),
)  # fmt: skip

LOGS = (
    plant(
        "producers-window-over-epochs", "Producers",
        "what a producer sent in an earlier epoch answers a batch of a later one as a duplicate",
        ("storage/index/producers.py", "state[0] == header.producer_epoch\n        window = state[2] if state is not None and is_same else ()\n        if",
         "state[0] <= header.producer_epoch\n        window = state[2] if state is not None and is_same else ()\n        if"),
        kind=Kind.EPOCH, near=("tests/storage/test_producers.py",),
    ),
    plant(
        "checkpoint-changes-only-after-abandoning", "Recovery",
        "a clean snapshot that is written beside a checkpoint lacks all that did not change",
        (CHECKPOINT, "        self._holds_all = False\n        captured = self.capture(is_clean=is_clean)\n",
         "        captured = self.capture(is_clean=is_clean)\n"),
        kind=Kind.SNAPSHOT, near=SNAPSHOTS,
    ),
    plant(
        "checkpoint-shares-files-with-one-under-way", "Recovery",
        "a checkpoint that is under way writes its snapshot after the clean one of the close",
        (CHECKPOINT, "        if self._is_writing or self._captured is not None:\n",
         "        if not self._is_writing and self._captured is not None:\n"),
        kind=Kind.ORDER, near=SNAPSHOTS,
    ),
)  # fmt: skip

POSITIONS = (
    plant(
        "groups-deletes-confirmed-positions-only", "Groups",
        "a commit that is under way when its position is deleted is back after a start",
        ("groups/offsets/commits.py", "        known = {*group.offsets.keys()}\n",
         "        known = group.offsets.values\n"),
        kind=Kind.SNAPSHOT, near=("tests/groups/test_commits.py", *GROUPS),
    ),
    plant(
        "groups-topic-takes-confirmed-positions-only", "Groups",
        "a commit that is under way when its topic is deleted stays",
        ("groups/offsets/commits.py", "latest = group.offsets.latest_of(keys)",
         "latest = {key: group.offsets.values[key] for key in keys if key in group.offsets.values}"),
        kind=Kind.SNAPSHOT, near=("tests/groups/test_commits.py", *GROUPS),
    ),
    plant(
        "groups-older-change-in-a-rewrite", "Groups",
        "a rewrite takes a change that is under way for newer than one that was confirmed before it",
        ("coordinator/confirmed_map.py",
         "            for key in changes.keys() & wanted.keys():\n                if self._changed_by.get(key, 0) < ticket:\n                    _change(merged, key, changes[key])",
         "            for key in changes.keys() & wanted.keys():\n                _change(merged, key, changes[key])"),
        kind=Kind.ORDER, near=GROUPS,
    ),
    plant(
        "groups-metadata-half-read", "Groups",
        "a group of whose record only the front can be read has the members before the damage",
        ("groups/loading.py", "            self._note_unread(error.reason)\n            group = self._new_group(group_id, wall_ms)\n",
         "            self._note_unread(error.reason)\n"),
        kind=Kind.CLEARED, near=("tests/groups/test_partition_portions.py", *GROUPS),
    ),
)  # fmt: skip

REMEMBERED = (
    plant(
        "raft-snapshot-parts-of-two", "Raft: what is remembered",
        "the parts of a snapshot that the leader gave up stay, and those of the next one follow them",
        ("raft/roles/snapshot_receiver.py", "            self._name = name\n            self._parts.clear()\n",
         "            self._name = name\n"),
        kind=Kind.CLEARED, near=("tests/raft/test_raft_paper_snapshots.py",),
    ),
    plant(
        "raft-transfer-asked-once-for-ever", "Raft: what is remembered",
        "a successor that did not hear that it should campaign is never asked again in that term",
        ("raft/roles/transfer.py", "core.config.election_ticks_min\n            self._is_asked = False\n",
         "core.config.election_ticks_min\n"),
        kind=Kind.STALE, near=("tests/raft/test_raft_thesis.py",),
    ),
    plant(
        "retention-active-by-the-last-record", "Retention",
        "records that are to be kept go from the active segment where an older one came after them",
        ("storage/commit_log/retention.py",
         "if partition.timestamps[-1] >= limit_ms or not 0 <= max(partition.timestamps) < limit_ms:",
         "if partition.timestamps[-1] >= limit_ms:"),
        kind=Kind.RANGE, near=("tests/storage/test_retention.py",),
    ),
    plant(
        "member-epochs-of-before-the-stream", "Leader epochs",
        "a slave tells the ends of epochs by the masterships that it knew when it began to follow",
        ("replica/replica_set.py",
         "        if self.log.leader_epoch != self.epochs.latest:\n            self.epochs = EpochHistory(self.log.epochs)\n", ""),
        kind=Kind.STALE, near=("tests/replica/test_replica_set_roles.py",),
    ),
)  # fmt: skip

DUTIES = (
    plant(
        "transfer-wait-outlives-leadership", "Leader epochs",
        "a controller that leads again waits for what failed while it led before",
        (TRANSFERS, "            _tell(transfer, error)\n        self._not_before_ms.clear()\n",
         "            _tell(transfer, error)\n"),
        kind=Kind.CLEARED, near=MOVED,
    ),
    plant(
        "transfer-joined-to-another-target", "Leader epochs",
        "an operator waits for a transfer to a broker that was not asked for, and hears of success",
        (TRANSFERS, "if transfer is None or transfer.target != target:", "if transfer is None:"),
        kind=Kind.STALE, near=MOVED,
    ),
    plant(
        "transfer-joined-and-not-told", "Leader epochs",
        "only the first of the operators who wait for a transfer hears how it ends",
        (TRANSFERS, "    for done in transfer.waiting:\n", "    for done in transfer.waiting[:1]:\n"),
        kind=Kind.CLEARED, near=MOVED,
    ),
    plant(
        "transfer-lost-though-submitted", "Leader epochs",
        "an operator hears that a transfer has failed, and then it is recorded",
        (TRANSFERS, "if broker_id in {transfer.master, transfer.target} and not transfer.is_submitted:",
         "if broker_id in {transfer.master, transfer.target}:"),
        kind=Kind.ORDER, near=MOVED,
    ),
    plant(
        "transfer-of-an-earlier-master", "Leader epochs",
        "the late word of a master that was replaced moves the set from its successor",
        (TRANSFERS, "if is_other or not self._context.is_able(one.target):",
         "if not self._context.is_able(one.target):"),
        kind=Kind.EPOCH, near=MOVED,
    ),
    plant(
        "drain-told-when-it-leads-nothing", "Sync-state set",
        "a broker can be stopped, the operator hears, while sets still count on it",
        (DRAINS, "        if not held and not led:\n", "        if not led:\n"),
        kind=Kind.ORDER, near=MOVED,
    ),
    plant(
        "drain-leaves-once-only", "Sync-state set",
        "a broker that was drained before keeps its places when it is drained again",
        (DRAINS, "        self._leaving.pop(broker_id, None)\n        wait_ms", "        wait_ms"),
        kind=Kind.CLEARED, near=MOVED,
    ),
)  # fmt: skip

CLAIMS = (
    plant(
        "sync-handshake-keeps-the-most", "Sync-state set",
        "a member whose log was cut counts by what it had acknowledged before, while its master resumes",
        (KEEPER, "        slave.whole_from = whole_from\n        slave.acknowledged = position\n",
         "        slave.whole_from = whole_from\n        slave.acknowledged = max(slave.acknowledged, position)\n"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "groups-rename-forgets-sync", "Groups",
        "a static member that comes back before its sync is waited for under its old id",
        ("groups/classic/group.py",
         "        if old_id in self.awaiting_sync:\n            del self.awaiting_sync[old_id]\n            self.awaiting_sync[new_id] = None\n", ""),
        kind=Kind.CLEARED, near=("tests/groups/test_static_members.py", *GROUPS),
    ),
    plant(
        "groups-key-by-its-beginning", "Groups",
        "a key of a newer form is taken for the known one that it begins like",
        ("groups/records.py", "return name if reader.is_at_end else None", "return name"),
        kind=Kind.SNAPSHOT, near=("tests/groups/test_unread_records.py", *GROUPS),
    ),
    plant(
        "log-later-frame-is-torn", "Recovery",
        "what a later release appended is cut off after a downgrade",
        ("storage/recover/scan.py", "                self._refuse_newer()\n", ""),
        kind=Kind.GUARD, near=("tests/storage/test_newer_formats.py",),
    ),
    plant(
        "log-later-file-is-damaged", "Recovery",
        "the snapshot of a later release is made anew without what it said",
        ("storage/commit_log/parts.py", "        refuse_newer_files(place.disk, place.directory)\n", ""),
        kind=Kind.GUARD, near=("tests/storage/test_newer_formats.py",),
    ),
    plant(
        "pause-forgives-all-silence", "Sessions",
        "a controller that pauses now and then never finds a dead broker",
        ("controller/active/liveness.py", "session.heard_ms = min(now_ms, session.heard_ms + paused_ms)",
         "session.heard_ms = now_ms"),
        kind=Kind.STALE, near=("tests/controller/test_liveness.py", *CONTROLLER),
    ),
    plant(
        "removed-copy-counts-twice", "Acknowledgement policy",
        "elections ask for one answer more than is needed after a member was removed",
        ("controller/commands/overlap.py", "if candidate not in after.candidates and candidate != lost\n",
         "if candidate not in after.candidates\n"),
        kind=Kind.RANGE, near=("tests/controller/test_overlap.py",),
    ),
    plant(
        "raft-mark-of-idle-readys-forgotten", "Raft storage",
        "an entry is durable without that what it rests on is agreed on",
        ("runtime/raft/disk_queue.py", "        self._state = ready.hard_state or self._state\n        return ready", "        return ready"),
        kind=Kind.STALE, near=("tests/runtime/test_raft_known_agreed.py",),
    ),
)  # fmt: skip

MUTANTS = (*IN_STEP_AND_LINKS, *REMEMBERED, *DUTIES, *LOGS, *POSITIONS, *CLAIMS)
