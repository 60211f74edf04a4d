"""What the APIs of streams groups ask for, and what they answer if it is refused."""

# fmt: off

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import (
    DESCRIBE,
    GROUP,
    HIDDEN,
    ON_GROUP,
    ON_TOPIC,
    OPEN,
    READ,
    TOPIC,
    Case,
    always,
    of_each,
    play,
    whole,
)

STREAMS_CASES = [
    Case(
        ApiKey.STREAMS_GROUP_HEARTBEAT, 0, {(READ, ON_GROUP)}, always(play(HIDDEN, OPEN)),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.STREAMS_GROUP_HEARTBEAT, 0, {(READ, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always(play("new", OPEN, HIDDEN)), whole, {"": GROUP}, {"": TOPIC},
    ),
    Case(
        ApiKey.STREAMS_GROUP_DESCRIBE, 0, {(DESCRIBE, ON_GROUP)},
        always({"group_ids": [OPEN, HIDDEN], "include_authorized_operations": True}),
        of_each("groups", "group_id"), {OPEN: GROUP, HIDDEN: GROUP},
        {OPEN: Code.GROUP_ID_NOT_FOUND, HIDDEN: GROUP},
    ),
]
