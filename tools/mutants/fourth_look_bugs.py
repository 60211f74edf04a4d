"""Planted bugs of a fourth look, by somebody who had not written the code: no test of their room
noticed them at first. Three were found in the source: a failed transfer that kept its pause, one
that another controller did not hear of, and the last one.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

PROMISES = ("tests/runtime/test_ha_promises.py",)

RAFT = (
    plant("raft-own-vote-of-an-earlier-term", "Raft", "a vote of an earlier term that becomes durable late is counted in this one",
          ("raft/roles/candidate.py", "own = hard_state.term == core.term and hard_state.voted_for", "own = hard_state.voted_for"),
          kind=Kind.EPOCH, near=("tests/raft/test_raft_thesis.py",)),
    plant("raft-vote-answered-before-its-write", "Raft", "a vote without entries leaves before the disk has it, and is given twice after a crash",
          ("runtime/raft/disk_queue.py", "return ready.must_sync or bool(ready.entries) or", "return bool(ready.entries) or"),
          kind=Kind.GUARD, near=("tests/runtime/test_disk_queue.py", "tests/runtime/test_raft_log.py")),
    plant("raft-known-snapshot-answered-at-once", "Raft", "entries below a snapshot count as held before they are durable",
          ("raft/roles/snapshot_receiver.py", "self._core.send_persisted(chunk.sender, self._success(log.commit_index))", "self._core.send(chunk.sender, self._success(log.commit_index))"),
          kind=Kind.GUARD, near=("tests/raft/test_raft_paper_snapshots.py",)),
)  # fmt: skip

SETS = (
    plant("sole-member-follows", "Claims", "a log that its node opened as the only one claims as a slave what nobody has confirmed",
          ("replica/replica_set.py", "        self.log.is_sole_member = False\n        self.log.follow()\n", "        self.log.follow()\n"),
          kind=Kind.STALE, near=("tests/replica/test_replica_set_roles.py",)),
    plant("lease-of-an-ended-session", "Leases", "a slave that has left still vouches for its old master's reads",
          ("replica/master_set.py", "            self.lease.forget_member(session.broker_id)\n", ""),
          kind=Kind.CLEARED, near=("tests/runtime/test_ha_server.py",)),
    plant("transfer-leaves-waiters", "Transfers", "a master is ready while writes of its clients wait for others than the target",
          ("runtime/ha/transfer.py", "return _holds_all(master_set, target) and not any(queue.is_awaiting for queue in queues)", "return _holds_all(master_set, target)"),
          kind=Kind.GUARD, near=("tests/runtime/test_transfer_pending.py",)),
    plant("probe-of-a-log-being-opened", "Election", "a log that is being cut is told of as it was, and promises",
          ("runtime/replica_manager.py", "if driver is not None and driver.member is not None and not driver.member.log.is_busy:", "if driver is not None and driver.member is not None:"),
          kind=Kind.GUARD, near=PROMISES),
    plant("shared-run-is-not-verified", "Following", "a slave that has its first frames verified gets those that were read for another one",
          ("replica/shared_run.py", "if run is not None and is_known and not is_checked:", "if run is not None and is_known:"),
          kind=Kind.GUARD, near=("tests/replica/test_shared_run.py",)),
)  # fmt: skip

STORAGE = (
    plant("dropped-partition-keeps-producers", "Producers", "a new partition that gets the number of a dropped one takes a first batch for a duplicate",
          ("storage/commit_log/set_log.py", "        self._states.forget_partition(partition.serial)\n", ""),
          kind=Kind.CLEARED, near=("tests/storage/test_memory_and_snapshot.py",)),
    plant("reopened-log-wakes-nobody", "Following", "runs that came while a log was cut wait until the link ends",
          ("storage/commit_log/open_log.py", "        done(None)\n        self.on_append_ready()\n", "        done(None)\n"),
          kind=Kind.GUARD, near=("tests/storage/test_busy_log.py",)),
    plant("copy-counts-what-it-has-not", "Retention", "bytes that were not copied count, so that newer records are deleted",
          ("storage/replicate/install.py", "        size_bytes=sizes.get(state.topic_partition, 0),\n        sized_from=start_position,\n", ""),
          kind=Kind.SNAPSHOT, near=("tests/storage/test_base_copy.py",)),
)  # fmt: skip

LINKS = (
    plant("confirm-that-found-no-room", "Following", "the last confirm position of an idle set is never told, where the link was full",
          ("runtime/ha/server.py", "            elif session.owes_confirm:\n                self._owe(session)\n\n    def _schedule", "\n    def _schedule"),
          kind=Kind.GUARD, near=("tests/runtime/test_ha_server.py",)),
    plant("session-outlives-a-second-greeting", "Following", "a slave that comes again with another log, and is refused, stays in step by the one it lost",
          ("runtime/ha/server.py", "        if earlier is not None:\n            self._end(earlier)\n        master_set", "        master_set"),
          kind=Kind.CLEARED, near=("tests/runtime/test_ha_server.py",)),
    plant("failed-transfer-keeps-its-pause", "Leases", "a master that was not ready reads by its members' lease alone until its mastership ends",
          ("replica/handing_over.py", "        if self._pauses.get(asker) == number:\n            del self._pauses[asker]\n", ""),
          kind=Kind.CLEARED, near=("tests/runtime/test_transfer_pending.py",)),
    plant("handing-over-is-not-reported", "Leases", "a master whose asking controller died is handing over until its mastership ends",
          ("runtime/replica_manager.py", "(driver.promise.asker, None if led is None else led.handing_over.asker)", "(driver.promise.asker,)"),
          kind=Kind.STALE, near=("tests/runtime/test_ha_transfer.py",)),
    plant("failed-transfer-ends-an-earlier-one", "Leases", "a failed request ends what an earlier transfer may still lead to, so that old data are read",
          ("replica/handing_over.py", "        if self._pauses.get(asker) == number:\n            del self._pauses[asker]\n", "        self._pauses.clear()\n"),
          kind=Kind.CLEARED, near=("tests/runtime/test_transfer_pending.py",)),
)  # fmt: skip

FRONT = (
    plant("listed-producers-of-no-partitions", "Turns", "a request that names topics without partitions is answered in one turn of the loop",
          ("kafka/handlers/records/describe_producers.py", "        await pace.step()  # without partitions too\n", ""),
          kind=Kind.GUARD, near=("tests/kafka/test_turns_are_short.py",)),
)  # fmt: skip

MUTANTS = (*RAFT, *SETS, *STORAGE, *LINKS, *FRONT)
