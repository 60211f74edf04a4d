"""Planted bugs of groups and their coordinator, found by reading both as an adversary: what goes
during a conversion, what outlives a tenure, what memory and replay make of the same log.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

GONE = ("tests/groups/migration/test_what_has_gone.py",)
LOADS = ("tests/groups/test_transactional_commits.py",)
UNREAD = ("tests/groups/test_unread_records.py",)
MAPS = ("tests/coordinator/test_pending_map.py",)
TENURES = ("tests/coordinator/test_runtime.py", "tests/groups/test_partition_portions.py")
EXPIRY = ("tests/groups/test_many_groups.py", "tests/groups/test_commits.py")
CLUB = ("tests/groups/consumer/test_members.py", "tests/groups/consumer/test_races.py")
ROUNDS = ("tests/groups/test_syncing.py", "tests/groups/test_rebalance.py")
TABLE, RUNTIME = "groups/table.py", "coordinator/runtime.py"
CLAIMS, CONVERSION = "groups/migration/claims.py", "groups/migration/conversion.py"
LOADING, MAP = "groups/loading.py", "coordinator/pending_map.py"

CONVERSIONS = (
    plant(
        "converted-to-partitions-that-have-gone",
        "Groups",
        "a member is to give up what does not exist, and its group waits for that",
        (
            CLAIMS,
            "(topic.topic_id, existing(numbers, topic.partition_count))",
            "(topic.topic_id, numbers)",
        ),
        kind=Kind.STALE,
        near=GONE,
    ),
    plant(
        "converted-back-to-partitions-that-have-gone",
        "Groups",
        "a classic member is told to read a partition that its topic has no more",
        (
            CLAIMS,
            "((topic.name, existing(numbers, topic.partition_count)) for",
            "((topic.name, numbers) for",
        ),
        kind=Kind.STALE,
        near=GONE,
    ),
    plant(
        "last-partition-counts-as-gone",
        "Groups",
        "the last partition of a topic is claimed by nobody and given away while it is read",
        (CLAIMS, "max(numbers) < partition_count:", "max(numbers) < partition_count - 1:"),
        (CLAIMS, "if 0 <= one < partition_count)", "if 0 <= one < partition_count - 1)"),
        kind=Kind.RANGE,
        near=GONE,
    ),
    plant(
        "conversion-of-a-group-that-moved-away-is-shown",
        "Groups",
        "a group is answered for by a broker that does not coordinate it any more",
        (CONVERSION, "        is_there = self._is_there\n", "        is_there = True\n"),
        kind=Kind.STALE,
        near=GONE,
    ),
    plant(
        "refused-conversion-wakes-a-group-that-moved-away",
        "Groups",
        "a deadline of a group that is gone begins a rebalance of the one that was loaded since",
        (
            CONVERSION,
            "        if self._is_there:\n            self.on_refused()\n",
            "        self.on_refused()\n",
        ),
        kind=Kind.STALE,
        near=GONE,
    ),
    plant(
        "successor-outlives-its-partition",
        "Groups",
        "a rewrite in the next tenure writes a conversion that was never confirmed",
        (TABLE, "            self.successors.pop(group_id, None)\n", ""),
        kind=Kind.CLEARED,
        near=GONE,
    ),
    plant(
        "conversion-is-written-after-the-group-moved-away",
        "Groups",
        "a conversion that was drafted in one tenure is appended in none or the next",
        (
            "groups/migration/upgrade.py",
            "        if not self._is_there(group):\n            reply(HeartbeatReply(error=ErrorCode.NOT_COORDINATOR))\n            return\n        change",
            "        change",
        ),
        kind=Kind.STALE,
        near=GONE,
    ),
)

MEMORY = (
    plant(
        "loaded-before-the-last-tenure-has-gone",
        "Groups",
        "the sessions of a loaded group are cancelled with those of its former state",
        (
            RUNTIME,
            "        while partition in self._leaving and not is_over():\n",
            "        while False:\n",
        ),
        kind=Kind.ORDER,
        near=TENURES,
    ),
    plant(
        "replay-of-a-commit-leaves-what-is-pending",
        "Groups",
        "after a failover the end of a transaction undoes a later commit",
        (LOADING, "            self._pending.drop(name, self._order)\n", ""),
        kind=Kind.SNAPSHOT,
        near=LOADS,
    ),
    plant(
        "replay-of-an-end-leaves-what-is-older",
        "Groups",
        "after a failover an older transaction that ends last has the position",
        (LOADING, "                self._pending.drop(name, order)\n", ""),
        kind=Kind.SNAPSHOT,
        near=LOADS,
    ),
    plant(
        "pending-positions-are-loaded-in-no-order",
        "Groups",
        "after a failover two open transactions have changed places",
        (LOADING, "enumerate(sorted(self._pending, key=_order))", "enumerate(self._pending)"),
        kind=Kind.ORDER,
        near=LOADS,
    ),
    plant(
        "copy-for-a-rewrite-forgets-what-was-decided",
        "Groups",
        "a rewrite puts a commit that was overtaken behind the one that overtook it",
        (
            MAP,
            "        merged._changed_by.update({key: self._changed_by[key] for key in changed})\n",
            "",
        ),
        kind=Kind.SNAPSHOT,
        near=MAPS,
    ),
    plant(
        "overtaken-position-waits-for-a-transaction",
        "Groups",
        "a transaction that is confirmed late undoes a commit behind it",
        (MAP, " and self._changed_by.get(key, 0) < ticket", ""),
        kind=Kind.STALE,
        near=MAPS,
    ),
    plant(
        "expired-while-it-was-looked-at",
        "Groups",
        "a group that was used again while its positions were examined is deleted",
        ("groups/expiry.py", " or group.offsets.change_count != change_count", ""),
        kind=Kind.STALE,
        near=EXPIRY,
    ),
    plant(
        "session-begun-while-its-end-waits",
        "Groups",
        "a member that was silent for its session gets another one from a batch that ends",
        ("groups/assigned/batches.py", " is None and not is_overdue:", " is None:"),
        kind=Kind.CLEARED,
        near=CLUB,
    ),
    plant(
        "epoch-before-the-last-but-one",
        "Groups",
        "a member whose answer was lost is fenced, as its last epoch is not known",
        (
            "groups/assigned/reconcile.py",
            "after._replace(previous_epoch=current.epoch)",
            "after",
        ),
        kind=Kind.EPOCH,
        near=CLUB,
    ),
    plant(
        "unread-position-counts-for-ever",
        "Groups",
        "positions that were replaced while loading still count against the bound of unread records",
        (LOADING, "            self.unread.drop(before.unread)\n", "            pass\n"),
        kind=Kind.CLEARED,
        near=UNREAD,
    ),
    plant(
        "assignment-of-a-silent-round-is-late",
        "Groups",
        "an assignment whose write ends in the next round ends that round",
        (
            "groups/classic/syncing.py",
            "        def done(error: ErrorCode | None) -> None:\n            if group.state is not GroupState.COMPLETING or group.generation != generation:\n                return\n",
            "        def done(error: ErrorCode | None) -> None:\n            if group.state is not GroupState.COMPLETING:\n                return\n",
        ),
        kind=Kind.EPOCH,
        near=ROUNDS,
    ),
)

MUTANTS = (*CONVERSIONS, *MEMORY)
