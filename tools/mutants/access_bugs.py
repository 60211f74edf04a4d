"""Planted bugs of access: rules, what decides by them, users, and both in the metadata log.

The simulator's administrators (simulator/clients/access) are to find them as well as the tests.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Access"
INDEX, AUTHORISER, SCRAM = "access/index.py", "access/authoriser.py", "access/scram.py"
SNAPSHOT, REPLAY = "controller/metadata/snapshot_config.py", "controller/metadata/replay_config.py"
INSTALL, DELETE = "controller/metadata/install.py", "kafka/handlers/cluster/delete_acls.py"
RULES = ("tests/access/test_authoriser.py", "tests/access")
RECORDS = ("tests/controller/test_acls.py", "tests/controller")
HANDLERS = ("tests/kafka/test_acls.py", "tests/kafka/test_needs.py", "tests/kafka")

MUTANTS = (
    plant(
        "access-deny-of-a-prefix-missed", AREA,
        "rules for a prefix are not looked at where the name is the prefix itself",
        (INDEX, "            if length <= len(name):\n", "            if length < len(name):\n"),
        kind=Kind.RANGE, near=RULES,
    ),
    plant(
        "access-deny-is-weaker-than-an-earlier-allow", AREA,
        "a deny that is met behind an allow counts for nothing",
        (INDEX, "                if bits.denied & may_not:\n", "                if bits.denied & may_not and not is_allowed:\n"),
        kind=Kind.ORDER, near=RULES,
    ),
    plant(
        "access-deny-includes-what-allow-includes", AREA,
        "who is denied to read is denied to describe as well",
        (INDEX, "may, may_not = _ALLOWED_BY[operation], _named(operation)",
         "may, may_not = _ALLOWED_BY[operation], _ALLOWED_BY[operation]"),
        kind=Kind.RANGE, near=RULES,
    ),
    plant(
        "access-rules-for-everybody-missed", AREA,
        "rules for User:* concern nobody",
        (INDEX, "        for who in (principal, EVERYBODY):\n            patterns = self._by_principal.get((resource, who))\n            if patterns is not None:\n                yield",
         "        for who in (principal,):\n            patterns = self._by_principal.get((resource, who))\n            if patterns is not None:\n                yield"),
        kind=Kind.GUARD, near=RULES,
    ),
    plant(
        "access-rules-of-a-host-missed", AREA,
        "rules that name a host concern nobody",
        (INDEX, "    for one in (host, WILDCARD):\n", "    for one in (WILDCARD,):\n"),
        kind=Kind.GUARD, near=RULES,
    ),
    plant(
        "access-decisions-outlive-rules", AREA,
        "what was decided once is decided so after a change of the rules",
        (AUTHORISER, "            self._index.add(acl_id, rule)\n        self._young, self._old = {}, {}\n",
         "            self._index.add(acl_id, rule)\n"),
        kind=Kind.STALE, near=RULES,
    ),
    plant(
        "access-removed-rules-decide", AREA,
        "a rule that was removed goes on to decide",
        (AUTHORISER, "            self._index.remove(acl_id, rule)\n", "            del acl_id, rule\n"),
        kind=Kind.CLEARED, near=RULES,
    ),
    plant(
        "access-snapshot-without-rules", AREA,
        "a snapshot of the metadata has no rules",
        (SNAPSHOT, "    found += [one for _, one in sorted(kept.acls.items())]\n", ""),
        kind=Kind.SNAPSHOT, near=RECORDS,
    ),
    plant(
        "access-snapshot-without-users", AREA,
        "a snapshot of the metadata has no users",
        (SNAPSHOT, "    found += [one for _, one in sorted(kept.credentials.items())]\n", ""),
        kind=Kind.SNAPSHOT, near=RECORDS,
    ),
    plant(
        "access-install-keeps-old-rules", AREA,
        "who installs a snapshot goes on to decide by rules that were removed meanwhile",
        (INSTALL, "        removed_acls=_missing_in(newer, image),\n", ""),
        kind=Kind.SNAPSHOT, near=RECORDS,
    ),
    plant(
        "access-install-takes-no-rules", AREA,
        "who installs a snapshot does not decide by the rules in it",
        (INSTALL, "        added_acls=_missing_in(image, newer),\n", ""),
        kind=Kind.SNAPSHOT, near=RECORDS,
    ),
    plant(
        "access-old-password-stays", AREA,
        "a user who gets another password keeps the first",
        (REPLAY, "    image.configuration.credentials[record.user, record.mechanism] = record\n",
         "    image.configuration.credentials.setdefault((record.user, record.mechanism), record)\n"),
        kind=Kind.STALE, near=RECORDS,
    ),
    plant(
        "access-removed-user-stays", AREA,
        "a user whose password was taken away is let in",
        (REPLAY, "    del image.configuration.credentials[identity]\n", "    del identity\n"),
        kind=Kind.CLEARED, near=RECORDS,
    ),
    plant(
        "access-any-proof-will-do", AREA,
        "whoever knows a user's name is let in",
        (SCRAM, "        if not hmac.compare_digest(hashlib.new(digest, client_key).digest(), keys.stored_key):\n",
         "        if not client_key:\n"),
        kind=Kind.GUARD, near=("tests/access/test_scram.py", "tests/access"),
    ),
    plant(
        "access-removal-sees-old-rules", AREA,
        "a removal does not find what was added through another broker before it",
        (DELETE, "        current = await submit(context.broker, RemoveAcls(acl_ids=()))\n",
         "        current: object = ()\n"),
        kind=Kind.STALE, near=HANDLERS,
    ),
    plant(
        "access-readers-of-rules-change-them", AREA,
        "who may describe the cluster may add rules",
        ("kafka/handlers/cluster/create_acls.py", "    refused = acl_refusal(context, Operation.ALTER)\n",
         "    refused = acl_refusal(context, Operation.DESCRIBE)\n"),
        kind=Kind.GUARD, near=HANDLERS,
    ),
    plant(
        "access-fetch-asks-nobody", AREA,
        "records of every topic can be read",
        ("kafka/gate.py", "        if not may(self._context, self._operation, Resource.TOPIC, name):\n",
         "        if not name:\n"),
        kind=Kind.GUARD, near=HANDLERS,
    ),
    plant(
        "access-all-topics-are-listed", AREA,
        "a list of all topics has those that the client may not see",
        ("kafka/gate.py", "        if may(context, operation, Resource.TOPIC, image.name):\n            seen", "        if image.name:\n            seen"),
        kind=Kind.GUARD, near=HANDLERS,
    ),
)  # fmt: skip
