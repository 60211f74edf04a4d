"""Planted bugs of how thousands of parked fetches are woken, and what a coordinator keeps of groups
that are over; most of them were in the source.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

WAKES = ("tests/broker/test_wakes.py",)
VACANT = ("tests/groups/test_vacant_groups.py",)
LIVE = ("tests/kafka/test_many_waiters.py",)

MUTANTS = (
    plant(
        "a-wake-is-one-turn",
        "Turns",
        "a record for 1,500 parked fetches holds the loop for 167 ms",
        (
            "broker/fetch/wakes.py",
            "            while wake and self._left > 0:\n",
            "            while wake:\n",
        ),
        kind=Kind.GUARD,
        near=(*WAKES, *LIVE),
    ),
    plant(
        "no-quiet-turns-between-wakes",
        "Turns",
        "records wait for a portion of a wake in each step of theirs",
        ("broker/fetch/wakes.py", "            self._quiet.rest()\n", ""),
        kind=Kind.GUARD,
        near=WAKES,
    ),
    plant(
        "a-wake-is-not-measured",
        "Turns",
        "no metric tells that parked fetches hold the loop",
        (
            "broker/fetch/wakes.py",
            "            self._note(self._clock.monotonic_us() - begun)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=LIVE,
    ),
    plant(
        "deadlines-are-one-turn",
        "Turns",
        "thousands of fetches whose time ends together are answered in one turn",
        (
            "broker/fetch/operation.py",
            "            self._broker.wakes.begin((self,), is_changed=True)\n",
            "            self._ask()\n",
        ),
        kind=Kind.GUARD,
        near=WAKES,
    ),
    plant(
        "a-change-misses-who-is-being-woken",
        "Fetch",
        "a fetch that was woken for too little does not hear that another broker leads",
        (
            "broker/fetch/wakes.py",
            "        self._is_changed = self._is_changed or is_changed\n",
            "        self._is_changed = self._is_changed if self._waiters else is_changed\n",
        ),
        kind=Kind.STALE,
        near=WAKES,
    ),
    plant(
        "a-large-wake-goes-first",
        "Turns",
        "one fetch of a partition waits for thousands of another one",
        (
            "broker/fetch/wakes.py",
            "                self._waiting.append(wake)\n            else:",
            "                self._waiting.appendleft(wake)\n            else:",
        ),
        kind=Kind.ORDER,
        near=WAKES,
    ),
    plant(
        "fetches-that-are-over-are-woken",
        "Fetch",
        "fetches that have ended are kept until their partition has had its turn",
        (
            "broker/partitions.py",
            "        if self._wake is not None:\n            self._wake.leave(waiter)\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=WAKES,
    ),
    plant(
        "the-last-to-park-decides",
        "Fetch",
        "at a slave, fetches that have seen less than the newest one are not woken",
        (
            "broker/partitions.py",
            "        if not self.waiters or high_watermark < self.seen_high_watermark:\n            self.seen_high_watermark = high_watermark\n",
            "        self.seen_high_watermark = high_watermark\n",
        ),
        kind=Kind.STALE,
        near=WAKES,
    ),
    plant(
        "vacant-groups-stay",
        "Groups",
        "groups whose members went, without positions, hold their memory for ten minutes",
        (
            "groups/journal.py",
            "            done(error)\n            if group.is_vacant:\n                self._on_vacant(group.group_id)\n",
            "            done(error)\n",
        ),
        kind=Kind.CLEARED,
        near=VACANT,
    ),
    plant(
        "vacant-once-is-vacant-for-good",
        "Groups",
        "a group that was used again meanwhile is deleted with its positions",
        ("groups/expiry.py", " or not group.is_vacant or not _may_go(group)", ""),
        kind=Kind.STALE,
        near=VACANT,
    ),
    plant(
        "the-seconds-do-not-begin-anew",
        "Groups",
        "a group that is left again goes at once",
        (
            "groups/coordinator.py",
            "        self._context.deadlines.set(DeadlineKey(DeadlineKind.VACANT, group_id), at_ms)\n",
            "        key = DeadlineKey(DeadlineKind.VACANT, group_id)\n        if self._context.deadlines.at(key) is None:\n            self._context.deadlines.set(key, at_ms)\n",
        ),
        kind=Kind.STALE,
        near=VACANT,
    ),
)
