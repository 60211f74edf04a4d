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
FIELDS = ("tests/grpc/test_fields.py", "tests/grpc/test_delivered.py")
ENCODED, ACKED, READ = "protobuf/fields.py", "grpc/methods/ack_message.py", "record/read.py"
DELIVERED = "grpc/consuming/delivered.py"

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
    plant(
        "fields-of-a-text-by-its-characters",
        AREA,
        "an empty text or body is left out, as if it were none",
        (ENCODED, "        elif value is not None:\n", "        elif value:\n"),
        kind=Kind.RANGE,
        near=FIELDS,
    ),
    plant(
        "fields-number-as-a-length",
        AREA,
        "the tag of a number says that a length follows",
        (
            ENCODED,
            "            add_varint(out, number << 3 | VARINT)\n",
            "            add_varint(out, number << 3 | VARINT + 2)\n",
        ),
        kind=Kind.RANGE,
        near=FIELDS,
    ),
    plant(
        "outcome-of-the-whole-for-each",
        AREA,
        "each acknowledgement is told the outcome of all together",
        (ACKED, "if one is _OK else encode(one)\n", "if one is _OK else encode(status)\n"),
        kind=Kind.STALE,
        near=FIELDS,
    ),
    plant(
        "delivered-time-that-waited-for-none",
        AREA,
        "a message that was delayed does not tell for when it was meant",
        (
            DELIVERED,
            "        (11, None if until_ms is None else _time_of(until_ms)),\n",
            "        (11, None),\n",
        ),
        kind=Kind.GUARD,
        near=("tests/grpc/test_delivered.py", "tests/grpc/test_delays.py"),
    ),
    plant(
        "records-of-falling-offsets",
        AREA,
        "a record with the offset of the one before it is read, and given out twice",
        (
            READ,
            "    if not previous < raw.offset_delta <= header.last_offset_delta:\n",
            "    if not previous <= raw.offset_delta <= header.last_offset_delta:\n",
        ),
        kind=Kind.RANGE,
        near=("tests/record/test_record_at.py",),
    ),
    plant(
        "records-and-what-follows-them",
        AREA,
        "bytes behind the last record of a batch are passed over in silence",
        (
            READ,
            "        yield record\n    if at != len(block):\n",
            "        yield record\n    if at > len(block):\n",
        ),
        kind=Kind.GUARD,
        near=("tests/record/test_record_at.py",),
    ),
)
