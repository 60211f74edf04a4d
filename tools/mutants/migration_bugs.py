"""Planted bugs of groups that go from one protocol to the other while they run."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

UPGRADES = ("tests/groups/migration/test_upgrades.py",)
DOWNGRADES = ("tests/groups/migration/test_downgrades.py",)
MIXED = ("tests/groups/migration/test_mixed_members.py",)
ROLL = ("tests/groups/migration/test_roll.py", "tests/groups/migration/test_machine.py")

MUTANTS = (
    plant(
        "converted-members-have-nothing",
        "Groups",
        "a member of KIP-848 gets partitions that classic members still read",
        (
            "groups/migration/upgrade.py",
            "        claims.claim(member.member_id, given.partitions)\n",
            "",
        ),
        kind=Kind.STALE,
        near=UPGRADES,
    ),
    plant(
        "what-members-say-they-read-is-not-asked",
        "Groups",
        "a partition is given away between two generations of an incremental assignor",
        (
            "groups/migration/upgrade.py",
            "        claims.claim(member_id, subscription.owned)\n",
            "",
        ),
        kind=Kind.STALE,
        near=UPGRADES,
    ),
    plant(
        "one-partition-claimed-twice",
        "Groups",
        "an assignment of a leader that gives a partition twice breaks the conversion",
        (
            "groups/migration/claims.py",
            "            free = numbers - taken\n",
            "            free = numbers\n",
        ),
        kind=Kind.GUARD,
        near=UPGRADES,
    ),
    plant(
        "newcomers-are-converted-too",
        "Groups",
        "a member that does not know its id yet stays as a ghost",
        (
            "groups/migration/claims.py",
            " if not member.is_new)",
            ")",
        ),
        kind=Kind.GUARD,
        near=UPGRADES,
    ),
    plant(
        "custom-assignment-is-converted",
        "Groups",
        "what a custom assignor has told its members is lost",
        (
            "groups/migration/upgrade.py",
            "        if given.has_user_data:\n",
            "        if False:\n",
        ),
        kind=Kind.GUARD,
        near=UPGRADES,
    ),
    plant(
        "group-is-not-frozen",
        "Groups",
        "a classic group changes while its conversion is written",
        ("groups/migration/upgrade.py", "        group.die(context.clock.wall_ms())\n", ""),
        kind=Kind.GUARD,
        near=UPGRADES,
    ),
    plant(
        "frozen-group-stays-frozen",
        "Groups",
        "a group whose conversion was not written answers nobody any more",
        ("groups/migration/upgrade.py", "            on_refused=frozen.thaw,\n", ""),
        kind=Kind.CLEARED,
        near=UPGRADES,
    ),
    plant(
        "conversion-unseen-by-a-rewrite",
        "Groups",
        "a group that is converted amid a rewrite is trimmed with the old log",
        (
            "groups/migration/conversion.py",
            "        self.table.successors[self.old.group_id] = self.new\n",
            "",
        ),
        kind=Kind.SNAPSHOT,
        near=UPGRADES,
    ),
    plant(
        "positions-stay-behind",
        "Groups",
        "a converted group begins without its committed positions",
        ("groups/kinds.py", "    by.offsets = group.offsets\n", ""),
        kind=Kind.SNAPSHOT,
        near=UPGRADES,
    ),
    plant(
        "open-requests-wait-for-ever",
        "Groups",
        "joins and syncs of a converted group are never answered",
        (
            "groups/migration/upgrade.py",
            "        begin(let_go(self._context, group, error, stay=frozenset(new.facts)))\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=UPGRADES,
    ),
    plant(
        "old-records-are-not-deleted",
        "Groups",
        "records of both kinds of one group are in the log",
        (
            "groups/migration/downgrade.py",
            "            gone=dict.fromkeys(group.metadata.keys()),\n",
            "            gone={},\n",
        ),
        kind=Kind.SNAPSHOT,
        near=DOWNGRADES,
    ),
    plant(
        "no-rebalance-after-a-conversion-back",
        "Groups",
        "partitions of the last member of KIP-848 have no reader",
        (
            "groups/migration/downgrade.py",
            '            self._rebalances.prepare(new, "it was a consumer group")\n',
            "            pass\n",
        ),
        kind=Kind.GUARD,
        near=DOWNGRADES,
    ),
    plant(
        "rebalance-forgotten-by-a-failover",
        "Groups",
        "a coordinator that loads a converted group leaves partitions without a reader",
        ("groups/migration/downgrade.py", "        new.leader_id = None\n", ""),
        kind=Kind.SNAPSHOT,
        near=DOWNGRADES,
    ),
    plant(
        "joiner-counts-twice",
        "Groups",
        "a join that makes a group classic leaves a member that nobody is",
        (
            "groups/migration/downgrade.py",
            "            if facts.classic is not None and _was_classic(group, member_id)\n",
            "            if facts.classic is not None\n",
        ),
        kind=Kind.STALE,
        near=DOWNGRADES,
    ),
    plant(
        "what-waited-is-dropped",
        "Groups",
        "requests that waited behind a conversion are never answered",
        (
            "groups/migration/downgrade.py",
            "            if asked.again is not None:\n",
            "            if False:\n",
        ),
        kind=Kind.CLEARED,
        near=DOWNGRADES,
    ),
    plant(
        "classic-member-is-not-told",
        "Groups",
        "a classic member does not hear that it is to give partitions up",
        (
            "groups/migration/classic_members.py",
            "    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED:\n",
            "    if current.state is MemberState.UNREVOKED:\n",
        ),
        kind=Kind.EPOCH,
        near=MIXED,
    ),
    plant(
        "incremental-member-owns-nothing",
        "Groups",
        "partitions that a classic member has to give up are given away before",
        (
            "groups/migration/classic_members.py",
            "            owned=with_ids(subscription.owned, self._cluster),\n",
            "            owned={},\n",
        ),
        kind=Kind.GUARD,
        near=MIXED,
    ),
    plant(
        "classic-session-of-the-group",
        "Groups",
        "a classic member that is gone is missed after the session of the others",
        (
            "groups/consumer/heartbeats.py",
            "        return facts.classic.session_timeout_ms\n",
            "        return super()._session_timeout_ms(group, member_id)\n",
        ),
        kind=Kind.STALE,
        near=MIXED,
    ),
    plant(
        "member-that-does-not-come-back-stays",
        "Groups",
        "a classic member that ignores a rebalance holds it up for ever",
        (
            "groups/migration/classic_members.py",
            "            self._set(key, facts.rebalance_timeout_ms)\n",
            "            pass\n",
        ),
        kind=Kind.GUARD,
        near=MIXED,
    ),
    plant(
        "sync-of-an-earlier-epoch",
        "Groups",
        "a classic member gets an assignment that is being taken from it",
        (
            "groups/migration/classic_members.py",
            "        if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED:\n",
            "        if False:\n",
        ),
        kind=Kind.EPOCH,
        near=MIXED,
    ),
    plant(
        "deadline-of-the-protocol-of-before",
        "Groups",
        "a member that has gone over to KIP-848 is removed for not having synced",
        (
            "groups/consumer/heartbeats.py",
            "            return False  # it has gone over to KIP-848 since\n",
            "            pass\n",
        ),
        kind=Kind.CLEARED,
        near=MIXED,
    ),
    plant(
        "earlier-generation-has-it",
        "Groups",
        "of two members that say they read a partition the one that lost it keeps it",
        (
            "groups/migration/upgrade.py",
            "key=lambda each: -each[1].generation)",
            "key=lambda each: each[1].generation)",
        ),
        kind=Kind.EPOCH,
        near=UPGRADES,
    ),
)
