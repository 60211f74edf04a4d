"""Planted bugs of a third look, by somebody who had not written the code, which no test of their
room noticed at first; two are what that look found in the source.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

GREETING = ("tests/replication/test_greeting_members.py",)

REPLICATION = (
    plant("in-step-adaptive-by-the-confirm-position-alone", "In step", "a smaller set under adaptive keeps members without what an earlier master confirmed",
          ("replication/sync_state.py", "confirmed = max(view.confirm_position, view.epoch_start)", "confirmed = view.confirm_position"),
          kind=Kind.STALE, near=GREETING),
    plant("in-step-before-its-mark-was-set", "In step", "a slave that connects again counts as caught up by what the master had before",
          ("replication/sync_state.py", "        slave.acknowledged = position\n        slave.mark_position, slave.mark_ms = log_end, now_ms\n", "        slave.acknowledged = position\n        slave.mark_ms = now_ms\n"),
          kind=Kind.STALE, near=GREETING),
)  # fmt: skip

CONTROLLER = (
    plant("drain-leaves-adaptive-copies-uncounted", "Drains", "under adaptive those that stay may lack what the drained broker was counted for",
          ("controller/commands/brokers.py", "    if replica_set.policy.kind is PolicyKind.ADAPTIVE:\n        return tuple(one for one in (replica_set.master,)", "    if False:\n        return tuple(one for one in (replica_set.master,)"),
          kind=Kind.GUARD, near=("tests/controller/test_membership.py",)),
    plant("placement-counts-a-topic-once", "Metadata", "of the sets that a command fills the last one's load counts for all",
          ("controller/commands/placement.py", "            self._loads[set_id] += count\n", "            self._loads[set_id] = count\n"),
          kind=Kind.STALE, near=("tests/controller/test_sets_on_demand.py",)),
    plant("failed-log-of-an-earlier-mastership", "Election", "the word that a log has failed counts after its member leads again",
          ("controller/active/context.py", "        return self.reports[master][set_id].report.leader_epoch == replica_set.leader_epoch", "        return True"),
          kind=Kind.EPOCH, near=("tests/controller/test_failed_logs.py",)),
    plant("level-raised-over-a-broker-started-anew", "Metadata", "the level rises over a broker that was started under an earlier release since the look",
          ("controller/commands/features.py", "if checked.get(key) != broker.broker_epoch", "if key not in checked"),
          kind=Kind.EPOCH, near=("tests/controller/test_features.py",)),
)  # fmt: skip

RAFT = (
    plant("raft-configuration-forgotten-with-a-snapshot", "Raft", "a follower whose log is cut below a snapshot's end has no voters of before",
          ("raft/log.py", "        self.configurations.compact(last_dropped)\n", "        self.configurations.compact(self.last_index)\n"),
          kind=Kind.SNAPSHOT, near=("tests/raft/test_log.py",)),
    plant("raft-part-of-an-earlier-snapshot-counts", "Raft", "the answer to an earlier snapshot moves the place in the present one",
          ("raft/roles/replication.py", "        if is_other or is_under_way:\n", "        if is_under_way:\n"),
          kind=Kind.EPOCH, near=("tests/raft/test_raft_paper_snapshots.py",)),
)  # fmt: skip

STORAGE = (
    plant("stores-cut-forgets-the-older-store", "Stores of a partition", "a log that is cut below its snapshots begins where the commit log does",
          ("storage/commit_log/truncation.py", "        partition.reach_back(max(state.log_start_offset, older.start_offset(partition)))\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/storage/test_stores.py",)),
    plant("catching-up-over-before-it-is-flushed", "Following", "the note that claims prove nothing goes while they still do not",
          ("storage/commit_log/catching_up.py", "        if position < self._end:\n            return\n", ""),
          kind=Kind.CLEARED, near=("tests/storage/test_catching_up_durability.py",)),
    plant("checkpoint-waiters-outlive-a-reopened-log", "Checkpoints", "whoever waits for a snapshot of a log that is opened anew is never told",
          ("storage/commit_log/checkpoint.py", "        given_up = [*self._served, *self._waiting] if not self._is_writing else self._waiting\n", "        given_up = self._waiting\n"),
          kind=Kind.CLEARED, near=("tests/storage/test_truncation.py",)),
    plant("removed-segment-is-held-open", "Retention", "a read that ends behind a deletion opens the file of a segment that is gone, or of another",
          ("storage/commit_log/segments.py", "if self.is_closed or segment not in self.segments or segment is self.active:", "if self.is_closed or segment is self.active:"),
          kind=Kind.STALE, near=("tests/storage/test_guarded_removal.py",)),
)  # fmt: skip

RUNTIME = (
    plant("mending-cuts-at-the-damage-found-first", "Damage", "damage below the one that was found first is left in the log",
          ("replica/mending.py", "        if self.damage is not None and position >= self.damage.position:\n", "        if self.damage is not None:\n"),
          kind=Kind.STALE, near=("tests/replica/test_mending.py",)),
    plant("install-outlives-its-link", "Following", "a copy whose link is gone waits for pieces that nobody sends",
          ("replica/followed_set.py", "if self.state in {State.GREETED, State.STREAMING, State.INSTALLING}:", "if self.state in {State.GREETED, State.STREAMING}:"),
          kind=Kind.CLEARED, near=("tests/replica/test_followed_set.py",)),
    plant("failed-log-reports-the-epoch-that-it-led", "Damage", "the word that a log has failed is of an older mastership than the one it is about",
          ("runtime/replica_manager.py", "leader_epoch=newest if has_failed else member.leader_epoch", "leader_epoch=member.leader_epoch"),
          kind=Kind.EPOCH, near=("tests/runtime/test_ha_failed_log.py",)),
    plant("mending-damage-at-the-very-end", "Damage", "damage that was cut away already, right at the end, costs the log its role",
          ("replica/mending.py", "or position >= set_log.end_position:", "or position > set_log.end_position:"),
          kind=Kind.RANGE, near=("tests/replica/test_mending.py",)),
)  # fmt: skip

COORDINATORS = (
    plant("groups-topic-deleted-twice-counts-once", "Groups", "of a topic that was deleted twice before its groups were reached the first one's positions stay",
          ("groups/offsets/commits.py", "            self._gone.setdefault(name, {None}).add(topic_id)\n", "            self._gone[name] = {None, topic_id}\n"),
          kind=Kind.CLEARED, near=("tests/groups/test_many_groups.py",)),
    plant("groups-topics-deleted-amid-a-pass-stay", "Groups", "positions of a topic that is deleted while a pass over all groups runs stay",
          ("groups/offsets/commits.py", "        while self._gone:\n            gone, self._gone", "        if self._gone:\n            gone, self._gone"),
          kind=Kind.CLEARED, near=("tests/groups/test_many_groups.py",)),
)  # fmt: skip

MUTANTS = (*REPLICATION, *CONTROLLER, *RAFT, *STORAGE, *RUNTIME, *COORDINATORS)
