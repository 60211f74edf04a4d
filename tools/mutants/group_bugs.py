"""Planted bugs of consumer groups: their positions at commits and failovers."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import GROUPS

POSITIONS = (
    plant(
        "groups-positions-lost-at-failover", "Groups",
        "a broker that takes groups over has none of their positions",
        ("groups/loading.py",
         "        group.offsets.restore(some)\n        yield len(some) // POSITIONS\n\n\ndef _class_of", "        yield len(some) // POSITIONS\n\n\ndef _class_of"),
        kind=Kind.SNAPSHOT, near=GROUPS,
    ),
    plant(
        "groups-commit-answered-by-master-alone", "Groups",
        "a committed position is answered before other members have it",
        ("broker/coordinators/journal.py",
         "member.waiting_for_all.park(member.log.end_position, JournalWrite(done, deadline_ms))",
         "member.waiting_for_master.park(member.log.end_position, JournalWrite(done, deadline_ms))"),
        kind=Kind.ORDER, near=("tests/broker/test_group_journal.py", "tests/broker/test_group_ownership.py", *GROUPS),
    ),
    plant(
        "groups-loaded-to-the-confirmed-only", "Groups",
        "a new coordinator reads its partition only as far as that is confirmed at the moment",
        ("broker/coordinators/journal.py", "if self._offset >= hosted.log.log_end_offset:",
         "if self._offset >= hosted.member.high_watermark(hosted.log):"),
        kind=Kind.RANGE, near=("tests/broker/test_group_ownership.py", *GROUPS),
    ),
    plant(
        "groups-served-before-confirmed", "Groups",
        "a new coordinator answers with positions that are not confirmed yet",
        ("broker/coordinators/hosting.py",
         "                member.waiting_for_all.park(member.log.end_position, mastership)\n",
         "                mastership.complete()\n"),
        kind=Kind.GUARD, near=("tests/broker/test_group_ownership.py", *GROUPS),
    ),
    plant(
        "groups-tenure-outlives-mastership", "Groups",
        "groups loaded in an earlier mastership are answered from in a later one",
        ("broker/coordinators/hosting.py",
         "return hosted is self.hosted and hosted.member.leader_epoch == self.leader_epoch",
         "return hosted is self.hosted"),
        kind=Kind.CLEARED, near=("tests/broker/test_group_rewrite_refused.py", *GROUPS),
    ),
    plant(
        "groups-rewrite-cuts-before-confirmed", "Groups",
        "the old records of a group go although the rewritten ones were lost",
        ("broker/coordinators/rewrite.py", "if rewrite.error is not None or rewrite.is_of_another_time:\n            return False\n        try",
         "if rewrite.is_of_another_time:\n            return False\n        try"),
        kind=Kind.ORDER, near=("tests/broker/test_group_rewrite_refused.py", *GROUPS),
    ),
    plant(
        "groups-rewrite-undoes-newer", "Groups",
        "a rewrite puts older values behind newer ones that wait for confirmation",
        ("groups/journal.py",
         "offsets = group.offsets.latest_of(keys)\n",
         "offsets = {key: group.offsets.values[key] for key in keys if key in group.offsets.values}\n"),
        kind=Kind.ORDER, near=GROUPS,
    ),
    plant(
        "groups-older-commit-wins", "Groups",
        "of two commits under way the one that is confirmed last wins, not the later one",
        ("coordinator/confirmed_map.py",
         "        if self._changed_by.get(key, 0) <= ticket:\n", "        if ticket:\n"),
        kind=Kind.ORDER, near=GROUPS,
    ),
    plant(
        "groups-lost-commit-shown", "Groups",
        "a commit that was refused shows in the group's positions",
        ("coordinator/writes.py", "                if reason is None:\n                    change.confirm()", "                if reason is not Unwritten.LATE:\n                    change.confirm()"),
        kind=Kind.CLEARED, near=GROUPS,
    ),
)  # fmt: skip

MUTANTS = POSITIONS
