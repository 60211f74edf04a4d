"""The kinds of deadlines in groups, and their keys.

Source: Kafka, the timers of GroupCoordinator.scala.
"""

from enum import IntEnum
from typing import NamedTuple


class DeadlineKind(IntEnum):
    """Kind of a deadline."""

    SESSION = 1
    PENDING_MEMBER = 2
    JOIN = 3
    SYNC = 4
    EXPIRY = 5
    GONE = 6
    REVOCATION = 7
    """A member of a consumer group has to have given partitions up."""
    VACANT = 8
    """A group has had neither members nor positions for a while."""


class DeadlineKey(NamedTuple):
    """Key of a deadline; `member_id` is empty if it concerns the whole group."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""
