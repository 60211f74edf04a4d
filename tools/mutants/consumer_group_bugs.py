"""Planted bugs of consumer groups (KIP-848), in the kinds that reviews found elsewhere."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MEMBERS = ("tests/groups/consumer/test_members.py",)
MACHINE = ("tests/groups/consumer/test_machine.py",)
KINDS = ("tests/groups/consumer/test_kinds.py",)
RACES = ("tests/groups/consumer/test_races.py",)
ASSIGNORS = ("tests/groups/consumer/test_assignors.py",)

MUTANTS = (
    plant(
        "given-before-it-is-given-up",
        "Groups",
        "a partition has two readers while its former owner has not stopped",
        (
            "groups/assigned/reconciling.py",
            "            free=partial(draft.free_for, member_id),\n",
            "            free=lambda topic_id, numbers: numbers,\n",
        ),
        kind=Kind.GUARD,
        near=(*MEMBERS, *MACHINE),
    ),
    plant(
        "given-up-is-free-at-once",
        "Groups",
        "what a member was told to give up goes to another before it has",
        (
            "groups/consumer/owners.py",
            "    if not current.revoking:\n",
            "    if True:\n",
        ),
        kind=Kind.CLEARED,
        near=(*MEMBERS, *MACHINE),
    ),
    plant(
        "silence-is-consent",
        "Groups",
        "a heartbeat that says nothing about partitions counts as having given them up",
        (
            "groups/assigned/reconcile.py",
            "            if owned is None or _overlaps(owned, current.revoking):\n",
            "            if owned is not None and _overlaps(owned, current.revoking):\n",
        ),
        kind=Kind.GUARD,
        near=(*MEMBERS, *MACHINE),
    ),
    plant(
        "epoch-before-it-has-given-up",
        "Groups",
        "a member commits in the new epoch what it was to give up in the one before",
        (
            "groups/assigned/reconcile.py",
            "        return _changed(current, epoch, MemberState.UNREVOKED, kept, surplus)\n",
            "        return _changed(current, target_epoch, MemberState.UNREVOKED, kept, surplus)\n",
        ),
        kind=Kind.EPOCH,
        near=MEMBERS,
    ),
    plant(
        "any-earlier-epoch-is-a-lost-answer",
        "Groups",
        "a member of two epochs ago goes on instead of joining again",
        (
            "groups/consumer/checks.py",
            "        epoch == current.previous_epoch\n",
            "        epoch < current.epoch\n",
        ),
        kind=Kind.EPOCH,
        near=MEMBERS,
    ),
    plant(
        "lost-answer-with-foreign-partitions",
        "Groups",
        "who reads what it was never given goes on reading",
        (
            "groups/consumer/checks.py",
            "        and is_within(request.owned, current.assigned)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "instance-taken-from-who-has-not-left",
        "Groups",
        "two processes with one instance id take the seat from each other",
        (
            "groups/consumer/checks.py",
            "    if current is not None and current.epoch != LEFT_STATIC_EPOCH and not is_classic:\n",
            "    if current is None:\n",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "static-member-comes-back-with-nothing",
        "Groups",
        "a restart within the session moves partitions",
        (
            "groups/consumer/members.py",
            "        draft.put_target(new_id, target)\n",
            "        pass\n",
        ),
        kind=Kind.STALE,
        near=MEMBERS,
    ),
    plant(
        "batch-ends-when-it-is-late",
        "Groups",
        "the next batch is decided on a state that the late one may still change",
        (
            "groups/assigned/group.py",
            "        return bool(self.batch) or bool(self.metadata.in_flight_count)\n",
            "        return bool(self.batch)\n",
        ),
        (
            "groups/assigned/batches.py",
            "            group.is_late = True\n",
            "            group.batch = []\n",
        ),
        kind=Kind.ORDER,
        near=(*MEMBERS, *MACHINE),
    ),
    plant(
        "late-member-without-a-session",
        "Groups",
        "a member that went while its join was late keeps its partitions for ever",
        (
            "groups/assigned/batches.py",
            "            self._keep_watch(group, asked.member_id)\n",
            "            pass\n",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "failed-removal-is-forgotten",
        "Groups",
        "a silent member whose removal was not written keeps its partitions for ever",
        (
            "groups/assigned/batches.py",
            "            self._context.deadlines.set(due, at_ms)\n",
            "            pass\n",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "loaded-members-have-no-session",
        "Groups",
        "a member that died with the coordinator keeps its partitions for ever",
        (
            "groups/assigned/batches.py",
            "                self.keep_alive(group, member_id)\n            self._watch(group, member_id)\n            if number",
            "                pass\n            self._watch(group, member_id)\n            if number",
        ),
        kind=Kind.SNAPSHOT,
        near=MEMBERS,
    ),
    plant(
        "target-epoch-stays-when-all-leave",
        "Groups",
        "an empty group is Assigning for ever and the next member waits (KAFKA-20442)",
        (
            "groups/consumer/retarget.py",
            '        draft.put(Kind.TARGET_EPOCH, "", TargetEpoch(draft.epoch))\n',
            '        if draft.member_count:\n            draft.put(Kind.TARGET_EPOCH, "", TargetEpoch(draft.epoch))\n',
        ),
        kind=Kind.GUARD,
        near=(*MEMBERS, *KINDS),
    ),
    plant(
        "failed-comparison-counts",
        "Groups",
        "a change of topics whose write failed is never seen",
        (
            "groups/assigned/batches.py",
            "            group.topics_version = NOT_COMPARED\n",
            "            pass\n",
        ),
        kind=Kind.STALE,
        near=(*MEMBERS, *MACHINE),
    ),
    plant(
        "older-kind-counts",
        "Groups",
        "a group that changed its kind is loaded as the one that it was",
        (
            "groups/loading.py",
            "            self._metadata.pop(name.group_id, None)\n        elif not records:\n",
            "        elif not records:\n",
        ),
        (
            "groups/loading.py",
            "        for group_id, records in self._assigned.items():\n",
            "        for group_id, records in [each for each in self._assigned.items() if each[0] not in groups]:\n",
        ),
        kind=Kind.SNAPSHOT,
        near=KINDS,
    ),
    plant(
        "positions-stay-with-the-older-kind",
        "Groups",
        "a group that changes its kind forgets its positions",
        ("groups/kinds.py", "    by.offsets = group.offsets\n", ""),
        kind=Kind.CLEARED,
        near=KINDS,
    ),
    plant(
        "racks-before-evenness",
        "Groups",
        "members in a rack with many replicas get all, others nothing",
        (
            "assignors/consumer.py",
            "            if shares.counts[other] <= shares.counts[best]:\n",
            "            if shares.counts[other] >= 0:\n",
        ),
        kind=Kind.GUARD,
        near=ASSIGNORS,
    ),
    plant(
        "uniform-forgets-what-members-had",
        "Groups",
        "each join moves partitions between members that stay",
        (
            "assignors/consumer.py",
            "        kept = _keep(shares, member_id, left, room)\n",
            "        kept = 0\n",
        ),
        kind=Kind.STALE,
        near=ASSIGNORS,
    ),
    plant(
        "commit-of-an-earlier-epoch",
        "Groups",
        "a member that lost a partition overwrites the position of its new owner",
        (
            "groups/consumer/membership.py",
            "    if current is not None and current.epoch == epoch:\n",
            "    if current is not None and current.epoch >= epoch:\n",
        ),
        kind=Kind.EPOCH,
        near=MEMBERS,
    ),
    plant(
        "rewrite-forgets-a-changed-kind",
        "Groups",
        "positions of a group that changes its kind amid a rewrite are trimmed with the old log",
        (
            "groups/shard.py",
            "                if now is None or now.offsets is not group.offsets:\n",
            "                if now is not group:\n",
        ),
        kind=Kind.SNAPSHOT,
        near=RACES,
    ),
    plant(
        "empty-since-the-last-commit",
        "Groups",
        "positions of a quiet topic expire as soon as the last member leaves",
        (
            "groups/assigned/batches.py",
            "            group.state_since_ms = self._context.clock.wall_ms()\n",
            "            pass\n",
        ),
        kind=Kind.STALE,
        near=RACES,
    ),
    plant(
        "second-revocation-has-no-time",
        "Groups",
        "a member that gave up in time is removed while it gives up more",
        (
            "groups/assigned/reconciling.py",
            "        elif group.watched.get(member_id) is not current:\n",
            "        elif self._context.deadlines.at(key) is None:\n",
        ),
        kind=Kind.STALE,
        near=RACES,
    ),
    plant(
        "who-is-away-comes-back-by-an-old-heartbeat",
        "Groups",
        "a static member that restarted is refused until its session ends",
        (
            "groups/consumer/checks.py",
            "        and current.epoch > 0  # who is away has left\n",
            "",
        ),
        kind=Kind.EPOCH,
        near=RACES,
    ),
    plant(
        "another-instance-keeps-its-former-seat",
        "Groups",
        "partitions of a member that became another instance belong to nobody",
        (
            "groups/consumer/members.py",
            "        draft.remove(new_id)  # the member was another instance before\n",
            "        pass\n",
        ),
        kind=Kind.CLEARED,
        near=RACES,
    ),
    plant(
        "names-match-from-the-front",
        "Groups",
        "a subscription to x-. has x-12 too",
        ("groups/consumer/topics.py", "pattern.fullmatch(name)", "pattern.match(name)"),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "silence-is-a-lost-answer",
        "Groups",
        "a member of the epoch before goes on without saying what it reads",
        (
            "groups/consumer/checks.py",
            "        and request.owned is not None\n        and is_within(request.owned, current.assigned)\n",
            "        and (request.owned is None or is_within(request.owned, current.assigned))\n",
        ),
        kind=Kind.GUARD,
        near=RACES,
    ),
    plant(
        "joins-a-group-that-is-deleted",
        "Groups",
        "a heartbeat to a group that is being deleted is never answered",
        (
            "groups/consumer/membership.py",
            "        if group is not None and group.is_dead:\n",
            "        if False:\n",
        ),
        kind=Kind.GUARD,
        near=RACES,
    ),
    plant(
        "removed-though-it-spoke-in-time",
        "Groups",
        "a member whose session ended while it spoke is removed",
        (
            "groups/assigned/batches.py",
            "        if facts is None or self._context.deadlines.at(due) is not None:\n",
            "        if facts is None:\n",
        ),
        kind=Kind.STALE,
        near=RACES,
    ),
    plant(
        "every-heartbeat-waits",
        "Groups",
        "one member fills the queue of its group, and the memory of the node",
        (
            "groups/assigned/waiting.py",
            "        key = (asked.member_id, None if asked.due is None else asked.due.kind)\n",
            '        key = (f"{asked.member_id}{len(self._asked)}", None if asked.due is None else asked.due.kind)\n',
        ),
        kind=Kind.GUARD,
        near=RACES,
    ),
)
