"""The APIs of share groups, asked for what is open and for what is hidden (gate_cases.py)."""

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import (
    DELETE,
    DESCRIBE,
    GROUP,
    HIDDEN,
    NONE,
    ON_GROUP,
    ON_TOPIC,
    OPEN,
    READ,
    TOPIC,
    Case,
    always,
    in_order,
    of_each,
    share_enter,
    share_fetch,
    whole,
)

SHARE_CASES = [
    Case(
        ApiKey.SHARE_FETCH, 2, {(READ, ON_GROUP), (READ, ON_TOPIC)}, share_fetch,
        lambda answer: whole(answer) | in_order("responses", "partitions")(answer),
        # What is open is asked for, and its group knows of no share in it.
        {"": GROUP}, {"": NONE, 0: Code.UNKNOWN_TOPIC_OR_PARTITION, 1: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.SHARE_ACKNOWLEDGE, 2, {(READ, ON_GROUP)},
        always({
            "group_id": HIDDEN, "member_id": "m", "share_session_epoch": 1, "is_renew_ack": False,
            "topics": [],
        }),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.SHARE_GROUP_HEARTBEAT, 1, {(READ, ON_GROUP)}, always(share_enter(HIDDEN, OPEN)),
        whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.SHARE_GROUP_HEARTBEAT, 1, {(READ, ON_GROUP), (DESCRIBE, ON_TOPIC)},
        always(share_enter("new", OPEN, HIDDEN)), whole, {"": GROUP}, {"": TOPIC},
    ),
    Case(
        ApiKey.SHARE_GROUP_DESCRIBE, 1, {(DESCRIBE, ON_GROUP)},
        always({"group_ids": [OPEN, HIDDEN], "include_authorized_operations": True}),
        of_each("groups", "group_id"), {OPEN: GROUP, HIDDEN: GROUP},
        {OPEN: Code.GROUP_ID_NOT_FOUND, HIDDEN: GROUP},
    ),
    Case(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {(DESCRIBE, ON_GROUP)},
        always({"groups": [{"group_id": one, "topics": None} for one in (OPEN, HIDDEN)]}),
        of_each("groups", "group_id"), {OPEN: GROUP, HIDDEN: GROUP},
        {OPEN: Code.GROUP_ID_NOT_FOUND, HIDDEN: GROUP},
    ),
    Case(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {(READ, ON_GROUP)},
        always({"group_id": HIDDEN, "topics": []}), whole, {"": GROUP}, {"": GROUP},
    ),
    Case(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {(DELETE, ON_GROUP)},
        always({"group_id": HIDDEN, "topics": []}), whole, {"": GROUP}, {"": GROUP},
    ),
]  # fmt: skip
