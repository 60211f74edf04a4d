"""Planted bugs of an outsider's second look, which no test of their room noticed at first."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

CONTENTS = ("tests/storage/test_run_contents.py",)
SNAPSHOTS = ("tests/storage/test_memory_and_snapshot.py",)
RAFT_FILES = ("tests/runtime/test_raft_storage.py",)
RAFT_LOG = ("tests/runtime/test_raft_log.py",)
RAFT_MEMBERS = ("tests/raft/test_members.py",)
RESUMED = ("tests/runtime/test_resumed_masterships.py",)
REDIAL = ("tests/runtime/test_session_redialling.py",)
COMMANDS = ("tests/runtime/test_session_commands.py",)
SESSION = ("tests/runtime/test_session.py",)
FAILOVER = ("tests/controller/test_failover.py",)
PROMISES = ("tests/controller/test_promises.py",)
DEADLINES = ("tests/groups/test_deadlines.py",)
PORTIONS = ("tests/groups/test_portions.py",)
RECORDS = ("tests/coordinator/test_records.py",)
RUNTIME = ("tests/coordinator/test_runtime.py",)
UNREAD = ("tests/coordinator/test_unread.py",)
TRACKER = ("tests/coordinator/test_rewrite_tracker.py",)
LOADING = ("tests/groups/test_loading.py",)
OWNED = ("tests/broker/test_group_ownership.py",)
REWRITE = ("tests/broker/test_group_rewrite.py",)

STORAGE = (
    plant("runs-first-offset-below-zero", "Following", "a slave takes a partition that begins below offset 0",
          ("frames/run_check.py", "if base_offset < 0 or (expected >= 0 and base_offset != expected):", "if base_offset != expected and (expected >= 0 or base_offset < 0):"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-batch-ends-before-it-begins", "Following", "a slave takes a batch after which its partition ends earlier than before",
          ("frames/run_check.py", "batch_epoch != epoch or delta < 0 or magic", "batch_epoch != epoch or magic"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-go-on-behind-the-end-marker", "Following", "a slave writes frames where nobody reads them, behind the end of a segment",
          ("frames/run_check.py", "size - at < FRAME_HEADER_BYTES or self._is_ended:", "size - at < FRAME_HEADER_BYTES:"),
          kind=Kind.GUARD, near=CONTENTS),
    plant("recovery-forgets-the-newest-time", "Recovery", "snapshots after a start do not say how new a partition's newest record is",
          ("storage/recover/recovery.py", "            partition.max_timestamp = state.max_timestamp\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-counts-off-twice", "Recovery", "after a start what was taken off a partition's size is taken off again",
          ("storage/recover/recovery.py", "            partition.sized_from = state.sized_from\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-log-start-behind-the-end", "Recovery", "a replayed log start lies behind the partition's end",
          ("storage/recover/recovery.py", "tell_log_start(min(Offset(offset), partition.log_end_offset))", "tell_log_start(Offset(offset))"),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-claim-over-a-windows-edge", "Recovery", "durable records behind damage are cut off where the proof lies over the edge of what is read at a time",
          ("storage/recover/scan.py", "Position(position + len(data) - FRAME_HEADER_BYTES)", "Position(position + len(data))"),
          kind=Kind.RANGE, near=("tests/storage/test_proofs_of_damage.py",)),
)  # fmt: skip

METADATA = (
    plant("raft-room-of-a-failed-write", "Raft", "space that was cut off with a failed write counts as set aside",
          ("runtime/raft/storage.py", "        self._allocated = position\n", ""),
          kind=Kind.CLEARED, near=RAFT_FILES),
    plant("raft-rewritten-log-without-its-end", "Raft", "a vote that is damaged right after a rewrite of the log is taken for a torn write, and forgotten",
          ("runtime/raft/storage.py", "        self._end_position = self._allocated = len(head) + len(frame)\n        self._end_mark.write(self._end_position)\n", "        self._end_position = self._allocated = len(head) + len(frame)\n"),
          kind=Kind.ORDER, near=RAFT_FILES),
    plant("raft-learner-keeps-a-dead-leader", "Raft", "a learner names a leader that was not heard of for long",
          ("raft/roles/follower.py", "            core.leader_id = NO_PEER\n        self._hello", "            pass\n        self._hello"),
          kind=Kind.STALE, near=RAFT_MEMBERS),
    plant("raft-hearsay-over-the-log", "Raft", "a voter that has moved is looked for where an old welcome named it",
          ("raft/core.py", "{**dict(self.hearsay_voters), **self.configuration.addresses}", "{**self.configuration.addresses, **dict(self.hearsay_voters)}"),
          kind=Kind.STALE, near=RAFT_MEMBERS),
    plant("raft-removed-voter-is-not-told", "Raft", "a removed voter hears of it only when it disturbs the others",
          ("raft/roles/leader.py", "            core.learners.note(peer_id, core.ticks, self._peers[peer_id].directory_id)\n", "            pass\n"),
          kind=Kind.ORDER, near=RAFT_MEMBERS),
    plant("raft-change-outlives-leadership", "Raft", "who asked a leader that was replaced for a change of members hears nothing",
          ("runtime/raft/raft_log.py", "            self._members.fail_changes(error)\n", ""),
          kind=Kind.CLEARED, near=RAFT_LOG),
)  # fmt: skip

SESSIONS = (
    plant("sessions-redial-as-after-failures", "Sessions", "a controller that was there for hours is dialled as slowly as one that refuses",
          ("net/redial.py", "            self._next_ms = self._min_ms\n", "            pass\n"),
          kind=Kind.STALE, near=REDIAL),
    plant("sessions-refused-before-it-is-seen", "Sessions", "a master hears that its set has changed before its image says so",
          ("runtime/session/commands.py", "if error is None or isinstance(error, RefusedCommand):", "if error is None:"),
          kind=Kind.ORDER, near=COMMANDS),
    plant("sessions-strangers-kept-for-ever", "Sessions", "every session of a second process under a broker's id stays in memory",
          ("runtime/session/service.py", "        self._rivals.pop(session, None)\n", ""),
          kind=Kind.CLEARED, near=SESSION),
    plant("election-static-master-over-the-operator", "Election", "an operator that names another master while failover is off gets the old one, or none",
          ("controller/active/elections.py", "is_failover_enabled and one.done is None:", "is_failover_enabled:"),
          kind=Kind.STALE, near=FAILOVER),
    plant("promises-released-on-a-refusal", "Election", "promises are released while the controllers' log may still record what rests on them",
          ("controller/active/context.py", "isinstance(answer, MetadataTimeout | NotActiveController)", "isinstance(answer, MetadataTimeout)"),
          kind=Kind.CLEARED, near=PROMISES),
)  # fmt: skip

ROLES = (
    plant("role-begun-anew-in-its-epoch", "Leader epochs", "a mastership that is held is begun anew when its set grows from one member or shrinks to one, and refuses all writes under way",
          ("runtime/ha/set_driver.py", "if self.member is not None and wish != self._done:", "if self.member is not None and (type(wish), wish) != (type(self._done), self._done):"),
          ("runtime/ha/set_driver.py", "if wish == self._done or self.is_stopped:", "if (type(wish), wish) == (type(self._done), self._done) or self.is_stopped:"),
          kind=Kind.STALE, near=RESUMED),
)  # fmt: skip

COORDINATORS = (
    plant("coordinator-deadlines-out-of-order", "Groups", "deadlines are late once most of those before them were cancelled",
          ("coordinator/deadlines.py", "            self._times = list(self._buckets)\n            heapq.heapify(self._times)\n", "            self._times = list(self._buckets)\n"),
          kind=Kind.ORDER, near=DEADLINES),
    plant("coordinator-turns-asked-for-twice", "Groups", "each work that begins while others wait adds a portion to the next turn of the loop",
          ("coordinator/portions.py", "        if not self._is_running and not self._is_due:\n", "        if not self._is_running:\n"),
          kind=Kind.CLEARED, near=PORTIONS),
    plant("coordinator-rewrite-batch-too-large", "Groups", "a batch of a rewrite is larger than some logs take",
          ("coordinator/records.py", "            batch, size_bytes = [], records_bytes((record,))\n", "            batch, size_bytes = [], 0\n"),
          kind=Kind.RANGE, near=RECORDS),
    plant("coordinator-unread-outlives-its-tenure", "Groups", "what could not be read counts after its partition was given up",
          ("coordinator/runtime.py", "        self._unread.pop(partition, None)\n", ""),
          kind=Kind.CLEARED, near=RUNTIME),
    plant("a-refused-write-is-dropped-later", "Groups", "a rewrite in between writes what the journal has refused",
          ("coordinator/writes.py", "                self.in_flight -= 1\n                change.refuse()\n                self._portions.begin(_say(told, reason))\n", "                begun(reason)\n"),
          kind=Kind.ORDER, near=("tests/coordinator/test_writes.py",)),
    plant("coordinator-told-before-it-shows", "Groups", "whoever is told that a write is confirmed does not find it",
          ("coordinator/writes.py", "            if reason is not Unwritten.LATE:\n                self.in_flight -= 1\n                if reason is None:\n                    change.confirm()\n                else:\n                    change.refuse()\n            if not is_told:\n                is_told = True\n                told(reason)\n", "            if not is_told:\n                is_told = True\n                told(reason)\n            if reason is not Unwritten.LATE:\n                self.in_flight -= 1\n                if reason is None:\n                    change.confirm()\n                else:\n                    change.refuse()\n"),
          kind=Kind.ORDER, near=RUNTIME),
    plant("coordinator-unread-one-byte-too-few", "Groups", "a partition is not rewritten though memory has room for what it can not read",
          ("coordinator/unread.py", "            if self.size_bytes > self._bytes_max:\n", "            if self.size_bytes >= self._bytes_max:\n"),
          kind=Kind.RANGE, near=UNREAD),
    plant("coordinator-counts-partitions-too-late", "Groups", "a topic with more partitions than the setting ends the broker that leads it",
          ("broker/coordinators/hosting.py", "        if hosted_ones:\n            self.runtime.base.partitions.use_count(len(self._journal.partitions))\n        for partition, hosted in hosted_ones.items():\n            if partition not in self._masterships:\n                self._take_over(partition, hosted)\n", "        for partition, hosted in hosted_ones.items():\n            if partition not in self._masterships:\n                self._take_over(partition, hosted)\n        if hosted_ones:\n            self.runtime.base.partitions.use_count(len(self._journal.partitions))\n"),
          kind=Kind.ORDER, near=OWNED),
    plant("coordinator-retry-of-a-lost-tenure", "Groups", "a broker loads a partition that another one leads by now",
          ("broker/coordinators/hosting.py", "            if mastership.is_over:\n                return\n", ""),
          kind=Kind.STALE, near=OWNED),
    plant("coordinator-retry-on-what-was-read", "Groups", "a partition that is read again holds some records twice",
          ("broker/coordinators/hosting.py", "            self.runtime.unload(partition)\n            self.runtime.begin_loading(partition)\n            self._load(mastership)\n", "            self._load(mastership)\n"),
          kind=Kind.CLEARED, near=OWNED),
    plant("coordinator-shrunk-set-ends-a-write", "Groups", "a commit is refused and shows again at the next coordinator",
          ("broker/coordinators/journal.py", "        \"\"\"Ignore a smaller set: the live state must agree with the log, where the write remains.\"\"\"\n", "        self._close(Unwritten.TOO_FEW_IN_STEP)\n"),
          kind=Kind.SNAPSHOT, near=OWNED),
    plant("coordinator-late-rewrite-is-over", "Groups", "a rewrite that takes long cuts nothing off",
          ("broker/coordinators/rewrite.py", "        if error is Unwritten.LATE:  # called again with the outcome\n            return\n", ""),
          kind=Kind.CLEARED, near=REWRITE),
    plant("coordinator-cut-while-handed-over", "Groups", "a rewrite cuts off records by a frame that the next master does not have",
          ("broker/coordinators/rewrite.py", "            hosted.member.check_writable()\n            hosted.member.log.delete", "            hosted.member.log.delete"),
          kind=Kind.GUARD, near=REWRITE),
    plant("coordinator-readers-are-not-woken", "Groups", "who waits for records of the internal topic waits until its time is up",
          ("broker/coordinators/journal.py", "        if hosted.waiters:\n            member.watch(member.log.end_position, hosted)\n", ""),
          kind=Kind.GUARD, near=OWNED),
    plant("coordinator-size-outlives-its-tenure", "Groups", "a partition is rewritten by the size that it had in an earlier mastership",
          ("coordinator/rewrites.py", "        self._appended.pop(partition, None)\n        self._live.pop(partition, None)\n", "        self._appended.pop(partition, None)\n"),
          kind=Kind.STALE, near=TRACKER),
    plant("coordinator-rewrite-over-before-it-is", "Groups", "a rewrite that is asked for when the one before ends is refused",
          ("broker/coordinators/rewrite.py", "            del self._of[rewrite.hosted]\n            rewrite.on_done(rewrite.live_bytes if self._cut(rewrite) else None)\n", "            rewrite.on_done(rewrite.live_bytes if self._cut(rewrite) else None)\n            del self._of[rewrite.hosted]\n"),
          kind=Kind.ORDER, near=REWRITE),
    plant("coordinator-late-again-and-again", "Groups", "a write that takes long is called late once a second",
          ("broker/coordinators/journal.py", "        if self._is_open and not self._is_overdue:\n", "        if self._is_open:\n"),
          kind=Kind.CLEARED, near=OWNED),
    plant("coordinator-largest-size-counts", "Groups", "a partition that was large once is never rewritten as a small one",
          ("coordinator/rewrites.py", "        self._live[partition] = live_bytes\n        self._appended[partition] = 0\n", "        self._live[partition] = max(live_bytes, self._live.get(partition, 0))\n        self._appended[partition] = 0\n"),
          kind=Kind.STALE, near=TRACKER),
    plant("coordinator-half-made-groups-count", "Groups", "groups that were never shown count in memory for ever",
          ("coordinator/runtime.py", "        yield from loading.loader.discard()\n", "        yield 1\n"),
          kind=Kind.CLEARED, near=LOADING),
)  # fmt: skip

MUTANTS = (*STORAGE, *METADATA, *SESSIONS, *ROLES, *COORDINATORS)
