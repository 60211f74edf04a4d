"""The APIs of share groups, asked for what is open and for what is hidden (gate_cases.py)."""

from penstock.protocol.api_keys import ApiKey
from tests.kafka.gate_asks import (
    GROUP,
    HIDDEN,
    NONE,
    ON_GROUP,
    ON_TOPIC,
    READ,
    TOPIC,
    Case,
    always,
    in_order,
    share_fetch,
    whole,
)

SHARE_CASES = [
    Case(
        ApiKey.SHARE_FETCH, 2, {(READ, ON_GROUP), (READ, ON_TOPIC)}, share_fetch,
        lambda answer: whole(answer) | in_order("responses", "partitions")(answer),
        {"": GROUP}, {"": NONE, 0: TOPIC}, names_hidden=False,
    ),
    Case(
        ApiKey.SHARE_ACKNOWLEDGE, 2, {(READ, ON_GROUP)},
        always({
            "group_id": HIDDEN, "member_id": "m", "share_session_epoch": 1, "is_renew_ack": False,
            "topics": [],
        }),
        whole, {"": GROUP}, {"": GROUP},
    ),
]  # fmt: skip
