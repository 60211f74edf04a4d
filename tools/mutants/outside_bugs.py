"""Planted bugs that no test of their room noticed when an outsider thought of them."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import CONTROLLER

REGISTERED = ("tests/controller/test_registration.py", *CONTROLLER)

MUTANTS = (
    plant(
        "unclean-epoch-not-of-async", "Election",
        "what an election under async may have lost is forgotten when the policy gets stricter",
        ("controller/commands/masterships.py",
         "(is_unclean or replica_set.policy.kind is PolicyKind.ASYNC)", "is_unclean"),
        kind=Kind.STALE, near=REGISTERED,
    ),
    plant(
        "transfer-resumed-by-an-earlier-one", "Leader epochs",
        "the late end of one transfer lets a master take writes while a later one is under way",
        ("replica/replica_set.py", "        if pause == self._pauses and",
         "        if pause <= self._pauses and"),
        kind=Kind.STALE, near=("tests/replica/test_replica_set_roles.py",),
    ),
    plant(
        "round-concludes-in-another-epoch", "Election",
        "who is elected is chosen by answers from before another mastership had confirmed more",
        ("controller/active/elections.py",
         "        if one.asked_at[replica_set.replica_set_id] != _epochs(replica_set):\n"
         "            return None\n", ""),
        kind=Kind.EPOCH, near=("tests/controller/test_overtaken_rounds.py",),
    ),
    plant(
        "round-asked-in-its-leader-epoch-only", "Election",
        "who is elected is chosen by answers from before another policy, which wants more promised",
        ("controller/active/elections.py",
         "    return replica_set.leader_epoch, replica_set.sync_state_set_epoch\n\n\ndef _cancel",
         "    return replica_set.leader_epoch, 0\n\n\ndef _cancel"),
        kind=Kind.EPOCH, near=("tests/controller/test_overtaken_rounds.py",),
    ),
    plant(
        "transfer-ready-under-another-policy", "Leader epochs",
        "a master that promised nothing when it was asked is replaced where it should have",
        ("controller/active/transfers.py",
         "(replica_set.leader_epoch, replica_set.policy) != (one.leader_epoch, one.policy)",
         "replica_set.leader_epoch != one.leader_epoch"),
        kind=Kind.STALE, near=("tests/controller/test_overtaken_rounds.py",),
    ),
    plant(
        "mastership-gates-set-when-begun", "Lease",
        "a mastership that resumes confirms its whole log before its lease is asked",
        ("replica/master_set.py",
         "        membership = self.keeper.membership\n        self._follow_policy()\n        try:",
         "        membership = self.keeper.membership\n        try:"),
        ("replica/master_set.py", "            raise\n        self.is_resuming = False\n",
         "            raise\n        self.is_resuming = False\n        self._follow_policy()\n"),
        kind=Kind.ORDER, near=("tests/replica/test_slave_session.py",),
    ),
    plant(
        "continuity-asked-at-every-opening", "Recovery",
        "a log that is opened again after a new mastership is called newer than the metadata",
        ("node/continuity.py", "self._leader_epochs.pop(place.replica_set_id, None)",
         "self._leader_epochs.get(place.replica_set_id)"),
        kind=Kind.CLEARED, near=("tests/node/test_continuity.py",),
    ),
    plant(
        "align-keeps-nothing-at-its-start", "Truncation",
        "a log that agrees up to where it starts is cut empty, and its partitions are known from below",
        ("replication/alignment.py",
         "    if point <= slave.start_position:\n",
         "    if point < slave.start_position:\n"),
        kind=Kind.RANGE, near=("tests/replication/test_alignment.py",),
    ),
    plant(
        "promise-taken-over-by-an-older-asker", "Leader epochs",
        "a controller that was replaced releases what was promised to its successor",
        ("replication/promise.py",
         "self._asker = max(asker, self._asker)",
         "self._asker = asker"),
        kind=Kind.STALE, near=("tests/replication/test_promise.py",),
    ),
    plant(
        "snapshot-leaves-floor-zero-out", "Election",
        "who begins with a snapshot elects though nobody surely has everything",
        ("controller/metadata/snapshot.py",
         "if replica_set.copies_floor != NO_FLOOR:",
         "if replica_set.copies_floor > 0:"),
        ("controller/metadata/snapshot.py",
         "    NO_FLOOR,\n",
         ""),
        kind=Kind.SNAPSHOT, near=("tests/controller/test_carried_over.py",),
    ),
    plant(
        "drain-ends-with-the-process", "Sync-state set",
        "a broker that is drained gets duties again when it restarts",
        ("controller/commands/brokers.py",
         "is_draining=known is not None and known.is_draining,",
         "is_draining=False,"),
        kind=Kind.SNAPSHOT, near=("tests/controller/test_carried_over.py",),
    ),
    plant(
        "seeds-of-what-ends-at-the-cut", "Truncation",
        "after a rebuild records are back that retention had taken from a partition that ends at the cut",
        ("storage/commit_log/truncation.py",
         "        if state.last_end_position <= position:\n",
         "        if state.last_end_position < position:\n"),
        kind=Kind.RANGE, near=("tests/storage/test_truncation.py",),
    ),
    plant(
        "retention-deletes-without-its-snapshot", "Retention",
        "segments go though the snapshot with the new log starts was not written",
        ("storage/stores/retention.py",
         "        if worked:\n",
         "        if True:\n"),
        kind=Kind.ORDER, near=("tests/storage/test_retention.py",),
    ),
    plant(
        "claim-stays-where-a-member-began", "Recovery",
        "frames claim for ever what was confirmed when the log was opened",
        ("storage/commit_log/checkpoint.py",
         "        self.confirmed_position = max(self.confirmed_position, position)\n        if not self._is_sole_member:\n            self._limit_claim()\n",
         "        self.confirmed_position = max(self.confirmed_position, position)\n"),
        kind=Kind.STALE, near=("tests/storage/test_claim.py",),
    ),
    plant(
        "groups-rewrite-cut-at-its-last-slice", "Groups",
        "a rewrite of several slices cuts off its own first ones",
        ("broker/coordinators/rewrite.py",
         "        if rewrite.first_offset < 0:\n", "        if rewrite.open_count:\n"),
        kind=Kind.ORDER, near=("tests/broker/test_group_rewrite.py",),
    ),
    plant(
        "lease-by-the-recorded-set-alone", "Lease",
        "who was alone reads on while a member that it let in may have been elected",
        ("replication/lease.py",
         "        sets = membership.possible_voters()\n",
         "        sets = membership.possible_voters()[:1]\n"),
        kind=Kind.STALE, near=("tests/replication/test_lease.py",),
    ),
    plant(
        "lease-by-all-sets-in-one", "Lease",
        "a member that is only asked for keeps the lease while one that is recorded is elected",
        ("replication/lease.py",
         "        sets = membership.possible_voters()\n",
         "        sets = [membership.replicas if membership.policy.counts_replicas else membership.effective]\n"),
        kind=Kind.STALE, near=("tests/replication/test_lease.py",),
    ),
)  # fmt: skip
