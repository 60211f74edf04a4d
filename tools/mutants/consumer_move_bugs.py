"""Planted bugs of consumer groups: partitions that move, failovers, and groups that change kind."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MEMBERS = ("tests/groups/consumer/test_members.py",)
KINDS = ("tests/groups/consumer/test_kinds.py",)
RACES = ("tests/groups/consumer/test_races.py",)
LARGE = ("tests/groups/consumer/test_large_changes.py",)
MOVES = ("tests/groups/consumer/test_moves.py",)

MUTANTS = (
    plant(
        "decided-for-a-group-that-moved",
        "Groups",
        "a partition that moved away is written to by who had it",
        (
            "groups/assigned/batches.py",
            "        if group.is_dead:\n            self._end(group, batch, ErrorCode.NOT_COORDINATOR)\n",
            "        if False:\n            self._end(group, batch, ErrorCode.NOT_COORDINATOR)\n",
        ),
        kind=Kind.GUARD,
        near=MOVES,
    ),
    plant(
        "loaded-members-may-take-their-time",
        "Groups",
        "a member that gives nothing up keeps it for ever after a failover",
        (
            "groups/assigned/batches.py",
            "            self._watch(group, member_id)\n            if number % POSITIONS == 0:\n",
            "            if number % POSITIONS == 0:\n",
        ),
        kind=Kind.SNAPSHOT,
        near=MOVES,
    ),
    plant(
        "revocation-outlives-its-group",
        "Groups",
        "a deadline of a group that moved away removes a member when it is back",
        (
            "groups/assigned/batches.py",
            "        self._unwatch(group, member_id)\n\n\ndef _refuse",
            "\n\ndef _refuse",
        ),
        kind=Kind.CLEARED,
        near=MOVES,
    ),
    plant(
        "void-group-stays",
        "Groups",
        "a group whose first member was never written is listed and takes memory",
        (
            "groups/assigned/batches.py",
            "            self._table.forget(group)\n",
            "            pass\n",
        ),
        kind=Kind.CLEARED,
        near=MOVES,
    ),
    plant(
        "what-waits-behind-a-mistake-waits-on",
        "Groups",
        "members of a group are not answered until another one comes",
        (
            "groups/assigned/batches.py",
            "            self._pump(group)\n            raise\n",
            "            raise\n",
        ),
        kind=Kind.ORDER,
        near=MOVES,
    ),
    plant(
        "commit-by-another-instance",
        "Groups",
        "a process commits for the seat that another instance has",
        (
            "groups/consumer/membership.py",
            "    if instance_id is not None and facts.instance_id != instance_id:\n",
            "    if False:\n",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "away-and-not-giving-up",
        "Groups",
        "partitions that a static member was to give up wait for its return",
        (
            "groups/consumer/members.py",
            "        revoking=NOTHING,\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=MOVES,
    ),
    plant(
        "newer-classic-kind-does-not-count",
        "Groups",
        "a group that became a classic one is loaded as a consumer group",
        (
            "groups/loading.py",
            "            self._metadata[name.group_id] = record\n            self._assigned.pop(name.group_id, None)\n",
            "            self._metadata[name.group_id] = record\n",
        ),
        kind=Kind.SNAPSHOT,
        near=KINDS,
    ),
    plant(
        "only-confirmed-records-of-the-older-kind",
        "Groups",
        "a classic record under way stays behind the change of kind",
        (
            "groups/kinds.py",
            "dict.fromkeys(group.metadata.keys())",
            "dict.fromkeys(group.metadata.values)",
        ),
        kind=Kind.STALE,
        near=KINDS,
    ),
    plant(
        "rewrite-keeps-the-first-records",
        "Groups",
        "members of a large group are trimmed with the old log",
        (
            "groups/shard.py",
            "            while named := [*islice(own, RECORDS_TOGETHER)]:\n",
            "            if named := [*islice(own, RECORDS_TOGETHER)]:\n",
        ),
        kind=Kind.RANGE,
        near=KINDS,
    ),
    plant(
        "empty-while-a-member-joins",
        "Groups",
        "a group is deleted while its first member joins",
        (
            "groups/assigned/group.py",
            "not self.tables.facts and not self.is_changing",
            "not self.tables.facts",
        ),
        kind=Kind.GUARD,
        near=KINDS,
    ),
    plant(
        "deleted-means-another-protocol",
        "Groups",
        "a classic member that joins while the group is deleted stops",
        (
            "groups/coordinator.py",
            "        if other.is_dead:\n",
            "        if False:\n",
        ),
        kind=Kind.GUARD,
        near=RACES,
    ),
    plant(
        "expressions-in-use-are-forgotten",
        "Groups",
        "positions of a topic that an expression matches may be deleted",
        (
            "groups/consumer/retarget.py",
            "        if regex not in wanted:\n",
            "        if True:\n",
        ),
        kind=Kind.GUARD,
        near=MOVES,
    ),
    plant(
        "expressions-are-never-forgotten",
        "Groups",
        "a topic counts as subscribed after the last who asked for it left",
        (
            "groups/consumer/retarget.py",
            "        if regex not in wanted:\n",
            "        if False:\n",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "hash-without-topic-ids",
        "Groups",
        "members keep reading a topic that was deleted and made again",
        (
            "groups/assigned/topics.py",
            "repr((name, topic.topic_id, topic.partition_count, racks))",
            "repr((name, topic.partition_count, racks))",
        ),
        kind=Kind.STALE,
        near=RACES,
    ),
    plant(
        "draft-forgets-who-is-free",
        "Groups",
        "a partition that was set free in a batch is given to nobody in it",
        (
            "groups/consumer/owners.py",
            "            if owned.get(number) == member_id:\n                del owned[number]\n",
            "            if owned.get(number) == member_id:\n                del owned[number]\n        if not owned:\n            owners.pop(topic_id, None)\n",
        ),
        kind=Kind.STALE,
        near=LARGE,
    ),
    plant(
        "copy-shares-owners",
        "Groups",
        "a write that fails has changed who has which partitions",
        (
            "groups/consumer/tables.py",
            "        if self.own_topics is not None:\n",
            "        if False:\n",
        ),
        kind=Kind.SNAPSHOT,
        near=LARGE,
    ),
    plant(
        "replayed-when-it-is-confirmed",
        "Groups",
        "a change of a large group holds the event loop",
        (
            "groups/assigned/batches.py",
            "        yield from group.records.prepare(draft.changes)\n",
            "",
        ),
        kind=Kind.ORDER,
        near=LARGE,
    ),
    plant(
        "what-was-not-written-stays-ready",
        "Groups",
        "the next change of the group is not applied",
        (
            "groups/assigned/records.py",
            "        self._ready, replaced = None, self._replaced\n",
            "        replaced = self._replaced\n",
        ),
        kind=Kind.CLEARED,
        near=LARGE,
    ),
)
