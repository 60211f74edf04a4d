"""What may be wrong with a streams group while its members are served.

Source: Kafka, StreamsGroupHeartbeatResponse.Status (KIP-1071).
"""

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """The codes are those of the answer."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One of them, with a text for people."""

    code: StatusCode
    detail: str
