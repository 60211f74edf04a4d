"""Planted bugs on the way of a batch: looking at its records, keeping it, sets for it, reading it."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

WALK = "record/walk.py"
SINGLE = "record/single_frame.py"
COLUMNS = "record/columns.py"
PREPARE = "broker/append/preparation.py"
APPEND = "broker/append/append.py"
PLACE = "controller/commands/placement.py"
SESSIONS = "kafka/fetch/session_cache.py"
FETCH = "broker/fetch/operation.py"

RECORDS = ("tests/record/test_walk.py",)
FRAMES = ("tests/record/test_single_frame.py",)
LIES = (
    "tests/kafka/test_lying_batches.py",
    "tests/kafka/test_unprepared_produce.py",
    "tests/broker/test_batches_end_to_end.py",
    "tests/kafka/test_refused_batches.py",
)
READING = ("tests/record/test_columns.py",)
SETS = ("tests/controller/test_sets_on_demand.py", "tests/controller/test_create_topics.py")
FETCHES = (
    "tests/kafka/test_fetch_session.py",
    "tests/kafka/test_fetch_limits.py",
    "tests/kafka/test_produce_fetch.py",
)

MUTANTS = (
    plant(
        "walk-newest-is-the-last",
        "Batches",
        "the newest timestamp of a batch is that of its last record, whatever came before",
        (WALK, "            newest = max(newest, time)\n", "            newest = time\n"),
        kind=Kind.STALE,
        near=RECORDS,
    ),
    plant(
        "walk-no-time-by-delta",
        "Batches",
        "a record without a time is known by its delta, which is the time only where the base is 0",
        (
            WALK,
            "            if time != NO_TIMESTAMP:\n",
            "            if timestamp_delta != NO_TIMESTAMP:\n",
        ),
        kind=Kind.RANGE,
        near=RECORDS,
    ),
    plant(
        "walk-int32-of-six-bytes",
        "Batches",
        "a length of 32 bits may take six bytes, which Java's clients refuse to read",
        (WALK, "range(at, min(end, at + bytes_max))", "range(at, min(end, at + bytes_max + 1))"),
        kind=Kind.RANGE,
        near=RECORDS,
    ),
    plant(
        "single-gzip-steps-behind-it",
        "Batches",
        "bytes behind a gzip member are seen only in the step of 64 KiB that it ends in",
        (
            SINGLE,
            "    if member.unused_data or at < len(data):\n",
            "    if member.unused_data:\n",
        ),
        kind=Kind.RANGE,
        near=FRAMES,
    ),
    plant(
        "single-zstd-not-to-its-end",
        "Batches",
        "a zstd frame may end before the block does, and another one follow",
        (
            SINGLE,
            "    return at + (4 if descriptor & ZSTD_CHECKSUM else 0) == size\n",
            "    return at + (4 if descriptor & ZSTD_CHECKSUM else 0) <= size\n",
        ),
        kind=Kind.RANGE,
        near=FRAMES,
    ),
    plant(
        "single-zstd-size-of-the-wrong-frames",
        "Batches",
        "a zstd frame that says its size is held to what one that does not may have",
        (
            SINGLE,
            "    if zstd_content_bytes(data) is not None:\n",
            "    if zstd_content_bytes(data) is None:\n",
        ),
        kind=Kind.STALE,
        near=FRAMES,
    ),
    plant(
        "read-up-to-the-damage-and-with-it",
        "Batches",
        "what is served before damage takes the damaged batch in, so that the whole read fails",
        (
            "storage/read/chunk.py",
            "FRAME_HEADER_BYTES < error.position\n        ]",
            "FRAME_HEADER_BYTES <= error.position\n        ]",
        ),
        kind=Kind.RANGE,
        near=("tests/storage/test_rotten_reads.py", "tests/storage/test_damage.py"),
    ),
    plant(
        "append-header-before-it-was-put-right",
        "Batches",
        "the log goes by the newest timestamp that the producer claimed, the batch holds the true one",
        (
            PREPARE,
            "        stamp_max_timestamp(records, 0, times.newest_ms)\n        header = read_header(records)\n",
            "        stamp_max_timestamp(records, 0, times.newest_ms)\n",
        ),
        kind=Kind.STALE,
        near=LIES,
    ),
    plant(
        "append-oldest-by-the-header",
        "Batches",
        "how old a batch is is told by its first record, though a later one may be older",
        (
            PREPARE,
            "    check_records(block, header, times, rules, now_ms)\n    if times",
            "    times = times._replace(oldest_ms=header.base_timestamp)\n"
            "    check_records(block, header, times, rules, now_ms)\n    if times",
        ),
        kind=Kind.STALE,
        near=LIES,
    ),
    plant(
        "append-stamped-after-it-was-read",
        "Batches",
        "under LogAppendTime the log goes by the producer's time: the header is read before it is stamped",
        (
            APPEND,
            "    stamp_log_append_time(records, 0, now_ms)\n    return records, read_header(records), now_ms\n",
            "    header = read_header(records)\n    stamp_log_append_time(records, 0, now_ms)\n    return records, header, now_ms\n",
        ),
        kind=Kind.ORDER,
        near=LIES,
    ),
    plant(
        "produce-prepared-batch-used-again",
        "Batches",
        "what a worker made of one partition's batch is appended to the next partition as well",
        (
            "kafka/handlers/records/produce.py",
            "        prepared = None\n        offset, time_ms = appended_at\n",
            "        offset, time_ms = appended_at\n",
        ),
        kind=Kind.CLEARED,
        near=LIES,
    ),
    plant(
        "refused-explained-again-and-again",
        "Batches",
        "a refusal that explains another one counts as new, and is kept for as long as batches come",
        (
            "kafka/produce/refused_batches.py",
            "earlier._replace(base_sequence=sequence))",
            "earlier._replace(base_sequence=sequence, until_ms=self._now_ms() + KEPT_MS))",
        ),
        kind=Kind.CLEARED,
        near=("tests/kafka/test_refused_batches.py",),
    ),
    plant(
        "refused-first-is-overtaken",
        "Batches",
        "the second batch of a new producer is taken before the first, which was refused: its records stay out",
        (
            "kafka/handlers/records/produce.py",
            "            refusals.check_first(topic, partition, records, hosted.log.producers)\n",
            "",
        ),
        kind=Kind.ORDER,
        near=("tests/kafka/test_refused_batches.py",),
    ),
    plant(
        "refused-first-of-another-epoch",
        "Batches",
        "a producer that has begun a new epoch is kept out of partitions without its state for what the old one sent",
        (
            "kafka/produce/refused_batches.py",
            "        is_same = earlier.producer_epoch == epoch and",
            "        is_same =",
        ),
        kind=Kind.EPOCH,
        near=("tests/kafka/test_refused_batches.py",),
    ),
    plant(
        "columns-bad-batch-in-part",
        "Batches",
        "rows of a batch are handed over before it was read to its end, and then it can not be read",
        (
            COLUMNS,
            "                full.append(builder.take())\n",
            "                chunk = builder.take()\n                resume_at = _end_of(chunk)\n                yield chunk\n",
        ),
        kind=Kind.ORDER,
        near=READING,
    ),
    plant(
        "columns-read-again-from-the-start",
        "Batches",
        "before a batch that can not be read, rows that were handed over come a second time",
        (COLUMNS, "            resume_at = _end_of(full[-1])\n", ""),
        kind=Kind.STALE,
        near=READING,
    ),
    plant(
        "place-sets-kept-before-the-limit",
        "Placement",
        "the sets of a topic that is refused are made with the next topic of the same request",
        (
            PLACE,
            "        added = Counter(chosen)\n        known = {**self._members, **drafts.made}\n        per_broker",
            "        added = Counter(chosen)\n        known = {**self._members, **drafts.made}\n        self._made |= drafts.made\n        per_broker",
        ),
        kind=Kind.ORDER,
        near=SETS,
    ),
    plant(
        "place-sets-of-the-request-not-seen",
        "Placement",
        "a second topic of a request makes its sets by the image, under ids that the first one took",
        (
            PLACE,
            "        drafts = _Drafts(self._members, self._config.sets_per_broker_max)\n        sets = self._sets_of_size",
            "        known = {key: one.replicas for key, one in self._image.replica_sets.items()}\n        drafts = _Drafts(known, self._config.sets_per_broker_max)\n        sets = self._sets_of_size",
        ),
        kind=Kind.STALE,
        near=SETS,
    ),
    plant(
        "place-bound-one-off",
        "Placement",
        "a broker becomes a member of one set more than the setting allows",
        (
            PLACE,
            "self._counts[member] < self._per_broker_max",
            "self._counts[member] <= self._per_broker_max",
        ),
        kind=Kind.RANGE,
        near=SETS,
    ),
    plant(
        "fetch-session-partitions-counted-for-ever",
        "Fetch sessions",
        "partitions of sessions that were closed still count towards the bound of all sessions",
        (
            SESSIONS,
            "            self._count(session, -session.size_bytes, -len(session.partitions))\n",
            "            pass\n",
        ),
        kind=Kind.CLEARED,
        near=FETCHES,
    ),
    plant(
        "fetch-session-epoch-before-it-is-checked",
        "Fetch sessions",
        "a request with the epoch of the one before goes on with the session: an answer is lost on the way",
        (
            SESSIONS,
            "        if epoch != session.next_epoch:\n",
            "        if epoch not in {session.next_epoch, session.next_epoch - 1}:\n",
        ),
        kind=Kind.EPOCH,
        near=FETCHES,
    ),
)
