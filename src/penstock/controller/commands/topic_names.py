"""Which topic names are allowed. Source: Kafka Topic.validate and Topic.hasCollision.

`.` and `_` become the same sign in metric names, so that `a.b` and `a_b` can not both exist.
"""

import re

from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.controller.errors import InvalidTopicName
from penstock.finding.traces import TOPIC as MESSAGE_TRACE_TOPIC
from penstock.telemetry.row import TOPIC as CLIENT_METRICS_TOPIC

TOPIC_NAME_CHARACTERS_MAX = 249

GROUP_OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_state"
TIER_STATE_TOPIC = "__tier_state"
DELAY_TOPICS = tuple(f"__delayed_{level}" for level in range(1, 19))
"""Where messages of RocketMQ's clients wait: one topic for each of the 18 delay levels."""
HALF_TOPIC = "__half_messages"
"""Where half messages of their transactions wait."""
RECALL_TOPIC = "__recalls"
"""Which messages that wait are taken back."""
ROW_TOPICS = frozenset({AUDIT_TOPIC, CLIENT_METRICS_TOPIC, MESSAGE_TRACE_TOPIC})
"""Of rows for people: they are kept for as long as topics are by default."""
INTERNAL_TOPICS = frozenset(
    {
        *DELAY_TOPICS,
        HALF_TOPIC,
        RECALL_TOPIC,
        GROUP_OFFSETS_TOPIC,
        TRANSACTION_STATE_TOPIC,
        SHARE_STATE_TOPIC,
        *ROW_TOPICS,
        TIER_STATE_TOPIC,
    }
)
"""Names that only Penstock itself may create, change and delete."""

RETRY_PREFIX = "rmq.retry."
"""In front of the name of a group of RocketMQ's clients: messages that it has sent back, to consume
them again."""
DEAD_LETTER_PREFIX = "rmq.dlq."
"""In front of the name of such a group: messages that it could not consume at all."""
DISCARDED_TOPIC = "rmq.transactions.discarded"
"""Half messages that nobody has decided in time."""

PLACED_CONFIGS = {"max.message.bytes": str(64 << 20)}
"""Of retry topics, dead letters, what is discarded and what waits: a message that its own topic has
taken, which may permit more than others do, must have a place there."""

_ALLOWED = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise InvalidTopicName unless `name` may name a topic."""
    if not name:
        raise InvalidTopicName(name, "it is empty")
    if name in {".", ".."}:
        raise InvalidTopicName(name, "it can not be '.' or '..'")
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        raise InvalidTopicName(
            name, f"{len(name)} characters are more than {TOPIC_NAME_CHARACTERS_MAX}"
        )
    if not _ALLOWED.fullmatch(name):
        raise InvalidTopicName(name, "it may hold only ASCII letters and digits, '.', '_' and '-'")


def metric_name(name: str) -> str:
    """The form in which two colliding names are equal."""
    return name.replace(".", "_")
