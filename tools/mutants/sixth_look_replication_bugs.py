"""Planted bugs of what a master and its slaves believe of each other: how old an answer is, whose mistake a position is, what of a log may go."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

LEASES = (
    "tests/replica/test_slave_session.py",
    "tests/runtime/test_replaced_controllers.py",
    "tests/runtime/test_ha_server.py",
    "tests/sim/test_directed_leases.py",
)
RUNS = (
    "tests/replica/test_slave_session.py",
    "tests/storage/test_runs.py",
    "tests/storage/test_wrong_positions.py",
)
ALIGNED = ("tests/replication/test_alignment.py", "tests/sim/test_replica_trials.py")
COPY = ("tests/storage/test_base_copy.py",)
UNCONFIRMED = ("tests/storage/test_unconfirmed_retention.py",)

MUTANTS = (
    plant("lease-from-when-the-answer-is-read", "Lease", "an answer that lay in a buffer lets a master read beside its successor",
          ("replica/master_set.py", "            self.lease.note_controller(sent_ms)", "            self.lease.note_controller(self._clock.monotonic_ms())"),
          kind=Kind.STALE, near=LEASES),
    plant("lease-from-when-a-slave-begins", "Lease", "a slave that took long to begin keeps the lease as if it had read something then",
          ("replica/master_set.py", "session.acknowledged, session.greeted_ms)", "session.acknowledged, self._clock.monotonic_ms())"),
          kind=Kind.STALE, near=LEASES),
    plant("lease-by-news-of-who-is-active", "Lease", "a controller that says unasked that it is active gives a lease, whatever it has heard",
          ("runtime/session/link.py", "return None if answer.sent_ms == NO_HEARTBEAT else answer.sent_ms", "return self._clock.monotonic_ms() if answer.sent_ms == NO_HEARTBEAT else answer.sent_ms"),
          kind=Kind.GUARD, near=LEASES),
    plant("earlier-answers-count-each", "Lease", "each of several answers of an earlier release that lay in a buffer counts from now",
          ("runtime/session/link.py", "            return asked_ms\n", "            return self._clock.monotonic_ms()\n"),
          kind=Kind.STALE, near=LEASES),
    plant("lease-goes-back", "Lease", "an answer that comes after a newer one takes from the lease what that gave",
          ("replication/lease.py", "        self._heard_ms[broker_id] = max(sent_ms, self._heard_ms.get(broker_id, sent_ms))", "        self._heard_ms[broker_id] = sent_ms"),
          kind=Kind.ORDER, near=LEASES),
    plant("keep-alives-in-silence-only", "Lease", "on a busy link slaves refer to what was sent long ago, and keep no lease",
          ("runtime/ha/live_link.py", "        self._keep_alive(self._clock.monotonic_ms())\n        if isinstance", "        self._kept_ms = self._clock.monotonic_ms()\n        if isinstance"),
          kind=Kind.STALE, near=LEASES),
    plant("read-before-it-was-sent", "Lease", "a slave that names a time to come keeps the lease until then",
          ("runtime/ha/live_link.py", "message.read_ms > self._heard_ms:", "False:"),
          kind=Kind.GUARD, near=LEASES),
    plant("begin-inside-a-frame-is-damage", "Damage", "a slave that names a position inside a frame has its master take its own log for damaged, and cut it",
          ("storage/replicate/run_read.py", "            return self._doubted(segment, error)\n\n    def _doubted", "            self._reader.on_damage(error.position, error.reason)\n            raise\n\n    def _doubted"),
          kind=Kind.GUARD, near=RUNS),
    plant("cold-begin-inside-a-frame-is-damage", "Damage", "the same, where the bytes come from the disk",
          ("storage/replicate/run_read.py", "                raise blame(file, base, end, error) from error", "                raise"),
          kind=Kind.GUARD, near=RUNS),
    plant("damage-before-the-place-is-not-looked-at", "Damage", "a damaged frame is stepped over, and its log is called whole",
          ("storage/replicate/blame.py", "        if scan.error is not None and scan.error.position <= error.position:\n            return scan.error\n", "        pass\n"),
          kind=Kind.GUARD, near=RUNS),
    plant("wrong-positions-are-scanned-again", "Damage", "a slave that comes again and again has its master read a whole segment each time",
          ("storage/replicate/run_read.py", "        if error.position in self._refuted:\n            raise NoFrameBegins(error.position)\n", ""),
          kind=Kind.GUARD, near=RUNS),
    plant("wrong-slave-is-to-come-again-soon", "Following", "a slave whose log is another one is told to try again, and no operator hears of it",
          ("replica/slave_session.py", "Reason.DIVERGED if is_wrong else Reason.NOT_READY", "Reason.NOT_READY"),
          kind=Kind.GUARD, near=RUNS),
    plant("align-stops-where-the-master-begins", "Truncation", "a slave whose log ends exactly where retention has come to at its master stops for ever",
          ("replication/alignment.py", "if slave.confirm_position <= _known_from(master) or may", "if slave.end_position < master.start_position or slave.confirm_position == 0 or may"),
          kind=Kind.RANGE, near=ALIGNED),
    plant("align-installs-over-another-mastership", "Truncation", "a slave throws away what is confirmed, where its master knows that another one wrote",
          ("replication/alignment.py", "    return min(oldest, master.start_position)", "    return max(oldest, master.start_position)"),
          kind=Kind.RANGE, near=ALIGNED),
    plant("copy-is-closed-amid-a-write", "Following", "a copy that is abandoned has its file closed while it is written: the next file with that descriptor gets the bytes",
          ("storage/replicate/replicable.py", "        if install is not None and self._at_work is None:\n", "        if install is not None:\n"),
          kind=Kind.GUARD, near=COPY),
    plant("copy-begins-amid-a-write-of-another", "Following", "two copies write the same files, and a part of one counts as the other's whole segment",
          ("storage/replicate/replicable.py", "        if self.is_busy or self._at_work is not None:\n            self.abandon_install()\n", "        if self.is_busy:\n"),
          kind=Kind.GUARD, near=COPY),
    plant("abandoned-copy-is-never-closed", "Following", "each copy that is abandoned amid a write keeps a file open",
          ("storage/replicate/replicable.py", "                self._close(install)\n                done(0", "                done(0"),
          kind=Kind.CLEARED, near=COPY),
    plant("retention-takes-unconfirmed-segments", "Retention", "a log start lies above the high watermark: consumers are sent to where nothing can be read",
          ("storage/commit_log/retention.py", "segment.pending is None and self.is_confirmed(segment.end)", "segment.pending is None"),
          kind=Kind.GUARD, near=UNCONFIRMED),
    plant("retention-takes-unconfirmed-active-data", "Retention", "old records go before anybody could read them",
          ("storage/commit_log/retention.py", " or not self.is_confirmed(end_position):", ":"),
          kind=Kind.GUARD, near=UNCONFIRMED),
    plant("members-without-a-role-do-not-follow", "Retention", "a member that started in a set without a master gets frames in the last one's epoch; one of the two places alone hides the other's lack",
          ("replica/replica_set.py", "        log.on_reopened = self.reopened\n        log.follow()\n", "        log.on_reopened = self.reopened\n"),
          ("replica/replica_set.py", "        self.log.follow()\n        self._refuse_parked()", "        self._refuse_parked()"),
          kind=Kind.GUARD, near=("tests/replica/test_replica_set_roles.py", "tests/sim/test_directed_retention.py")),
)  # fmt: skip
