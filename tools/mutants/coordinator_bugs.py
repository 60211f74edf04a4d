"""Planted bugs of the group coordinator: membership, loading, rewrites, ownership, memory."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

GROUPS = (
    "tests/coordinator/test_confirmed_map.py",
    "tests/coordinator/test_runtime.py",
    *(f"tests/groups/test_{name}.py" for name in (
        "memory",
        "unread_records",
        "loading",
        "commits",
        "syncing",
        "rebalance",
        "joining",
        "static_members",
        "admin",
        "records",
    )),
)  # fmt: skip
TRACKER = ("tests/coordinator/test_rewrite_tracker.py", *GROUPS)
OWNERSHIP = (
    "tests/broker/test_group_ownership.py",
    "tests/broker/test_group_rewrite_refused.py",
    *GROUPS,
)
REWRITES = (
    "tests/broker/test_group_rewrite.py",
    "tests/broker/test_group_journal.py",
    "tests/broker/test_group_rewrite_refused.py",
    *GROUPS,
)
PINS = (
    "tests/storage/test_pins.py",
    "tests/broker/test_pin_relief.py",
    "tests/broker/test_pinned_segments.py",
)
MEMBERS = "groups/classic/group.py"

MEMBERSHIP = (
    plant("coordinator-old-generation-speaks", "Groups", "a member of a generation that is over may commit and beat",
          ("groups/classic/syncing.py", "    if generation != group.generation:\n", "    if generation > group.generation:\n"),
          kind=Kind.EPOCH, near=GROUPS),
    plant("coordinator-assignment-of-another-generation", "Groups", "an assignment written for one generation is handed out in the next",
          ("groups/classic/syncing.py", "if group.state is not GroupState.COMPLETING or group.generation != generation:", "if group.state is not GroupState.COMPLETING:"),
          kind=Kind.EPOCH, near=GROUPS),
    plant("coordinator-rebalance-told-late", "Groups", "members hear of a rebalance only when its join phase is over",
          ("groups/classic/syncing.py", "        if group.state is GroupState.PREPARING:\n            return ErrorCode.REBALANCE_IN_PROGRESS\n        return ErrorCode.NONE", "        if group.state is GroupState.COMPLETING:\n            return ErrorCode.REBALANCE_IN_PROGRESS\n        return ErrorCode.NONE"),
          kind=Kind.STALE, near=GROUPS),
    plant("coordinator-leader-keeps-fenced-id", "Groups", "a static leader that came back is still named by its old id",
          (MEMBERS, "        if self.leader_id == old_id:\n            self.leader_id = new_id\n", ""),
          kind=Kind.STALE, near=GROUPS),
    plant("coordinator-leader-has-not-joined", "Groups", "a static member that is silent goes on leading the next generation",
          (MEMBERS, "        if self.joined and self.leader_id not in self.joined:\n            self.leader_id = next(iter(self.joined))\n", ""),
          kind=Kind.STALE, near=GROUPS),
    plant("coordinator-joined-outlives-answer", "Groups", "a member whose join was answered still counts as one that waits",
          ("groups/classic/rebalance.py", "        group.joined.pop(member.member_id, None)\n        return member", "        return member"),
          kind=Kind.CLEARED, near=GROUPS),
    plant("coordinator-one-member-too-many", "Groups", "a group takes one member more than it may",
          ("groups/classic/joining.py", "len(group.members) + len(group.pending) < size_max", "len(group.members) + len(group.pending) <= size_max"),
          kind=Kind.RANGE, near=GROUPS),
    plant("coordinator-newcomers-kept-for-ever", "Groups", "members that have joined stay among the newcomers",
          ("groups/classic/rebalance.py", "            member.is_gone = still_there\n            self._context.newcomers.pop(member, None)\n", "            member.is_gone = still_there\n"),
          kind=Kind.CLEARED, near=GROUPS),
    plant("coordinator-gone-by-the-old-connection", "Groups", "a newcomer that joined again is judged by the connection before",
          ("groups/classic/rebalance.py", "        member.is_gone = request.is_gone\n", ""),
          kind=Kind.STALE, near=GROUPS),
    plant("coordinator-memory-of-forgotten-groups", "Groups", "groups that are gone still count against the memory bound",
          ("groups/table.py", "            group.count_in(None)\n", ""),
          kind=Kind.CLEARED, near=GROUPS),
)  # fmt: skip

LOADING = (
    plant("coordinator-tombstone-of-position-ignored", "Groups", "a deleted position is back after a failover",
          ("groups/loading.py", "        elif not offsets:\n            del self._offsets[name.group_id]\n", "        elif before is not None:\n            offsets[key] = before\n"),
          kind=Kind.SNAPSHOT, near=GROUPS),
    plant("coordinator-tombstone-of-group-ignored", "Groups", "a deleted group is back after a failover",
          ("groups/loading.py", "        self._metadata.pop(name.group_id, None)\n        if record.value is not None:\n", "        if record.value is not None:\n"),
          kind=Kind.SNAPSHOT, near=GROUPS),
    plant("coordinator-journals-last-assignment", "Groups", "what is written is the assignment before, and not the one that is handed out",
          ("groups/classic/snapshot.py", 'assignment=assignments.get(member.member_id, b"")', "assignment=member.assignment"),
          kind=Kind.SNAPSHOT, near=GROUPS),
    plant("coordinator-generation-one-off-after-load", "Groups", "a loaded group counts one generation further than its members",
          ("groups/classic/snapshot.py", "group.generation = record.generation\n", "group.generation = record.generation + 1\n"),
          kind=Kind.RANGE, near=GROUPS),
    plant("coordinator-unconfirmed-position-shown", "Groups", "a position is told before it is confirmed",
          ("groups/offsets/commits.py", "    values = group.offsets.values\n", "    values = group.offsets.latest()\n"),
          kind=Kind.STALE, near=GROUPS),
    plant("coordinator-deletes-confirmed-only", "Groups", "a commit that was under way when its group was deleted comes back at the next start",
          ("groups/classic/expiry.py", "dict.fromkeys(group.offsets.keys())", "dict.fromkeys(group.offsets.values)"),
          kind=Kind.SNAPSHOT, near=GROUPS),
    plant("coordinator-group-forgotten-before-its-end", "Groups", "a group is forgotten before its tombstones are confirmed",
          ("groups/classic/expiry.py", "    group.transition(GroupState.DEAD, context.clock.wall_ms())\n", "    group.transition(GroupState.DEAD, context.clock.wall_ms())\n    forget(group)\n"),
          kind=Kind.ORDER, near=GROUPS),
    plant("coordinator-expires-a-moment-early", "Groups", "positions go at the retention time and not behind it",
          ("groups/classic/expiry.py", "group.state_since_ms) > retention_ms", "group.state_since_ms) >= retention_ms"),
          kind=Kind.RANGE, near=GROUPS),
    plant("coordinator-refused-metadata-stays-under-way", "Groups", "a group whose record was refused counts it as under way for ever",
          ("groups/journal.py", "        self._group.metadata.refuse(self._metadata)\n", ""),
          kind=Kind.CLEARED, near=GROUPS),
)  # fmt: skip

REWRITING = (
    plant("coordinator-unread-held-too-long", "Groups", "a partition stays held for records that another broker's rewrite may have settled",
          ("coordinator/rewrites.py", "        self._held.discard(partition)\n", ""),
          kind=Kind.CLEARED, near=GROUPS),
    plant("coordinator-unread-not-held", "Groups", "a partition with more unread records than memory keeps is rewritten without them",
          ("coordinator/runtime.py", "        if loading.unread.is_in_log_only:\n            self.base.rewrites.hold(partition)\n", ""),
          kind=Kind.SNAPSHOT, near=GROUPS),
    plant("coordinator-unread-before-what-it-replaced", "Groups", "a rewrite puts a newer version's position before the one that it replaced",
          ("groups/journal.py", "return [(name, encode_offset_value(offset)), offset.unread]", "return [offset.unread, (name, encode_offset_value(offset))]"),
          kind=Kind.ORDER, near=GROUPS),
    plant("coordinator-superseded-unread-counts", "Groups", "unread records that were replaced still count against the bound",
          ("coordinator/unread.py", "            self.size_bytes -= unread_bytes(record)\n", "            pass\n"),
          kind=Kind.CLEARED, near=GROUPS),
    plant("coordinator-rewrite-cuts-at-the-end", "Groups", "a rewrite cuts off itself as well",
          ("broker/coordinators/rewrite.py", "delete_records(hosted.log, rewrite.first_offset)", "delete_records(hosted.log, hosted.log.log_end_offset)"),
          kind=Kind.RANGE, near=REWRITES),
    plant("coordinator-rewrite-of-another-epoch", "Groups", "a rewrite that was begun in one mastership goes on in the next",
          ("broker/coordinators/rewrite.py", "return self.hosted.is_dropped or self.hosted.member.leader_epoch != self.leader_epoch", "return self.hosted.is_dropped"),
          kind=Kind.EPOCH, near=REWRITES),
    plant("coordinator-rewrite-begins-when-asked", "Groups", "a rewrite that waits for its turn cuts only to where the log was when it was asked for",
          ("broker/coordinators/rewrite.py", "        self._of[hosted] = rewrite\n", "        self._of[hosted] = rewrite\n        rewrite.first_offset = hosted.log.log_end_offset\n"),
          kind=Kind.STALE, near=REWRITES),
    plant("coordinator-rewrite-due-too-late", "Groups", "a partition that has grown by just the threshold is not rewritten",
          ("coordinator/rewrites.py", "and appended >= max(", "and appended > max("),
          kind=Kind.RANGE, near=TRACKER),
    plant("coordinator-failed-rewrite-at-once-again", "Groups", "a rewrite that could not cut is begun again at once, for ever",
          ("coordinator/rewrites.py", "self._wait[partition] = 2**fruitless\n", "self._wait[partition] = 0\n"),
          kind=Kind.CLEARED, near=TRACKER),
    plant("coordinator-mastership-by-partition-alone", "Groups", "groups of an earlier mastership of the same broker are answered from",
          ("broker/coordinators/hosting.py", "hosted is self.hosted and hosted.member.leader_epoch == self.leader_epoch", "hosted is self.hosted"),
          kind=Kind.EPOCH, near=OWNERSHIP),
    plant("coordinator-tenure-ends-twice", "Groups", "a partition that was given up while it was loaded is answered for after all",
          ("broker/coordinators/hosting.py", "        if not self.is_over:\n            self._on_confirmed(self)\n", "        self._on_confirmed(self)\n"),
          kind=Kind.CLEARED, near=OWNERSHIP),
)  # fmt: skip

PINNING = (
    plant("retention-dead-entry-pins", "Retention", "a partition whose log start is just behind a segment keeps it",
          ("storage/stores/rules.py", "        if partition.log_start_offset < piece.end_offset:\n", "        if partition.log_start_offset <= piece.end_offset:\n"),
          kind=Kind.RANGE, near=PINS),
    plant("retention-any-movable-counts", "Retention", "positions are moved out of files that others keep anyway",
          ("storage/inspect/pins.py", "if all(is_movable for", "if any(is_movable for"),
          kind=Kind.STALE, near=PINS),
    plant("retention-relief-by-an-old-report", "Retention", "internal partitions are rewritten again and again by one report",
          ("broker/sets/pin_relief.py", "report.number == progress.report_number or progress.open_count", "progress.open_count"),
          kind=Kind.STALE, near=PINS),
    plant("retention-relief-without-patience", "Retention", "a rewrite that sets nothing free is repeated with each report",
          ("broker/sets/pin_relief.py", "progress.wait_reports = min(2**progress.fruitless - 1, WAIT_MAX)", "progress.wait_reports = 0"),
          kind=Kind.CLEARED, near=PINS),
)  # fmt: skip

MUTANTS = (*MEMBERSHIP, *LOADING, *REWRITING, *PINNING)
