"""Names of topics and groups as clients say them, from those that are stored.

Source: later/group_topics.py, which goes the other way.
"""

from penstock.controller.commands.topic_names import (
    DEAD_LETTER_PREFIX,
    DISCARDED_TOPIC,
    RETRY_PREFIX,
)
from penstock.remoting.later.group_topics import DEAD_LETTERS, DISCARDED, RETRY


def told_name(stored: str) -> str:
    """Return the name by which clients know a topic."""
    if stored.startswith(RETRY_PREFIX):
        return RETRY + stored.removeprefix(RETRY_PREFIX)
    if stored.startswith(DEAD_LETTER_PREFIX):
        return DEAD_LETTERS + stored.removeprefix(DEAD_LETTER_PREFIX)
    return DISCARDED if stored == DISCARDED_TOPIC else stored
