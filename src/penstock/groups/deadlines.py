"""What falls due in groups, and how a deadline is named.

Source: Kafka, the timers of GroupCoordinator.scala.
"""

from enum import IntEnum
from typing import NamedTuple


class DeadlineKind(IntEnum):
    """What falls due."""

    SESSION = 1
    PENDING_MEMBER = 2
    JOIN = 3
    SYNC = 4
    EXPIRY = 5
    GONE = 6


class DeadlineKey(NamedTuple):
    """Names a deadline; `member_id` is empty for those of a whole group."""

    kind: DeadlineKind
    group_id: str = ""
    member_id: str = ""
