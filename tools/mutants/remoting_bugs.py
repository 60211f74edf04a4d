"""Bugs of the front for RocketMQ's remoting clients: what it reads, maps, stores and tells."""

from .mutant import Kind, plant

AREA = "Remoting"
FRAMES = ("tests/remoting/test_frames.py",)
MESSAGES = ("tests/remoting/test_messages.py",)
MAPPING = ("tests/remoting/test_mapping.py",)
MEMBERS = ("tests/remoting/test_members.py",)
ROUTES = ("tests/remoting/test_routes.py",)
BODIES = ("tests/remoting/test_body_codec.py",)
HANDLERS = ("tests/remoting/test_handlers.py",)
BOUNDS = ("tests/remoting/test_bounds.py",)
LOCKS = ("tests/remoting/test_locks.py",)
FILTERED = ("tests/remoting/filters/test_filtered_pulls.py",)
EXPRESSIONS = ("tests/remoting/filters/test_expressions.py",)
FILTERS = ("tests/remoting/filters/test_filters.py",)

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
        (
            "remoting/queues.py",
            "self._numbers.append(len(of_set))",
            "self._numbers.append(partition)",
        ),
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
            "        if known is not None and known.connection != member.connection:\n",
            "        if known is not None and known.connection != known.connection:\n",
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
            "            and now_ms - member.seen_ms >= EXPIRY_MS\n",
            "            and now_ms < member.seen_ms\n",
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
            "            self._context.unanswered += 1\n",
            "            self._context.unanswered += 1\n"
            "            self._slot = self._context.connection.reserve()\n",
        ),
        ("remoting/request.py", '"_request", "_size")', '"_request", "_size", "_slot")'),
        (
            "remoting/request.py",
            "        connection.reserve().send(head, body)",
            "        self._slot.send(head, body)",
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
            "yield Messages(encoded, record.offset)",
            "yield Messages(encoded, run_end(data, wanted.offset))",
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
            "inflating.decompress(body, max(limit, 1))",
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
        "remoting-connections-are-always-read",
        AREA,
        "a client's messages that wait for a worker take all memory",
        ("remoting/held.py", "            connection.hold(0)\n", "            assert connection\n"),
        kind=Kind.GUARD,
        near=BOUNDS,
    ),
    plant(
        "remoting-all-pulls-wait",
        AREA,
        "a client's waiting pulls keep its own connection from being read",
        (
            "remoting/held.py",
            "        is_little = self._of[connection] <= OF_ONE_MAX // 2\n",
            "        is_little = self._of[connection] <= OF_ONE_MAX * 2\n",
        ),
        kind=Kind.RANGE,
        near=BOUNDS,
    ),
    plant(
        "remoting-answers-without-end",
        AREA,
        "a batch of a thousand times its size becomes one answer",
        (
            "remoting/reading.py",
            " == wanted.messages_max or left <= 0:",
            " == wanted.messages_max:",
        ),
        kind=Kind.GUARD,
        near=BOUNDS,
    ),
    plant(
        "remoting-members-without-a-bound",
        AREA,
        "subscriptions of members take all memory",
        (
            "remoting/members.py",
            "        if grown > 0 and not self._bytes_of.has_free(user, grown):\n",
            "        if grown < 0 and not self._bytes_of.has_free(user, grown):\n",
        ),
        kind=Kind.GUARD,
        near=BOUNDS,
    ),
    plant(
        "remoting-locks-of-others-are-taken",
        AREA,
        "two clients of a group consume one ordered queue",
        (
            "remoting/locks.py",
            "known.client_id != client_id and now_ms < known.until_ms:",
            "known.client_id != client_id and known.until_ms < now_ms:",
        ),
        kind=Kind.GUARD,
        near=LOCKS,
    ),
    plant(
        "remoting-clients-end-others",
        AREA,
        "a client takes another one out of its group",
        (
            "remoting/members.py",
            "[place] if place in self._places.get(connection, ()) else []",
            "[place] if any(place in one for one in self._places.values()) else []",
        ),
        kind=Kind.GUARD,
        near=MEMBERS,
    ),
    plant(
        "remoting-delays-at-once",
        AREA,
        "a delayed message is delivered at once",
        (
            "remoting/handlers/send.py",
            "    elif level:\n",
            "    elif False:\n",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
    plant(
        "remoting-null-is-false",
        AREA,
        "NOT of a comparison with a missing property is true",
        (
            "remoting/filters/parts.py",
            "        return None if value is None else not value\n",
            "        return not value\n",
        ),
        kind=Kind.GUARD,
        near=EXPRESSIONS,
    ),
    plant(
        "remoting-longs-are-integers",
        AREA,
        "a property of more than 32 bits can not be compared with a number of more",
        ("remoting/filters/values.py", "    Long: to_long,\n", "    Long: to_integer,\n"),
        kind=Kind.RANGE,
        near=EXPRESSIONS,
    ),
    plant(
        "remoting-slices-go-on-one-further",
        AREA,
        "a pull that is answered before the end of a read skips a message",
        (
            "remoting/reading.py",
            "        following = record.offset + 1\n",
            "        following = record.offset + 2\n",
        ),
        kind=Kind.RANGE,
        near=FILTERED,
    ),
    plant(
        "remoting-older-subscriptions-filter",
        AREA,
        "a consumer gets what it wanted before it has subscribed anew",
        (
            "remoting/filters/wanted.py",
            'if told.sub_version < number(command, "subVersion", 0):',
            'if told.sub_version < 0 > number(command, "subVersion", 0):',
        ),
        kind=Kind.STALE,
        near=FILTERED,
    ),
    plant(
        "remoting-expressions-without-a-bound",
        AREA,
        "expressions of clients take all memory",
        (
            "remoting/filters/compiled.py",
            "        while self.bytes_now > self.bytes_max:\n",
            "        while self.bytes_now < 0:\n",
        ),
        kind=Kind.GUARD,
        near=FILTERS,
    ),
)
