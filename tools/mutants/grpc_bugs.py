"""Bugs of the front for RocketMQ's gRPC clients: producers, and the routes that they are told."""

from .mutant import Kind, plant

AREA = "gRPC producers"
SENDING = ("tests/grpc/test_sending.py",)
CALLS = ("tests/grpc/test_calls.py",)
ROUTES = ("tests/grpc/test_routes.py",)

MUTANTS = (
    plant(
        "grpc-groups-are-anywhere",
        AREA,
        "messages of a group lose their order",
        (
            "grpc/methods/send_message.py",
            "        first = crc32(system.message_group.encode())\n",
            "        first = crc32(system.message_id.encode())\n",
        ),
        kind=Kind.GUARD,
        near=SENDING,
    ),
    plant(
        "grpc-groups-go-together",
        AREA,
        "messages of two groups are in the partition of one",
        (
            "grpc/methods/send_message.py",
            "    if len(kinds) > 1 or len(groups) > 1:\n",
            "    if len(kinds) > 1:\n",
        ),
        kind=Kind.GUARD,
        near=SENDING,
    ),
    plant(
        "grpc-one-offset-for-all",
        AREA,
        "of the messages of a request a client knows the first one's place alone",
        (
            "grpc/methods/send_message.py",
            "offset=outcome + at)",
            "offset=outcome)",
        ),
        kind=Kind.RANGE,
        near=SENDING,
    ),
    plant(
        "grpc-users-write-the-front-s-headers",
        AREA,
        "a client forges the host or the attempts of a message",
        (
            "grpc/incoming.py",
            "        if name in _RESERVED or name.startswith((PREFIX, TRANSIENT_PREFIX)):\n",
            "        if name in _RESERVED:\n",
        ),
        kind=Kind.GUARD,
        near=SENDING,
    ),
    plant(
        "grpc-queues-without-numbers",
        AREA,
        "a client sends to another queue than it names",
        ("grpc/routes.py", "            if not is_first:\n", "            if partition > 1:\n"),
        kind=Kind.RANGE,
        near=(*ROUTES, *CALLS),
    ),
    plant(
        "grpc-internal-topics-are-written",
        AREA,
        "a client writes to the topic of groups",
        (
            "grpc/methods/send_message.py",
            "    if topic.internal:\n",
            "    if topic is None:\n",
        ),
        kind=Kind.GUARD,
        near=SENDING,
    ),
)
