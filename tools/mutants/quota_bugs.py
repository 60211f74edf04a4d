"""Planted bugs of quotas: which one applies, rates and delays, answers, mutes (ADR 0115)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

RESOLVE = ("tests/quotas/test_resolve.py",)
RATES = ("tests/quotas/test_rates.py",)
THROTTLED = ("tests/kafka/test_throttled.py",)
MUTATIONS = ("tests/kafka/test_mutation_quotas.py",)
MUTED = ("tests/net/test_muted.py",)
HANDLERS = ("tests/kafka/test_quota_handlers.py",)
COMMANDS = ("tests/controller/test_quotas.py",)
AREA = "Quotas"
WINDOWS, TABLE, REPLY = "quotas/windows.py", "quotas/table.py", "kafka/throttled.py"

MUTANTS = (
    plant(
        "quota-default-user-before-user",
        AREA,
        "a user's own quota gives way to the one of all",
        (
            "quotas/resolve.py",
            "            ((named,), of_user),\n            ((client, _USER_DEFAULT), both),\n",
            "            ((client, _USER_DEFAULT), both),\n            ((named,), of_user),\n",
        ),
        kind=Kind.ORDER,
        near=RESOLVE,
    ),
    plant(
        "quota-default-shares-one-bucket",
        AREA,
        "all users together have what each may take by default",
        (
            "quotas/resolve.py",
            "            ((_USER_DEFAULT,), of_user),\n",
            '            ((_USER_DEFAULT,), ("", "")),\n',
        ),
        kind=Kind.RANGE,
        near=RESOLVE,
    ),
    plant(
        "quota-window-of-the-past-counts-on",
        AREA,
        "what was taken eleven seconds ago delays for ever",
        (WINDOWS, "            self._amounts[window % WINDOWS] = 0.0\n", "            pass\n"),
        kind=Kind.CLEARED,
        near=RATES,
    ),
    plant(
        "quota-window-forgets-one-too-many",
        AREA,
        "the mean is over ten seconds of which eleven count",
        (WINDOWS, "(newest - WINDOWS + 1) * WINDOW_MS", "(newest - WINDOWS + 2) * WINDOW_MS"),
        kind=Kind.RANGE,
        near=RATES,
    ),
    plant(
        "quota-delay-from-the-first-second",
        AREA,
        "a new client waits a second less than it owes, and is over again at once",
        (
            WINDOWS,
            "        return min(self._began_ms + needed_ms - now_ms, self.delay_ms_max)\n",
            "        return min(needed_ms - elapsed_ms, self.delay_ms_max)\n",
        ),
        kind=Kind.RANGE,
        near=RATES,
    ),
    plant(
        "quota-tokens-of-yesterday",
        AREA,
        "a client that was silent for a day may create topics for a day",
        (
            "quotas/tokens.py",
            "min(most, self._tokens + passed_ms * self.bound / 1000)",
            "self._tokens + passed_ms * self.bound / 1000",
        ),
        kind=Kind.GUARD,
        near=RATES,
    ),
    plant(
        "quota-change-is-not-heard-of",
        AREA,
        "a connection goes by the quotas of its first request",
        (REPLY, "        and known.generation == table.generation\n", ""),
        kind=Kind.STALE,
        near=THROTTLED,
    ),
    plant(
        "quota-of-who-it-was-before",
        AREA,
        "a client that has proved who it is goes by the quota of everybody",
        (REPLY, "        and known.principal == context.principal\n", ""),
        kind=Kind.STALE,
        near=THROTTLED,
    ),
    plant(
        "quota-bucket-begins-anew-with-a-change",
        AREA,
        "what was taken is forgotten when the quota changes",
        (
            TABLE,
            "        if bucket is None:\n",
            "        if bucket is None or bucket.bound != bound:\n",
        ),
        kind=Kind.CLEARED,
        near=RESOLVE,
    ),
    plant(
        "quota-busy-bucket-makes-room",
        AREA,
        "a client with many ids washes away what it has taken",
        (
            TABLE,
            "            self._by_owner.move_to_end(owner)\n        self._by",
            "            break\n        self._by",
        ),
        kind=Kind.ORDER,
        near=RESOLVE,
    ),
    plant(
        "quota-refused-connection-counts",
        AREA,
        "an address that goes on trying never comes in again",
        (TABLE, "            bucket.record(-1, now_ms)\n", ""),
        kind=Kind.CLEARED,
        near=("tests/quotas/test_table.py",),
    ),
    plant(
        "quota-produce-is-not-stopped-at-once",
        AREA,
        "what a producer has sent behind is taken while the answer waits",
        (REPLY, "                self.connection.mute(None)\n", ""),
        kind=Kind.GUARD,
        near=THROTTLED,
    ),
    plant(
        "quota-without-an-answer-is-not-muted",
        AREA,
        "acks=0 produces without end",
        (
            REPLY,
            "        super().skip()\n        self._mute()\n",
            "        super().skip()\n",
        ),
        kind=Kind.GUARD,
        near=THROTTLED,
    ),
    plant(
        "quota-fetch-over-it-waits",
        AREA,
        "a fetch above its quota reads and waits, and is paid for later",
        (
            "kafka/handlers/records/fetch.py",
            "    is_over = quota_bytes == 0\n",
            "    is_over = False\n",
        ),
        kind=Kind.GUARD,
        near=THROTTLED,
    ),
    plant(
        "quota-empty-fetch-begins-a-session",
        AREA,
        "a throttled consumer leaves a session with each fetch",
        (
            "kafka/handlers/records/fetch.py",
            "[] if is_over and request.session_epoch <= INITIAL_EPOCH else wanted",
            "wanted",
        ),
        kind=Kind.CLEARED,
        near=THROTTLED,
    ),
    plant(
        "quota-dry-run-is-a-mutation",
        AREA,
        "a trial uses up what a client may create",
        (
            "kafka/handlers/cluster/create_topics.py",
            "    if not body.validate_only:\n",
            "    if True:\n",
        ),
        kind=Kind.GUARD,
        near=MUTATIONS,
    ),
    plant(
        "quota-old-client-is-refused",
        AREA,
        "DeleteTopics 4 gets a code that it does not know",
        ("kafka/handlers/cluster/delete_topics.py", "STRICT_VERSION = 5", "STRICT_VERSION = 4"),
        kind=Kind.RANGE,
        near=MUTATIONS,
    ),
    plant(
        "mute-ends-with-the-shorter-time",
        AREA,
        "an answer without a delay ends the mute of the one before",
        (
            "net/answers/muted.py",
            "            if known.due >= due:\n                return\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=MUTED,
    ),
    plant(
        "mute-outlives-its-connection",
        AREA,
        "connections that are gone are held until their delay is over",
        ("net/connection.py", "        context.muted.forget(self)\n", ""),
        kind=Kind.CLEARED,
        near=MUTED,
    ),
    plant(
        "mute-counts-as-a-slow-frame",
        AREA,
        "a client is closed for a frame that nobody has read",
        (
            "net/answers/answering.py",
            "        self.frame_tick = self.last_tick = self._context.tick\n        self._go_on(PAUSED_QUOTA)",
            "        self._go_on(PAUSED_QUOTA)",
        ),
        kind=Kind.STALE,
        near=MUTED,
    ),
    plant(
        "quota-snapshot-is-not-told",
        AREA,
        "a broker that was far behind goes by the quotas of before",
        (
            "controller/metadata/install.py",
            "        changed_quotas=_changed_quotas(image, newer),\n",
            "",
        ),
        kind=Kind.SNAPSHOT,
        near=COMMANDS,
    ),
    plant(
        "quota-strict-filter-is-not",
        AREA,
        "who asks for the quota of a user gets those of its clients too",
        (
            "quotas/filters.py",
            "        if self.is_strict and len(parts)",
            "        if False and len(parts)",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
)
