"""What a broker asks the coordinator of a group about positions, for clients who ask it instead.

    CommitPositionRequest ─► PositionResponse   keep the position of a group in a partition
    FetchPositionRequest  ─► PositionResponse   where is the group in a partition

RocketMQ's clients keep positions at the broker of the queue, which seldom coordinates their group.

Source: docs/adr/0122. The rest of calls is in calls.py.
"""

from dataclasses import dataclass

NO_POSITION = -1
NOT_HERE = 16
"""Code of an answer: another broker coordinates the group (Kafka's NOT_COORDINATOR)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPositionRequest:
    """Keep a position, committed from outside of the group."""

    group: str
    topic: str
    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPositionRequest:
    """Tell a position."""

    group: str
    topic: str
    topic_id: bytes
    """16 bytes. A position in a topic of the same name that was deleted is none."""
    partition: int
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionResponse:
    """`code` is Kafka's, 0 if there is nothing wrong."""

    code: int
    offset: int = NO_POSITION
    correlation: int = 0
