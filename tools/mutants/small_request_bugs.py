"""Planted bugs on the way of small requests: what goes through without a closer look (ADR 0177)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

PLAIN, RULES, APPEND = "record/plain.py", "broker/append/batch_rules.py", "broker/append/append.py"
CONNECTION = "net/connection.py"
AREA = "Small requests"
AT_A_GLANCE = ("tests/record/test_plain.py",)
RULED = (
    "tests/kafka/test_batch_bounds.py",
    "tests/kafka/test_compacted_produce.py",
    "tests/broker/test_batches_end_to_end.py",
    "tests/broker/test_preparation.py",
)
FRAMES = ("tests/net/test_connection.py",)

MUTANTS = (
    plant(
        "plain-newest-as-claimed",
        AREA,
        "a plain batch keeps the newest time that its producer claims, whatever its records say",
        (
            PLAIN,
            "    if fault != SOUND or newest != header.max_timestamp:\n",
            "    if fault != SOUND:\n",
        ),
        kind=Kind.GUARD,
        near=AT_A_GLANCE,
    ),
    plant(
        "plain-with-what-a-broker-writes",
        AREA,
        "a batch that claims log append time or to be a marker is plain, if it is not compressed",
        (
            PLAIN,
            "header.attributes & ~TRANSACTIONAL or",
            "header.attributes & 7 or",
        ),
        kind=Kind.GUARD,
        near=AT_A_GLANCE,
    ),
    plant(
        "plain-oldest-is-not-asked",
        AREA,
        "a plain batch may have records older than the topic takes, beside one that is not",
        (PLAIN, "    are_within = first_ms <= oldest and ", "    are_within = "),
        kind=Kind.GUARD,
        near=AT_A_GLANCE,
    ),
    plant(
        "plain-just-before-the-bound",
        AREA,
        "a plain batch with exactly the latest time that the topic takes is looked at again, and taken",
        (PLAIN, "first_ms <= newest <= last_ms", "first_ms <= newest < last_ms"),
        kind=Kind.RANGE,
        near=AT_A_GLANCE,
    ),
    plant(
        "plain-for-the-brokers-time",
        AREA,
        "a topic with log append time keeps the producer's time of plain batches",
        (
            RULES,
            "    stores_as_sent = not codec and not settings.is_log_append_time\n",
            "    stores_as_sent = not codec\n",
        ),
        kind=Kind.GUARD,
        near=RULED,
    ),
    plant(
        "plain-without-keys-where-needed",
        AREA,
        "a compacted topic takes records without keys, if their batch is plain",
        (
            RULES,
            "        takes_plain=looks_at_records and stores_as_sent and not settings.is_compacted,\n",
            "        takes_plain=looks_at_records and stores_as_sent,\n",
        ),
        kind=Kind.GUARD,
        near=RULED,
    ),
    plant(
        "plain-for-another-codec",
        AREA,
        "a topic with a codec of its own stores plain batches as they come",
        (
            RULES,
            "    stores_as_sent = not codec and not settings.is_log_append_time\n",
            "    stores_as_sent = not settings.is_log_append_time\n",
        ),
        kind=Kind.GUARD,
        near=RULED,
    ),
    plant(
        "plain-of-any-size",
        AREA,
        "a plain batch may be larger than its topic takes",
        (
            APPEND,
            "rules.takes_plain and size <= rules.max_message_bytes:\n",
            "rules.takes_plain:\n",
        ),
        kind=Kind.GUARD,
        near=RULED,
    ),
    plant(
        "saved-bytes-of-a-frame-that-is-whole",
        AREA,
        "the first part of a frame is kept once the rest has come, and stands before the next one",
        (
            CONNECTION,
            "            if (saved or at != filled) and not self.is_closed:\n",
            "            if at != filled and not self.is_closed:\n",
        ),
        kind=Kind.GUARD,
        near=FRAMES,
    ),
)
