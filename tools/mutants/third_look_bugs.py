"""Planted bugs of a third look, by somebody who had not written the code."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

PROMISE = ("tests/replication/test_promise.py",)
CONFIRM = ("tests/replication/test_confirm.py",)
SYNC = ("tests/replication/test_sync_state.py",)

REPLICATION = (
    plant("promise-released-for-the-older-epoch", "Promises", "a member that is released by a controller that knows a newer mastership confirms for the older one",
          ("replication/promise.py", "        was_open, self._is_open = self._is_open, False\n        self._leader_epoch = leader_epoch\n", "        was_open, self._is_open = self._is_open, False\n"),
          kind=Kind.EPOCH, near=PROMISE),
    plant("confirm-the-start-itself-by-counting", "Confirm position", "everything before a mastership is confirmed by counting, without the frame that starts it",
          ("replication/confirm.py", "or lowest <= self._epoch_start:", "or lowest < self._epoch_start:"),
          kind=Kind.RANGE, near=CONFIRM),
    plant("in-step-adaptive-by-the-confirm-position-alone", "In step", "a smaller set under adaptive keeps members without what an earlier master confirmed",
          ("replication/sync_state.py", "confirmed = max(view.confirm_position, view.epoch_start)", "confirmed = view.confirm_position"),
          kind=Kind.STALE, near=SYNC),
    plant("in-step-before-its-mark-was-set", "In step", "a slave that connects again counts as caught up by what the master had before",
          ("replication/sync_state.py", "        slave.acknowledged = position\n        slave.mark_position, slave.mark_ms = log_end, now_ms\n", "        slave.acknowledged = position\n        slave.mark_ms = now_ms\n"),
          kind=Kind.STALE, near=SYNC),
)  # fmt: skip

CONTROLLER = (
    plant("drain-leaves-adaptive-copies-uncounted", "Drains", "under adaptive those that stay may lack what the drained broker was counted for",
          ("controller/commands/brokers.py", "    if replica_set.policy.kind is PolicyKind.ADAPTIVE:\n        return tuple(one for one in (replica_set.master,)", "    if False:\n        return tuple(one for one in (replica_set.master,)"),
          kind=Kind.GUARD, near=("tests/controller/test_registration.py",)),
    plant("snapshot-of-levels-without-their-epoch", "Metadata", "who installs a snapshot goes on with the epoch of features that it had",
          ("controller/metadata/install.py", "    image.features_epoch = newer.features_epoch\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/controller/test_features.py", "tests/controller/test_replay.py", "tests/controller/test_carried_over.py")),
    plant("deleted-topic-keeps-its-name", "Metadata", "a topic can not be created whose name collides with one that is gone",
          ("controller/metadata/replay.py", "    del image.names_by_metric[metric_name(topic.name)]\n", ""),
          kind=Kind.CLEARED, near=("tests/controller/test_replay.py", "tests/controller/test_change_topics.py", "tests/controller/test_create_topics.py")),
    plant("leader-plan-moves-that-change-nothing", "Masterships", "a plan moves masterships between brokers that are as level as they can be",
          ("controller/commands/leader_plan.py", "loads[target] + weight < loads[source]", "loads[target] + weight <= loads[source]"),
          kind=Kind.RANGE, near=("tests/controller/test_leader_plan.py",)),
    plant("placement-counts-a-topic-once", "Metadata", "of the sets that a command fills the last one's load counts for all",
          ("controller/commands/placement.py", "            self._loads[set_id] += count\n", "            self._loads[set_id] = count\n"),
          kind=Kind.STALE, near=("tests/controller/test_create_topics.py", "tests/controller/test_sets_on_demand.py", "tests/controller/test_change_topics.py")),
    plant("set-conflicts-with-who-is-far-behind", "Metadata", "a set begins behind its leader in the ring only and repeats a member or ends early",
          ("controller/commands/spread.py", "best = min(left, key=lambda one: shared(one, members, places))", "best = max(left, key=lambda one: shared(one, members, places))"),
          kind=Kind.ORDER, near=("tests/controller/test_spread.py",)),
)  # fmt: skip

CONTROLLER += (
    plant("level-raised-over-a-broker-started-anew", "Metadata", "the level rises over a broker that was started under an earlier release since the look",
          ("controller/commands/features.py", "if checked.get(key) != broker.broker_epoch", "if key not in checked"),
          kind=Kind.EPOCH, near=("tests/controller/test_features.py",)),
    plant("snapshot-hides-removed-brokers", "Metadata", "who installs a snapshot does not hear of brokers that were removed meanwhile",
          ("controller/metadata/install.py", "        removed_brokers=tuple(\n            one for key, one in image.brokers.items() if key not in newer.brokers\n        ),\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/controller/test_replay.py", "tests/controller/test_carried_over.py", "tests/controller/test_features.py")),
    plant("failed-log-of-an-earlier-mastership", "Election", "the word that a log has failed counts after its member leads again",
          ("controller/active/context.py", "        return self.reports[master][set_id].report.leader_epoch == replica_set.leader_epoch", "        return True"),
          kind=Kind.EPOCH, near=("tests/controller/test_failed_logs.py",)),
    plant("promises-of-the-own-term-are-kept", "Promises", "a member that promised something to this controller is not released by its heartbeat",
          ("controller/active/promises.py", "if NOT_PROMISED < report.promised_to <= self._context.controller_epoch", "if NOT_PROMISED < report.promised_to < self._context.controller_epoch"),
          kind=Kind.RANGE, near=("tests/controller/test_promises.py",)),
)  # fmt: skip

RAFT = (
    plant("raft-writes-outlive-an-installed-snapshot", "Raft", "a write under way from before a snapshot makes entries behind it count as durable",
          ("raft/log.py", "        self._forget_writes_after(self.commit_index)\n", ""),
          kind=Kind.CLEARED, near=("tests/raft/test_log.py", "tests/raft/test_raft_paper_snapshots.py", "tests/raft/test_safety.py")),
    plant("raft-configuration-forgotten-with-a-snapshot", "Raft", "a follower whose log is cut below a snapshot's end has no voters of before",
          ("raft/log.py", "        self.configurations.compact(last_dropped)\n", "        self.configurations.compact(self.last_index)\n"),
          kind=Kind.SNAPSHOT, near=("tests/raft/test_log.py", "tests/raft/test_members.py", "tests/raft/test_raft_paper_snapshots.py", "tests/raft/test_safety.py")),
    plant("raft-lost-voter-is-lost-anew", "Raft", "a voter with a wiped disk never gets its vote back: each look begins its time anew",
          ("raft/roles/replication.py", "{voter: self.lost_since.get(voter, core.ticks) for voter in lost}", "{voter: core.ticks for voter in lost}"),
          kind=Kind.CLEARED, near=("tests/raft/test_directories.py", "tests/raft/test_members.py")),
    plant("raft-part-of-an-earlier-snapshot-counts", "Raft", "the answer to an earlier snapshot moves the place in the present one",
          ("raft/roles/replication.py", "        if is_other or is_under_way:\n", "        if is_under_way:\n"),
          kind=Kind.EPOCH, near=("tests/raft/test_raft_paper_snapshots.py", "tests/raft/test_scripts.py", "tests/raft/test_safety.py")),
)  # fmt: skip

RAFT += (
    plant("raft-feeds-who-has-left", "Raft", "a leader sends entries to peers that are no voters and no learners any more",
          ("raft/roles/replication.py", "        for peer_id in [p for p in self.peers if p not in wanted]:\n            del self.peers[peer_id]\n", ""),
          kind=Kind.CLEARED, near=("tests/raft/test_learners.py", "tests/raft/test_members.py")),
    plant("raft-reads-of-the-round-before", "Raft", "a learner that lost its log goes on where it was",
          ("raft/roles/leader.py", "        if progress is None or is_other or message.last_index < progress.match_index:\n", "        if progress is None or is_other:\n"),
          kind=Kind.STALE, near=("tests/raft/test_learners.py", "tests/raft/test_members.py", "tests/raft/test_directories.py")),
)  # fmt: skip

STORAGE = (
    plant("stores-cut-forgets-the-older-store", "Stores of a partition", "a log that is cut below its snapshots begins where the commit log does",
          ("storage/commit_log/truncation.py", "        partition.reach_back(max(state.log_start_offset, older.start_offset(partition)))\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/storage/test_stores.py",)),
    plant("stores-apart-where-they-touch", "Stores of a partition", "a store that ends where the next begins counts as one with a gap",
          ("storage/stores/older.py", "            if end < start:\n", "            if end <= start:\n"),
          kind=Kind.RANGE, near=("tests/storage/test_stores.py",)),
    plant("catching-up-over-before-it-is-flushed", "Following", "the note that claims prove nothing goes while they still do not",
          ("storage/commit_log/catching_up.py", "        if position < self._end:\n            return\n", ""),
          kind=Kind.CLEARED, near=("tests/storage/test_catching_up_durability.py",)),
    plant("checkpoint-waiters-outlive-a-reopened-log", "Checkpoints", "whoever waits for a snapshot of a log that is opened anew is never told",
          ("storage/commit_log/checkpoint.py", "        given_up = [*self._served, *self._waiting] if not self._is_writing else self._waiting\n", "        given_up = self._waiting\n"),
          kind=Kind.CLEARED, near=("tests/storage/test_truncation.py",)),
    plant("spare-takes-the-name-of-another", "Retention", "a segment that is recycled after a start takes the name of a spare that there is",
          ("storage/commit_log/segments.py", "self._spare_number = 1 + max((", "self._spare_number = max(("),
          kind=Kind.RANGE, near=("tests/storage/test_retention.py", "tests/storage/test_files.py")),
    plant("removed-segment-is-held-open", "Retention", "a read that ends behind a deletion opens the file of a segment that is gone, or of another",
          ("storage/commit_log/segments.py", "if self.is_closed or segment not in self.segments or segment is self.active:", "if self.is_closed or segment is self.active:"),
          kind=Kind.STALE, near=("tests/storage/test_retention.py", "tests/storage/test_guarded_removal.py", "tests/storage/test_reading.py")),
    plant("fitted-segment-keeps-the-next-one", "Following", "the file that was prepared behind a segment that was shortened or lengthened stays",
          ("storage/commit_log/segments.py", "            disk.remove(next_path)\n            disk.sync_directory(next_path", "            disk.sync_directory(next_path"),
          kind=Kind.CLEARED, near=("tests/storage/test_runs.py", "tests/storage/test_small_first_segments.py")),
)  # fmt: skip

RUNTIME = (
    plant("mending-cuts-at-the-damage-found-first", "Damage", "damage below the one that was found first is left in the log",
          ("runtime/ha/mending.py", "        if self.damage is not None and position >= self.damage.position:\n", "        if self.damage is not None:\n"),
          kind=Kind.STALE, near=("tests/runtime/test_mending.py",)),
    plant("pause-ended-for-an-earlier-asker", "Transfers", "the end of an earlier transfer lets a master take writes amid the next one",
          ("runtime/ha/master_set.py", "if self.pause is not None and self.pause.asker <= asker:", "if self.pause is not None:"),
          kind=Kind.EPOCH, near=("tests/runtime/test_ha_transfer.py", "tests/runtime/test_ha_promises.py", "tests/runtime/test_replica_manager.py")),
    plant("shared-run-of-a-shorter-log", "Following", "a second slave gets a run that ends where the log ended for the first one",
          ("runtime/ha/shared_run.py", "run.position == position and self._written == written", "run.position == position"),
          kind=Kind.STALE, near=("tests/runtime/test_ha_shared_run.py",)),
    plant("install-outlives-its-link", "Following", "a copy whose link is gone waits for pieces that nobody sends",
          ("runtime/ha/followed_set.py", "if self.state in {State.GREETED, State.STREAMING, State.INSTALLING}:", "if self.state in {State.GREETED, State.STREAMING}:"),
          kind=Kind.CLEARED, near=("tests/runtime/test_followed_set.py", "tests/runtime/test_ha_first_sync.py")),
    plant("failed-log-reports-the-epoch-that-it-led", "Damage", "the word that a log has failed is of an older mastership than the one it is about",
          ("runtime/replica_manager.py", "leader_epoch=newest if has_failed else member.leader_epoch", "leader_epoch=member.leader_epoch"),
          kind=Kind.EPOCH, near=("tests/runtime/test_ha_failed_log.py", "tests/runtime/test_ha_damage.py")),
    plant("resumed-mastership-forgets-who-holds-it", "Leader epochs", "what slaves said before a mastership resumes counts only when they say more",
          ("runtime/ha/master_set.py", "            if session.is_streaming:\n                self.member.acknowledge(broker_id, session.acknowledged)\n", "            if False:\n                self.member.acknowledge(broker_id, session.acknowledged)\n"),
          kind=Kind.CLEARED, near=("tests/runtime/test_slave_session.py", "tests/runtime/test_resumed_masterships.py")),
)  # fmt: skip

RUNTIME += (
    plant("session-of-another-log-goes-on", "In step", "a slave whose log was registered anew is sent runs as the one that it was",
          ("runtime/ha/master_set.py", "            if known.get(session.broker_id) != session.replica_id:\n                session.refuse(Reason.UNKNOWN_REPLICA, self.leader_epoch)\n", "            pass\n"),
          kind=Kind.STALE, near=("tests/runtime/test_slave_session.py", "tests/runtime/test_ha_server.py", "tests/runtime/test_resumed_masterships.py", "tests/runtime/test_replica_manager.py")),
    plant("mending-damage-at-the-very-end", "Damage", "damage that was cut away already, right at the end, costs the log its role",
          ("runtime/ha/mending.py", "or position >= set_log.end_position:", "or position > set_log.end_position:"),
          kind=Kind.RANGE, near=("tests/runtime/test_ha_damage.py", "tests/runtime/test_mending.py")),
)  # fmt: skip

COORDINATORS = (
    plant("groups-newcomer-delays-again-and-again", "Groups", "one member that joins during the delay keeps it going to the rebalance timeout",
          ("groups/classic/rebalance.py", "            group.initial_delay_left_ms = left_ms - delay_ms\n            group.newcomer_during_delay = False\n", "            group.initial_delay_left_ms = left_ms - delay_ms\n"),
          kind=Kind.CLEARED, near=("tests/groups/test_rebalance.py", "tests/groups/test_joining.py")),
    plant("groups-topic-deleted-twice-counts-once", "Groups", "of a topic that was deleted twice before its groups were reached the first one's positions stay",
          ("groups/offsets/commits.py", "            self._gone.setdefault(name, {None}).add(topic_id)\n", "            self._gone[name] = {None, topic_id}\n"),
          kind=Kind.CLEARED, near=("tests/groups/test_commits.py", "tests/groups/test_many_groups.py", "tests/groups/test_partition_portions.py")),
    plant("groups-replaced-member-compared-with-itself", "Groups", "a static member that comes back with other topics keeps its assignment",
          ("groups/classic/joining.py", "        old_metadata = member.metadata_for(group.protocol_name)\n        group.offer(member, request.protocols)\n", "        group.offer(member, request.protocols)\n        old_metadata = member.metadata_for(group.protocol_name)\n"),
          kind=Kind.ORDER, near=("tests/groups/test_static_members.py",)),
    plant("groups-room-of-a-commit-counts-once", "Groups", "each position of a commit may take all the room that there is",
          ("groups/offsets/commits.py", "                room -= growth\n", ""),
          kind=Kind.STALE, near=("tests/groups/test_commits.py", "tests/groups/test_positions_memory.py")),
    plant("coordinator-adopts-while-the-former-leaves", "Groups", "deadlines of a partition that came back are cancelled as its former state's",
          ("coordinator/runtime.py", "        while partition in self._leaving and not is_over():\n", "        while False and not is_over():\n"),
          kind=Kind.ORDER, near=("tests/coordinator/test_runtime.py", "tests/groups/test_partition_portions.py", "tests/groups/test_loading.py")),
    plant("groups-expire-by-their-commits-alone", "Groups", "a group with old positions goes in the moment in which its last member leaves",
          ("groups/classic/expiry.py", "wall_ms - max(last_commit_ms, group.state_since_ms) > retention_ms", "wall_ms - last_commit_ms > retention_ms"),
          kind=Kind.STALE, near=("tests/groups/test_admin.py", "tests/groups/test_commits.py", "tests/groups/test_many_groups.py")),
    plant("groups-expire-a-millisecond-early", "Groups", "a group goes when the retention time is up, not behind it",
          ("groups/classic/expiry.py", "group.state_since_ms) > retention_ms", "group.state_since_ms) >= retention_ms"),
          kind=Kind.RANGE, near=("tests/groups/test_admin.py", "tests/groups/test_commits.py", "tests/groups/test_many_groups.py")),
    plant("groups-record-of-the-state-before", "Groups", "a restored group's idle time counts from its load and not from its record",
          ("groups/classic/snapshot.py", "    group.state_since_ms = max(record.state_timestamp_ms, 0)\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/groups/test_loading.py", "tests/groups/test_admin.py")),
    plant("groups-topics-deleted-amid-a-pass-stay", "Groups", "positions of a topic that is deleted while a pass over all groups runs stay",
          ("groups/offsets/commits.py", "        while self._gone:\n            gone, self._gone", "        if self._gone:\n            gone, self._gone"),
          kind=Kind.CLEARED, near=("tests/groups/test_commits.py", "tests/groups/test_many_groups.py", "tests/groups/test_partition_portions.py")),
    plant("groups-expire-though-used-meanwhile", "Groups", "a group that commits while its positions are looked at is deleted",
          ("groups/classic/expiry.py", "    if not _may_go(group) or group.offsets.change_count != change_count:\n", "    if not _may_go(group):\n"),
          kind=Kind.STALE, near=("tests/groups/test_admin.py", "tests/groups/test_many_groups.py", "tests/groups/test_partition_portions.py")),
)  # fmt: skip

MUTANTS = (*REPLICATION, *CONTROLLER, *RAFT, *STORAGE, *RUNTIME, *COORDINATORS)
