"""Planted bugs of replica sets: acknowledgements, the confirm position, who is in step, leases."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import BROKER, CONFIRM, IN_STEP, LEASE, LINKS, MEMBERS

TRACK = "replication/confirm.py"
KEEP = "replication/sync_state.py"
SET = "replica/master_set.py"
FOLLOW = "replica/followed_set.py"
SESSION = "replica/slave_session.py"
MEMBER = "replica/replica_set.py"
FETCH = "broker/fetch/operation.py"
AHEAD = "broker/fetch/read_ahead.py"
PENDING = "kafka/produce/pending.py"
FETCHES = ("tests/broker/test_read_ahead.py",)
RUNS = ("tests/kafka/test_produce_runs.py",)

ACKNOWLEDGING = (
    plant(
        "ack-before-slave-is-durable", "Acknowledgement",
        "a slave acknowledges what it has only in memory",
        (FOLLOW, "durable, now_ms = self.member.log.durable_position,",
         "durable, now_ms = self.member.log.end_position,"),
        kind=Kind.ORDER, near=LINKS,
    ),
    plant(
        "ack-begin-before-durable", "Acknowledgement",
        "a slave begins to follow, which acknowledges its log, before that is durable",
        (FOLLOW, "        if self.member.log.durable_position < position:\n            return\n", ""),
        kind=Kind.ORDER, near=LINKS,
    ),
    plant(
        "ack-all-waits-for-master-only", "Acknowledgement",
        "acks=all is answered when the master alone has the record",
        (PENDING, "queue = member.waiting_for_all if acks == ACKS_ALL else member.waiting_for_master",
         "queue = member.waiting_for_master"),
        kind=Kind.GUARD, near=BROKER,
    ),
    plant(
        "ack-run-hides-a-refusal", "Acknowledgement",
        "of requests that came together, one that was refused is answered as if appended",
        (PENDING, "        if self._has_errors or self._reply.throttle_ms:\n            wholes",
         "        if self._reply.throttle_ms:\n            wholes"),
        kind=Kind.GUARD, near=RUNS,
    ),
    plant(
        "ack-run-answers-the-first-for-all", "Acknowledgement",
        "requests that came together all get the offset of the first",
        (PENDING, "repeat(self._version), self._correlation_ids, self._answers\n",
         "repeat(self._version), self._correlation_ids, repeat(self._answers[0])\n"),
        kind=Kind.GUARD, near=RUNS,
    ),
    plant(
        "ack-run-over-two-sets", "Acknowledgement",
        "one set's trouble times out requests of another that came with them",
        ("kafka/handlers/records/produce.py",
         "if is_one_set and members and hosted.member is not members[0]:", "if False:"),
        kind=Kind.GUARD, near=RUNS,
    ),
    plant(
        "ack-run-counts-as-one-in-flight", "Acknowledgement",
        "a connection may have many times the requests in flight that it is allowed",
        ("net/answers/answering.py", "        self._in_flight += count\n", "        self._in_flight += 1\n"),
        kind=Kind.RANGE, near=("tests/net/test_runs_of_frames.py",),
    ),
    plant(
        "ack-refusal-explains-no-gap", "Acknowledgement",
        "a batch behind a refused one is called out of order: librdkafka writes twice for that",
        ("kafka/produce/refused_batches.py",
         "if earlier is not None and self._explains(earlier, epoch, error):", "if False:"),
        kind=Kind.GUARD, near=("tests/kafka/test_refused_batches.py",),
    ),
    plant(
        "ack-refusal-explains-any-gap", "Acknowledgement",
        "a producer whose records are lost is told to try again, for ever",
        ("kafka/produce/refused_batches.py",
         "return is_same and before < gap < GAP_MAX", "return True"),
        kind=Kind.GUARD, near=("tests/kafka/test_refused_batches.py",),
    ),
    plant(
        "ack-min-in-sync-ignored", "Acknowledgement",
        "acks=all is taken with fewer members in step than min.insync.replicas",
        (MEMBER, "        if self.in_sync_count < least:\n", "        if False:\n"),
        kind=Kind.GUARD, near=MEMBERS,
    ),
    plant(
        "ack-shrunk-set-unnoticed", "Acknowledgement",
        "a parked write is answered well although too few members are in step by now",
        (MEMBER, "        if self.in_sync_count < earlier:\n", "        if self.in_sync_count < 0:\n"),
        kind=Kind.STALE, near=MEMBERS,
    ),
    plant(
        "ack-larger-set-unnoticed", "Acknowledgement",
        "a parked write is answered well although its set has got a member and too few are in step",
        (MEMBER, "        if asks_more:\n", "        if False:\n"),
        kind=Kind.STALE, near=MEMBERS,
    ),
    plant(
        "ack-one-copy-fewer", "Acknowledgement",
        "a position is confirmed with one copy fewer than the policy asks for",
        (TRACK, "return sorted(acknowledged, reverse=True)[count - 1]",
         "return sorted(acknowledged, reverse=True)[max(0, count - 2)]"),
        kind=Kind.RANGE, near=CONFIRM,
    ),
    plant(
        "ack-k-of-n-counts-one-fewer", "Acknowledgement",
        "the k-of-n policy waits for k-1 copies",
        ("base/ack_policy.py", "return min(self.required, replica_count)",
         "return max(1, min(self.required, replica_count) - 1)"),
        kind=Kind.RANGE, near=(*CONFIRM, "tests/controller/test_overlap.py"),
    ),
    plant(
        "ack-quorum-is-half", "Acknowledgement",
        "the quorum policy takes half for a majority",
        ("base/ack_policy.py", "return replica_count // 2 + 1",
         "return max(1, (replica_count + 1) // 2)"),
        kind=Kind.RANGE, near=(*CONFIRM, "tests/controller/test_overlap.py"),
    ),
    plant(
        "ack-counts-member-out-of-sync", "Acknowledgement",
        "copies on members outside the sync-state set count under the policy all",
        (TRACK, "return tuple((some, policy.copies_needed(total, len(some))) for some in sets)",
         "return tuple((self.replicas, policy.copies_needed(total, len(some))) for some in sets)"),
        kind=Kind.GUARD, near=CONFIRM,
    ),
    plant(
        "ack-ignores-change-under-way", "Acknowledgement",
        "positions are confirmed by the old sync-state set while a new one may be recorded",
        (TRACK, "sets = dict.fromkeys((self.committed, *self.proposed))",
         "sets = dict.fromkeys((self.committed,))"),
        kind=Kind.STALE, near=CONFIRM,
    ),
    plant(
        "ack-of-earlier-handshake-counts", "Acknowledgement",
        "what a slave acknowledged before it lost its log and shook hands anew still counts",
        (TRACK, "        self._acknowledged.pop(member, None)\n", ""),
        kind=Kind.GUARD, near=(*CONFIRM, *LINKS),
    ),
    plant(
        "ack-of-what-was-not-sent", "Acknowledgement",
        "a slave may acknowledge more than it was sent",
        (SESSION, "if not self.acknowledged < position <= self.next_position:",
         "if not self.acknowledged < position:"),
        kind=Kind.GUARD, near=LINKS,
    ),
)  # fmt: skip

CONFIRMING = (
    plant(
        "confirm-old-epoch-by-counting", "Confirm position",
        "bytes of an earlier mastership are confirmed by counting copies (figure 8 of the log)",
        (TRACK, "if lowest <= self.position or lowest <= self._epoch_start:",
         "if lowest <= self.position:"),
        kind=Kind.GUARD, near=CONFIRM,
    ),
    plant(
        "confirm-falls", "Confirm position",
        "the confirm position falls when a member that is behind joins",
        (TRACK, "if lowest <= self.position or lowest <= self._epoch_start:",
         "if lowest == self.position or lowest <= self._epoch_start:"),
        kind=Kind.GUARD, near=CONFIRM,
    ),
    plant(
        "confirm-jumps-to-the-fastest", "Confirm position",
        "one of several possible sync-state sets is enough to confirm",
        (TRACK, "return min(held_by_enough(self._held(some), count)",
         "return max(held_by_enough(self._held(some), count)"),
        kind=Kind.RANGE, near=CONFIRM,
    ),
    plant(
        "confirm-jumps-at-failover", "Confirm position",
        "a new master confirms its own log at once, without the others",
        (MEMBER, "        if membership.is_enough(self.own_id):\n", "        if True:\n"),
        kind=Kind.STALE, near=MEMBERS,
    ),
    plant(
        "confirm-beyond-own-end", "Confirm position",
        "a slave takes a confirm position that lies beyond its own log",
        (MEMBER, "confirmed = min(position, self.log.end_position)", "confirmed = position"),
        kind=Kind.RANGE, near=(*MEMBERS, *LINKS),
    ),
    plant(
        "confirm-kept-over-truncation", "Confirm position",
        "a slave that was cut keeps a confirm position beyond its end",
        (MEMBER, "        self.confirm_position = min(self.confirm_position, self.log.end_position)\n",
         ""),
        kind=Kind.CLEARED, near=(*MEMBERS, *LINKS),
    ),
    plant(
        "high-watermark-beyond-confirmed", "Confirm position",
        "consumers are told, and given, records that are not confirmed",
        (MEMBER, "        if log.last_end_position <= self.confirm_position:\n", "        if True:\n"),
        ("broker/fetch/served.py", "hosted.member.log.read(hosted.log, offset, limit, position)",
         "hosted.member.log.read(hosted.log, offset, limit, hosted.member.log.end_position)"),
        kind=Kind.RANGE, near=MEMBERS,
    ),
    plant(
        "read-ahead-beyond-confirmed", "Confirm position",
        "what is read ahead of a consumer is not confirmed",
        (AHEAD, "member.log.read(log, offset, max_bytes, limit)",
         "member.log.read(log, offset, max_bytes, member.log.end_position)"),
        kind=Kind.RANGE, near=FETCHES,
    ),
    plant(
        "read-ahead-of-another-offset", "Confirm position",
        "what was read ahead is served to whoever reads the partition next",
        (AHEAD, "if kept.chunk.first_offset != offset or kept", "if kept"),
        kind=Kind.STALE, near=FETCHES,
    ),
    plant(
        "read-ahead-joined-at-another-offset", "Confirm position",
        "a fetch gets what the disk is being read for, whatever it has asked for",
        (AHEAD, "loading.offset != offset or loading.waiter", "loading.waiter"),
        kind=Kind.STALE, near=FETCHES,
    ),
    plant(
        "high-watermark-of-new-master-too-early", "Confirm position",
        "a new master answers for offsets before it knows what was confirmed (KIP-207)",
        ("broker/fetch/watermarks.py",
         "return member.confirm_position >= member.epoch_start", "return True"),
        kind=Kind.ORDER, near=("tests/broker/test_role_changes.py",),
    ),
)  # fmt: skip

STEPPING = (
    plant(
        "in-step-without-confirmed", "Sync-state set",
        "a slave that lacks confirmed records joins the sync-state set",
        (KEEP, "            and slave.acknowledged >= view.confirm_position\n", ""),
        kind=Kind.GUARD, near=IN_STEP,
    ),
    plant(
        "in-step-before-epoch-start", "Sync-state set",
        "a slave joins the sync-state set before it holds the start of the mastership",
        (KEEP, "            and slave.acknowledged > view.epoch_start\n", ""),
        kind=Kind.GUARD, near=IN_STEP,
    ),
    plant(
        "in-step-with-a-later-start", "Sync-state set",
        "a slave that lacks the oldest kept records joins the sync-state set",
        (KEEP, "            and slave.whole_from <= view.kept_from\n", ""),
        kind=Kind.GUARD, near=IN_STEP,
    ),
    plant(
        "in-step-for-ever", "Sync-state set",
        "a slave that lags stays in the sync-state set and holds up every write",
        (KEEP, "if now_ms - slave.caught_up_ms >= config.replica_lag_time_ms:", "if False:"),
        kind=Kind.GUARD, near=IN_STEP,
    ),
    plant(
        "in-step-after-losing-its-log", "Sync-state set",
        "a member that acknowledges less than what is confirmed stays in the sync-state set",
        (KEEP, "if has_lost and self._recorded.policy.kind is PolicyKind.ALL:", "if False:"),
        kind=Kind.STALE, near=IN_STEP,
    ),
    plant(
        "in-step-adaptive-drops-holders", "Sync-state set",
        "under the adaptive policy the set shrinks to members that lack confirmed records",
        (KEEP, "yield from wanted if len(holders) >= needed or not is_smaller else holders",
         "yield from wanted"),
        kind=Kind.GUARD, near=IN_STEP,
    ),
    plant(
        "in-step-unknown-outcome-forgotten", "Sync-state set",
        "a change whose answer was lost is taken for refused, and may be recorded later",
        (KEEP, "if outcome in {Outcome.REFUSED, Outcome.NOT_TAKEN} and not self._was_open:",
         "if not self._was_open:"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "in-step-timeout-taken-for-refusal", "Sync-state set",
        "a change that timed out is taken for refused, and may be recorded later",
        ("replica/change_request.py",
         "    except MetadataUnavailable:\n        outcome = Outcome.UNKNOWN\n",
         "    except MetadataUnavailable:\n        outcome = Outcome.REFUSED\n"),
        kind=Kind.CLEARED, near=("tests/replica/test_change_request.py",),
    ),
    plant(
        "in-step-open-change-cancelled-by-a-full-queue", "Sync-state set",
        "an attempt that nobody took cancels an earlier one that may still be recorded",
        (KEEP, "if outcome in {Outcome.REFUSED, Outcome.NOT_TAKEN} and not self._was_open:",
         "if outcome in {Outcome.REFUSED, Outcome.NOT_TAKEN}:"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "in-step-open-changes-not-ended", "Sync-state set",
        "a change that lost its reason is never ended, and what is confirmed waits for it",
        (KEEP, "if wanted == present and not self._open:", "if wanted == present:"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "in-step-by-an-earlier-process", "Sync-state set",
        "a slave joins by what an earlier process of its broker held (KIP-903)",
        (KEEP, "is_known = process is not None and process.incarnation == slave.incarnation",
         "is_known = process is not None"),
        kind=Kind.EPOCH, near=IN_STEP,
    ),
    plant(
        "in-step-by-a-lost-log", "Sync-state set",
        "a slave joins by what its lost log held (KIP-903)",
        (KEEP, "if not is_known or slave.replica_id != self._recorded.replica_ids.get(broker_id):",
         "if not is_known:"),
        (KEEP, "            del self.slaves[broker_id]\n", "            pass\n"),
        kind=Kind.STALE, near=IN_STEP,
    ),
    plant(
        "in-step-one-open-change-too-many", "Sync-state set",
        "one more change than the bound says may be open",
        (KEEP, "if len(self._open) >= OPEN_MAX and", "if len(self._open) > OPEN_MAX and"),
        kind=Kind.RANGE, near=IN_STEP,
    ),
    plant(
        "in-step-waits-for-an-image-that-is-there", "Sync-state set",
        "an answer that comes after its image is waited for in the image again, for ever",
        (KEEP, "self._is_answered = self._asked_epoch == self._recorded.sync_state_set_epoch",
         "self._is_answered = True"),
        kind=Kind.ORDER, near=IN_STEP,
    ),
    plant(
        "in-step-earlier-open-changes-dropped", "Sync-state set",
        "only the newest of the changes that may be recorded counts",
        (KEEP, "self._open = (*self._open, wanted)", "self._open = (wanted,)"),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "in-step-open-changes-kept-over-an-epoch", "Sync-state set",
        "a change of an older epoch goes on to count after the set has a new one",
        (KEEP, "            self._open = ()\n", ""),
        kind=Kind.CLEARED, near=IN_STEP,
    ),
    plant(
        "change-repeated-behind-its-masters-back", "Sync-state set",
        "a change of open fate is repeated, and the refusal of the second attempt hides the first",
        ("runtime/session/commands.py", "        c.RegisterReplica,  # one replica id for each log id\n",
         "        c.RegisterReplica,\n        c.ChangeSyncStateSet,\n"),
        kind=Kind.CLEARED, near=("tests/runtime/test_session_commands.py",),
    ),
    plant(
        "full-queue-hides-an-open-attempt", "Sync-state set",
        "a command that may have happened is called not taken when its repetition finds no room",
        ("runtime/session/commands.py", "                if is_fate_open:\n", "                if False:\n"),
        kind=Kind.CLEARED, near=("tests/runtime/test_session_commands.py",),
    ),
    plant(
        "sole-member-for-ever", "Confirm position",
        "a set that grew from one member goes on to confirm itself",
        (MEMBER,
         "        self.log.is_sole_member = membership.replicas == (self.own_id,)\n        earlier",
         "        earlier"),
        kind=Kind.STALE, near=MEMBERS,
    ),
    plant(
        "sole-member-by-who-is-in-step", "Confirm position",
        "a master alone in step of several members takes its log for confirmed",
        (MEMBER,
         "        self.log.is_sole_member = membership.replicas == (self.own_id,)\n        earlier",
         "        self.log.is_sole_member = membership.committed == (self.own_id,)\n        earlier"),
        kind=Kind.STALE, near=MEMBERS,
    ),
    plant(
        "confirm-by-a-lost-log", "Confirm position",
        "what a lost log had acknowledged goes on to count for the confirm position",
        ("replica/master_set.py", "            self.member.confirm.forget(broker_id)\n        known",
         "            pass\n        known"),
        kind=Kind.STALE, near=LINKS,
    ),
)  # fmt: skip

LEASES = (
    plant(
        "lease-begins-held", "Lease",
        "whoever replays that it leads holds a lease before anybody has answered",
        ("replication/lease.py", "self._controller_ms: int | None = None",
         "self._controller_ms: int | None = 0"),
        kind=Kind.ORDER, near=LEASE,
    ),
    plant(
        "lease-given-by-an-old-image", "Lease",
        "an answer gives a lease to a master whose image is older than the controller's",
        ("replica/master_set.py", "if is_caught_up or self.may_read():", "if True:"),
        kind=Kind.STALE, near=("tests/replica/test_slave_session.py",),
    ),
    plant(
        "lease-on-a-clock-that-sleeps", "Lease",
        "the time of a suspend does not count",
        ("runtime/io/clock.py", "return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000",
         "return time.monotonic_ns() // 1_000_000"),
        kind=Kind.STALE, near=("tests/runtime/test_clock.py",),
    ),
    plant(
        "lease-ignored-for-reads", "Lease",
        "a master that was cut off goes on answering reads",
        ("replication/lease.py",
         "return self._has_heard(membership, now_ms, by_controller=not is_handing_over)",
         "return True"),
        kind=Kind.GUARD, near=LEASE,
    ),
    plant(
        "lease-ignored-by-fetches", "Lease",
        "fetches do not ask whether their master still is one",
        (FETCH, "            member.check_readable()\n", ""),
        kind=Kind.GUARD, near=("tests/broker/test_lease_reads.py", *BROKER),
    ),
    plant(
        "lease-asked-of-one-set-for-all", "Lease",
        "a fetch of two replica sets asks only for the first whether its master still is one",
        (FETCH, "if member is not self._readable:", "if self._readable is None:"),
        kind=Kind.STALE, near=("tests/broker/test_lease_reads.py", *BROKER),
    ),
    plant(
        "lease-by-sets-of-yesterday", "Lease",
        "a set that was asked for does not count until another one is recorded",
        (KEEP, "if made_of[0] is not recorded or made_of[1] is not proposed:",
         "if made_of[0] is not recorded:"),
        kind=Kind.STALE, near=IN_STEP,
    ),
    plant(
        "lease-kept-by-controllers-while-handing-over", "Lease",
        "a master that is ready to hand over answers reads although another one may lead already",
        (SET, "is_handing_over=self.handing_over.is_open,", "is_handing_over=False,"),
        kind=Kind.GUARD, near=(*LEASE, "tests/runtime/test_ha_transfer.py"),
    ),
    plant(
        "lease-ignored-by-sequences", "Lease",
        "a master that was cut off ends producers whose last batch only its successor has",
        ("broker/append/append.py", "        hosted.member.check_readable()\n        raise\n",
         "        raise\n"),
        kind=Kind.GUARD, near=("tests/broker/test_lease_reads.py", *BROKER),
    ),
    plant(
        "lease-ignored-for-confirming", "Lease",
        "a master that was cut off goes on confirming under policies that need the lease",
        (MEMBER, "        if self.may_confirm is None or self.may_confirm():\n", "        if True:\n"),
        kind=Kind.GUARD, near=(*MEMBERS, *LEASE),
    ),
    plant(
        "lease-too-few-members", "Lease",
        "the lease holds although the silent members are enough for an election",
        ("replication/lease.py", "return len(voters) - answering < answers",
         "return len(voters) - answering <= answers"),
        kind=Kind.GUARD, near=LEASE,
    ),
    plant(
        "lease-kept-by-old-news", "Lease",
        "words that were said before a pause or a cut keep the lease after it",
        (SET, "self.lease.note_member(broker_id, read_ms)",
         "self.lease.note_member(broker_id, self._clock.monotonic_ms())"),
        kind=Kind.STALE, near=LEASE,
    ),
    plant(
        "promise-of-slave-not-kept", "Lease",
        "a slave that answered a probe goes on acknowledging to the old master",
        (FOLLOW, "return self._parts.is_promised(self.leader_epoch)", "return False"),
        kind=Kind.CLEARED, near=LINKS,
    ),
    plant(
        "promise-of-master-not-kept", "Lease",
        "a master that told its end to an election goes on confirming",
        (SET,
         "        if self.is_promised():\n            return False\n",
         ""),
        kind=Kind.CLEARED, near=(*LINKS, *LEASE),
    ),
)  # fmt: skip

MUTANTS = (*ACKNOWLEDGING, *CONFIRMING, *STEPPING, *LEASES)
