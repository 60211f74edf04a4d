"""Bugs of the front for RocketMQ's remoting clients: what it reads, maps, stores and tells."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

AREA = "Remoting"
FRAMES = ("tests/remoting/test_frames.py",)
MESSAGES = ("tests/remoting/test_messages.py",)
MAPPING = ("tests/remoting/test_mapping.py",)
MEMBERS = ("tests/remoting/test_members.py",)
ROUTES = ("tests/remoting/test_routes.py",)
BODIES = ("tests/remoting/test_body_codec.py",)
HANDLERS = ("tests/remoting/test_handlers.py",)

MUTANTS = (
    plant(
        "remoting-headers-without-a-bound",
        AREA,
        "a header of any number of fields is kept in memory",
        (
            "remoting/wire/frame.py",
            "if len(command.fields) > FIELDS_MAX:",
            "if len(command.fields) < 0:",
        ),
        kind=Kind.GUARD,
        near=FRAMES,
    ),
    plant(
        "remoting-fields-behind-the-header",
        AREA,
        "a binary header whose lengths lie is read for a command",
        ("remoting/wire/header_binary.py", "    if end > len(header):\n", "    if end < at:\n"),
        kind=Kind.RANGE,
        near=FRAMES,
    ),
    plant(
        "remoting-long-topics-in-a-byte",
        AREA,
        "a topic of more than 127 bytes makes every message behind it unreadable",
        (
            "remoting/wire/message.py",
            "_TOPIC_BYTES_MAX: Final = 127",
            "_TOPIC_BYTES_MAX: Final = 255",
        ),
        kind=Kind.RANGE,
        near=MESSAGES,
    ),
    plant(
        "remoting-batches-believe-their-lengths",
        AREA,
        "a message of a batch ends where its properties do not",
        (
            "remoting/wire/batch_body.py",
            "    if properties_at + _INT16.size + properties_bytes != end:\n",
            "    if False:\n",
        ),
        kind=Kind.GUARD,
        near=MESSAGES,
    ),
    plant(
        "remoting-long-groups-are-keys",
        AREA,
        "a message group of 64 bytes and more does not come back",
        (
            "remoting/mapping.py",
            "            if len(raw) <= GROUP_BYTES_MAX:\n",
            "            if raw:\n",
        ),
        kind=Kind.RANGE,
        near=MAPPING,
    ),
    plant(
        "remoting-groups-are-keys-too",
        AREA,
        "a message's group is shown as a key that its producer never gave",
        ("remoting/mapping.py", "is_kafkas=not host)", "is_kafkas=True)"),
        kind=Kind.GUARD,
        near=MAPPING,
    ),
    plant(
        "remoting-properties-overflow",
        AREA,
        "a record with large headers is a message that no client can read",
        (
            "remoting/mapping.py",
            "        if size > left:\n",
            "        if size > left + PROPERTIES_BYTES_MAX:\n",
        ),
        kind=Kind.RANGE,
        near=MAPPING,
    ),
    plant(
        "remoting-users-write-the-front-s-headers",
        AREA,
        "a client forges the id, the tag or the host of a message",
        (
            "remoting/mapping.py",
            "    if name.startswith(PREFIX):\n        raise",
            "    if not name:\n        raise",
        ),
        kind=Kind.GUARD,
        near=MAPPING,
    ),
    plant(
        "remoting-queues-of-all-sets",
        AREA,
        "a queue's number depends on partitions of other sets",
        ("remoting/queues.py", "Queue(set_id, len(of_set))", "Queue(set_id, partition)"),
        kind=Kind.RANGE,
        near=ROUTES,
    ),
    plant(
        "remoting-routes-to-nobody",
        AREA,
        "a client throws on a broker without an address",
        (
            "remoting/routes.py",
            "queues.counts().items() if members.get(set_id)}",
            "queues.counts().items() if set_id in members}",
        ),
        kind=Kind.GUARD,
        near=ROUTES,
    ),
    plant(
        "remoting-an-old-connection-ends-its-client",
        AREA,
        "a client that has reconnected loses its queues when its first connection ends",
        (
            "remoting/members.py",
            "                if member.connection == connection\n",
            "                if member.connection == connection or client_id in {c for c, m in members.items() if m.seen_ms}\n",
        ),
        kind=Kind.STALE,
        near=MEMBERS,
    ),
    plant(
        "remoting-silent-members-stay",
        AREA,
        "the queues of a client that is gone are nobody's",
        (
            "remoting/members.py",
            "                if now_ms - member.seen_ms >= EXPIRY_MS\n",
            "                if now_ms < member.seen_ms\n",
        ),
        kind=Kind.CLEARED,
        near=MEMBERS,
    ),
    plant(
        "remoting-pulls-hold-what-is-behind-them",
        AREA,
        "a producer on the connection of a waiting pull is answered when that is over",
        (
            "remoting/request.py",
            "        context.unanswered += 1\n",
            "        context.unanswered += 1\n        self._slot = context.connection.reserve()\n",
        ),
        ("remoting/request.py", '"_is_sent", "_request")', '"_is_sent", "_request", "_slot")'),
        (
            "remoting/request.py",
            "        connection.reserve().send(encode_head(answer), body)",
            "        self._slot.send(encode_head(answer), body)",
        ),
        kind=Kind.ORDER,
        near=HANDLERS,
    ),
    plant(
        "remoting-pulls-skip-what-does-not-fit",
        AREA,
        "messages of a batch behind the most that a pull gets are never read",
        (
            "remoting/reading.py",
            "return Messages(encoded, record.offset)",
            "return Messages(encoded, header.last_offset + 1)",
        ),
        kind=Kind.RANGE,
        near=HANDLERS,
    ),
    plant(
        "remoting-reads-what-was-aborted",
        AREA,
        "a consumer gets records of an aborted transaction",
        (
            "remoting/reading.py",
            "for one in read.aborted or ()]",
            "for one in read.aborted or () if not one]",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
    plant(
        "remoting-bombs",
        AREA,
        "a small message takes all memory when it is decompressed",
        (
            "remoting/wire/body_codec.py",
            "inflating.decompress(body, limit)",
            "inflating.decompress(body)",
        ),
        kind=Kind.GUARD,
        near=BODIES,
    ),
    plant(
        "remoting-groups-without-permission",
        AREA,
        "a client keeps positions of a group that it may not read",
        (
            "remoting/handlers/offsets.py",
            "    check(context, Operation.READ, Resource.GROUP, group)\n",
            "    assert check\n",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
    plant(
        "remoting-delays-at-once",
        AREA,
        "a delayed message is delivered at once",
        (
            "remoting/handlers/send.py",
            "    if any(name in properties for name in _DELAYS):\n",
            "    if any(name in properties for name in ()):\n",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
)
