"""Topics of the front's as clients name them, and as they are stored.

    %RETRY%GROUP                 rmq.retry.GROUP              what the group has sent back
    %DLQ%GROUP                   rmq.dlq.GROUP                its dead letters
    TRANS_CHECK_MAX_TIME_TOPIC   rmq.transactions.discarded   half messages that nobody has decided

Kafka's names have no `%`, and its tools are to see these topics, read and delete them. A group
whose name can not be part of such a name has neither; sending back is refused to it.

Source: RocketMQ `MixAll.getRetryTopic`, `getDLQTopic`, `TopicValidator`.
"""

from typing import Final

from penstock.controller.commands.topic_names import (
    DEAD_LETTER_PREFIX,
    DISCARDED_TOPIC,
    RETRY_PREFIX,
)

RETRY: Final = "%RETRY%"
DEAD_LETTERS: Final = "%DLQ%"
DISCARDED: Final = "TRANS_CHECK_MAX_TIME_TOPIC"


def retry_group(name: str) -> str | None:
    """Return the group of a retry topic as clients name it; None for every other topic."""
    return name.removeprefix(RETRY) if name.startswith(RETRY) else None


def stored_name(name: str) -> str:
    """Return the name under which a topic is stored."""
    if name.startswith(RETRY):
        return RETRY_PREFIX + name.removeprefix(RETRY)
    if name.startswith(DEAD_LETTERS):
        return DEAD_LETTER_PREFIX + name.removeprefix(DEAD_LETTERS)
    return DISCARDED_TOPIC if name == DISCARDED else name
