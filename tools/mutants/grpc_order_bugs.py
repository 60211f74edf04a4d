"""Bugs of groups of RocketMQ's clients that keep the order of message groups."""

from .mutant import Kind, plant

AREA = "Order by message group"
ORDERED = ("tests/grpc/test_ordered.py",)
ATTEMPTS = ("tests/grpc/test_attempts.py",)

MUTANTS = (
    plant(
        "order-groups-begin-without-it",
        AREA,
        "a group that is set to keep the order does not",
        (
            "remoting/pop/beginning.py",
            "    why = Move.START_ORDERED if is_ordered else Move.START\n",
            "    why = Move.START if is_ordered else Move.START\n",
        ),
        kind=Kind.GUARD,
        near=ORDERED,
    ),
    plant(
        "order-all-groups-are-one",
        AREA,
        "a message group that waits keeps all others waiting",
        (
            "remoting/pop/records.py",
            "    return crc32(key) if key is not None else",
            "    return 7 if key is not None else",
        ),
        kind=Kind.GUARD,
        near=ORDERED,
    ),
    plant(
        "order-messages-without-a-group-are-one",
        AREA,
        "messages without a group wait for each other",
        (
            "remoting/pop/records.py",
            'else crc32(b"%d" % offset, _ALONE)',
            "else _ALONE",
        ),
        kind=Kind.GUARD,
        near=ORDERED,
    ),
    plant(
        "order-hashes-are-one-off",
        AREA,
        "messages wait for those of other groups, and pass those of their own",
        (
            "remoting/pop/records.py",
            "            hashes[one.record.offset - first] = one.key_hash\n",
            "            hashes[max(one.record.offset - first - 1, 0)] = one.key_hash\n",
        ),
        kind=Kind.RANGE,
        near=ORDERED,
    ),
    plant(
        "order-what-is-held-ends-the-look",
        AREA,
        "hundreds of messages behind one of their group keep all others waiting",
        (
            "remoting/pop/popping.py",
            "            return bool(looked.absent) or wanted.hashes is not None\n",
            "            return bool(looked.absent)\n",
        ),
        kind=Kind.GUARD,
        near=ORDERED,
    ),
    plant(
        "order-accepted-ones-are-looked-at-late",
        AREA,
        "the next message of a group comes only when something else happens",
        (
            "shares/coordinator.py",
            "            ledger.close()  # what was accepted lets the next ones of their keys go\n",
            "            pass\n",
        ),
        kind=Kind.STALE,
        near=ORDERED,
    ),
    plant(
        "order-attempts-of-anybody",
        AREA,
        "a client gets the messages of another one",
        (
            "grpc/methods/receive_message.py",
            "    return Attempt(call.member, asked.group, asked.topic, attempt_id)\n",
            '    return Attempt("", asked.group, asked.topic, attempt_id)\n',
        ),
        kind=Kind.GUARD,
        near=ORDERED,
    ),
    plant(
        "order-attempts-are-good-for-ever",
        AREA,
        "a client gets messages whose time is over, which others have",
        (
            "grpc/consuming/attempts.py",
            "        if now_ms < kept.until_ms and _is_led(kept.hosted):\n",
            "        if _is_led(kept.hosted):\n",
        ),
        kind=Kind.CLEARED,
        near=ATTEMPTS,
    ),
    plant(
        "order-attempts-outlive-acknowledgements",
        AREA,
        "a client that asks again gets what it has acknowledged",
        (
            "grpc/methods/ack_message.py",
            "                front.attempts.said(claim.key, claim.nonce)\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=ORDERED,
    ),
    plant(
        "order-attempts-outlive-their-client",
        AREA,
        "a client that has given back what it has gets it again, beside another one",
        (
            "grpc/methods/heartbeat.py",
            "            client.front.attempts.leave(member)\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=ORDERED,
    ),
)
