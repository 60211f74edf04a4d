"""Planted bugs of an outsider's second look, which no test of their room noticed at first."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

CONTENTS = ("tests/storage/test_run_contents.py",)
SNAPSHOTS = ("tests/storage/test_memory_and_snapshot.py",)
RAFT_FILES = ("tests/runtime/test_raft_storage.py",)
RAFT_LOG = ("tests/runtime/test_raft_log.py",)
RAFT_MEMBERS = ("tests/raft/test_members.py",)
REDIAL = ("tests/runtime/test_session_redialling.py",)
COMMANDS = ("tests/runtime/test_session_commands.py",)
SESSION = ("tests/runtime/test_session.py",)
FAILOVER = ("tests/controller/test_failover.py",)
PROMISES = ("tests/controller/test_promises.py",)

STORAGE = (
    plant("runs-first-offset-below-zero", "Following", "a slave takes a partition that begins below offset 0",
          ("storage/replicate/run_check.py", "if base_offset < 0 or (expected >= 0 and base_offset != expected):", "if base_offset != expected and (expected >= 0 or base_offset < 0):"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-batch-ends-before-it-begins", "Following", "a slave takes a batch after which its partition ends earlier than before",
          ("storage/replicate/run_check.py", "batch_epoch != epoch or delta < 0 or magic", "batch_epoch != epoch or magic"),
          kind=Kind.RANGE, near=CONTENTS),
    plant("runs-go-on-behind-the-end-marker", "Following", "a slave writes frames where nobody reads them, behind the end of a segment",
          ("storage/replicate/run_check.py", "size - at < FRAME_HEADER_BYTES or self._is_ended:", "size - at < FRAME_HEADER_BYTES:"),
          kind=Kind.GUARD, near=CONTENTS),
    plant("recovery-forgets-the-newest-time", "Recovery", "snapshots after a start do not say how new a partition's newest record is",
          ("storage/recover/recovery.py", "            partition.max_timestamp = state.max_timestamp\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-counts-off-twice", "Recovery", "after a start what was taken off a partition's size is taken off again",
          ("storage/recover/recovery.py", "            partition.sized_from = state.sized_from\n", ""),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-log-start-behind-the-end", "Recovery", "a replayed log start lies behind the partition's end",
          ("storage/recover/recovery.py", "raise_log_start(min(offset, partition.log_end_offset))", "raise_log_start(offset)"),
          kind=Kind.SNAPSHOT, near=SNAPSHOTS),
    plant("recovery-claim-over-a-windows-edge", "Recovery", "durable records behind damage are cut off where the proof lies over the edge of what is read at a time",
          ("storage/recover/scan.py", "position += len(data) - FRAME_HEADER_BYTES", "position += len(data)"),
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
    plant("sessions-strangers-kept-for-ever", "Sessions", "every session of a stranger stays in memory",
          ("runtime/session/service.py", "        self._strangers.pop(session, None)\n", ""),
          kind=Kind.CLEARED, near=SESSION),
    plant("election-static-master-over-the-operator", "Election", "an operator that names another master while failover is off gets the old one, or none",
          ("controller/active/elections.py", "is_failover_enabled and one.done is None:", "is_failover_enabled:"),
          kind=Kind.STALE, near=FAILOVER),
    plant("promises-released-on-a-refusal", "Election", "promises are released while the controllers' log may still record what rests on them",
          ("controller/active/context.py", "isinstance(answer, MetadataTimeout | NotActiveController)", "isinstance(answer, MetadataTimeout)"),
          kind=Kind.CLEARED, near=PROMISES),
)  # fmt: skip

MUTANTS = (*STORAGE, *METADATA, *SESSIONS)
