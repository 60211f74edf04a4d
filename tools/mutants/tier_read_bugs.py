"""Bugs of reads for clients of what only the tier has: gaps, slaves, slow stores, access."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Tier"
READS = "runtime/tier/reads.py"
SERVED = "broker/fetch/served.py"
READ = "broker/fetch/partition_read.py"
TOLD = "runtime/tier/told.py"
SENT = "broker/fetch/sent_away.py"
SELECTOR = "broker/fetch/slave_reads.py"
ANSWERS = "broker/tier/run_answers.py"
SEARCH = "broker/tier/search.py"
LOOK_UPS = "broker/look_ups.py"
LIST_OFFSETS = "kafka/handlers/records/list_offsets.py"
DESCRIBE = "kafka/handlers/records/describe_producers.py"
SLOW = ("tests/broker/test_tier_slow_store.py",)
ACCESS = ("tests/kafka/test_tier_told_access.py",)
AT_SLAVES = ("tests/broker/test_tier_at_slaves.py",)
GAPS = ("tests/broker/test_tier_gaps.py", "tests/runtime/test_tier_reads.py")

MUTANTS = (
    plant(
        "tier-read-stops-in-a-gap",
        AREA,
        "a consumer behind whose offset is a gap in the tier hears of a failing store for ever",
        (
            READS,
            "        first = read_header(found.batches[0]).base_offset\n        aborted",
            "        first = read_header(found.batches[0]).base_offset\n        if first > offset:\n            raise TierUnavailable(NOT_KNOWN)\n        aborted",
        ),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-ends-with-the-tier",
        AREA,
        "a consumer in a gap up to the tier's end never gets what the disk has behind it",
        (SERVED, "        if chunk is None or chunk.size:\n", "        if True:\n"),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-passes-one-gap-only",
        AREA,
        "a gap that was passed when the disks had what is behind it leads below the local start: the consumer is reset",
        (
            SERVED,
            "    while offset < hosted.log.log_start_offset:\n",
            "    if offset < hosted.log.log_start_offset:\n",
        ),
        kind=Kind.STALE,
        near=GAPS,
    ),
    plant(
        "tier-read-forgets-where-the-log-was-read",
        AREA,
        "a consumer of committed records in a gap is told that its records went while they were read",
        (SERVED, "    read.begins_at = offset\n", ""),
        kind=Kind.GUARD,
        near=GAPS,
    ),
    plant(
        "tier-read-keeps-empty-answers",
        AREA,
        "answers without records pile up in memory: each counts for nothing",
        (
            READS,
            "        self._ready_bytes += chunk.size + READY_COSTS\n",
            "        self._ready_bytes += chunk.size\n",
        ),
        kind=Kind.RANGE,
        near=GAPS,
    ),
    plant(
        "tier-read-tells-a-short-gap",
        AREA,
        "a gap is passed one offset a read: thousands of reads of the store for one fetch",
        (READS, "(offset, found.next_offset), [])", "(offset, offset + 1), [])"),
        kind=Kind.RANGE,
        near=GAPS,
    ),
    plant(
        "tier-slave-uses-what-an-earlier-master-told",
        AREA,
        "after an unclean election a slave serves what the tier was cut of",
        (
            TOLD,
            "        if told is None or told.leader_epoch != leader_epoch:\n            told = self",
            "        if told is None:\n            told = self",
        ),
        kind=Kind.EPOCH,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-outlives-its-lease",
        AREA,
        "a slave without a master names objects that are deleted by then, for as long as it likes",
        (TOLD, "if now_ms < one.until_ms]", "if one.until_ms]"),
        kind=Kind.CLEARED,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-counts-its-lease-from-the-answer",
        AREA,
        "a window without an answer begins a lease of its own: it never ends",
        (
            TOLD,
            "            older.checked_ms = asked_ms\n",
            "            older.checked_ms = asked_ms\n            older.until_ms = asked_ms + 60_000\n",
        ),
        kind=Kind.CLEARED,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-never-asks-again",
        AREA,
        "a slave serves what was deleted for as long as the lease lasts, half an hour",
        (
            TOLD,
            "        if window is None or now_ms - window.checked_ms >= FRESH_MS:\n",
            "        if window is None:\n",
        ),
        kind=Kind.STALE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-gives-ready-answers-for-ever",
        AREA,
        "a slave serves what was deleted as long as somebody has read it before",
        (
            READS,
            "if ready is not None and (is_led or self._told.now_ms() < until_ms):",
            "if ready is not None:",
        ),
        kind=Kind.STALE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-reads-anew-what-took-long",
        AREA,
        "an answer of a slow store is too old when it is there, and is read again for ever",
        (
            READS,
            "self._ready[place] = chunk, self._told.now_ms() + FRESH_MS",
            "self._ready[place] = chunk, self._told.now_ms()",
        ),
        kind=Kind.RANGE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-asks-a-silent-master-at-each-read",
        AREA,
        "a slave whose master has died waits for it at each read",
        (TOLD, "            older.checked_ms = asked_ms\n", ""),
        kind=Kind.CLEARED,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-forgets-no-lost-object",
        AREA,
        "a slave reads an object that was replaced until its lease ends",
        (READS, "                self._told.forget(place.topic_partition)\n", ""),
        kind=Kind.STALE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-believes-any-partition",
        AREA,
        "a slave gives the records of another partition",
        (
            TOLD,
            "        if runs and runs[0].entry.topic_partition != key:\n",
            "        if False:\n",
        ),
        kind=Kind.GUARD,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-believes-any-order",
        AREA,
        "a slave passes over a range that it was not told of",
        (TOLD, " or not are_in_sequence(runs):", ":"),
        kind=Kind.GUARD,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-waits-for-what-it-is-never-told",
        AREA,
        "a consumer waits at a slave that is not told what was aborted, and the master knows it",
        (
            READS,
            "        if aborted is None and hosted.member.role is not Role.MASTER:\n",
            "        if False:\n",
        ),
        kind=Kind.GUARD,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slaves-are-told-by-anybody",
        AREA,
        "a broker that is not the master of the epoch that is asked tells what it believes",
        (ANSWERS, "        return hosted if is_led else None\n", "        return hosted\n"),
        kind=Kind.EPOCH,
        near=AT_SLAVES,
    ),
    plant(
        "tier-answers-to-slaves-have-no-bound",
        AREA,
        "an answer that is too large for the link: the slave is never told",
        (ANSWERS, "        if left < 0:\n            return\n", ""),
        kind=Kind.RANGE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-consumers-go-to-and-fro",
        AREA,
        "a consumer whose slave can not read the store is sent there again and again",
        (SENT, "        if not is_kept and sent_with == offset:\n", "        if False:\n"),
        kind=Kind.GUARD,
        near=AT_SLAVES,
    ),
    plant(
        "tier-consumers-stay-with-the-master",
        AREA,
        "who came back from a slave once is never sent away again",
        (
            SENT,
            "        is_kept = now_ms < kept_until_ms\n",
            "        is_kept = kept_until_ms > 0\n",
        ),
        kind=Kind.CLEARED,
        near=AT_SLAVES,
    ),
    plant(
        "tier-consumers-are-kept-by-their-own-request",
        AREA,
        "a request that looks at a partition twice counts as one that came back",
        (
            SELECTOR,
            "            self._chosen[key] = chosen\n        return self._chosen[key]\n",
            "            return chosen\n        return NO_PREFERENCE\n",
        ),
        kind=Kind.GUARD,
        near=AT_SLAVES,
    ),
    plant(
        "tier-slave-refuses-by-its-own-disk",
        AREA,
        "a slave refuses history that its master still has: the consumer is reset",
        (
            SELECTOR,
            "            start = tier.reads.told_start(hosted)\n",
            "            start = log.log_start_offset\n",
        ),
        kind=Kind.STALE,
        near=AT_SLAVES,
    ),
    plant(
        "tier-look-ups-keep-the-disk-waiting",
        AREA,
        "a look-up by time waits for the store that another one of its machine needs",
        (
            SEARCH,
            "    return broker.look_ups if is_on_disk else broker.tier_look_ups\n",
            "    return broker.look_ups\n",
        ),
        kind=Kind.GUARD,
        near=SLOW,
    ),
    plant(
        "tier-look-ups-of-the-newest-keep-the-disk-waiting",
        AREA,
        "a look-up of the largest timestamp waits for the store in the place of the disk",
        (
            LIST_OFFSETS,
            "        queue = broker.look_ups if timestamp == LATEST else",
            "        queue = broker.look_ups if timestamp < 0 else",
        ),
        kind=Kind.GUARD,
        near=SLOW,
    ),
    plant(
        "disk-look-ups-wait-for-the-tier",
        AREA,
        "every look-up by time stands in the queue of those that need the store",
        (
            SEARCH,
            "start >= hosted.log.log_start_offset\n    return",
            "start > hosted.log.log_start_offset\n    return",
        ),
        kind=Kind.RANGE,
        near=SLOW,
    ),
    plant(
        "tier-look-ups-refuse-each-other",
        AREA,
        "of two clients that look up by time in the store one is refused",
        (LOOK_UPS, "OF_TIER_AT_ONCE = 1\n", "OF_TIER_AT_ONCE = 2\n"),
        kind=Kind.RANGE,
        near=SLOW,
    ),
    plant(
        "tier-look-ups-have-as-many-places",
        AREA,
        "look-ups take every thread that reads of the disk have",
        (
            LOOK_UPS,
            "        if self._in_progress >= self._at_once:\n",
            "        if self._in_progress >= AT_ONCE:\n",
        ),
        kind=Kind.RANGE,
        near=SLOW,
    ),
    plant(
        "latest-waits-for-the-tier",
        AREA,
        "the latest offset, which the disk is to tell, waits for the store",
        (
            LIST_OFFSETS,
            "        queue = broker.look_ups if timestamp == LATEST else queue_of(broker, hosted)\n",
            "        queue = queue_of(broker, hosted)\n",
        ),
        kind=Kind.GUARD,
        near=SLOW,
    ),
    plant(
        "history-is-told-to-who-may-describe",
        AREA,
        "who may not read a topic learns which objects have its records, and where",
        (DESCRIBE, "partition, Operation.READ)", "partition, Operation.DESCRIBE)"),
        kind=Kind.GUARD,
        near=ACCESS,
    ),
    plant(
        "the-store-is-told-with-nothing",
        AREA,
        "who may read nothing that is in the store learns where the store is",
        (DESCRIBE, "    if broker.tier is None or not is_told:\n", "    if broker.tier is None:\n"),
        kind=Kind.GUARD,
        near=ACCESS,
    ),
    plant(
        "history-is-told-beside-the-refusal",
        AREA,
        "a partition that is refused is told of all the same",
        (
            DESCRIBE,
            "                answer |= error_fields(error)\n",
            "                answer |= error_fields(error)\n                if (hosted := context.broker.partitions.find(topic.name, partition)) is not None:\n                    found[hosted] = answer\n",
        ),
        kind=Kind.GUARD,
        near=ACCESS,
    ),
)
