"""What a broker asks the coordinator of a group about positions, for clients who ask it instead.

    CommitPositionRequest ─► PositionResponse   keep the position of a group in a partition
    FetchPositionRequest  ─► PositionResponse   where is the group in a partition
    GroupPositionsRequest ─► GroupPositionsResponse   all positions of the group, page by page
    DeleteGroupRequest    ─► PositionResponse   delete the group, which has no members

RocketMQ's clients keep positions at the broker of the queue, which seldom coordinates their group.

Source: docs/adr/0122. The rest of calls is in calls.py.
"""

from dataclasses import dataclass
from typing import NamedTuple

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
class GroupPositionsRequest:
    """Tell positions, by topic and partition."""

    group: str
    after_topic: str = ""
    """Those behind this place alone; from the first with an empty topic."""
    after_partition: int = -1
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupRequest:
    """Delete a group with its positions."""

    group: str
    correlation: int = 0


class KnownPosition(NamedTuple):
    """A position that a group has."""

    topic: str
    topic_id: bytes
    """16 bytes; zeros where it was committed without."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositionsResponse:
    """`code` as below; a page of positions, in their order."""

    code: int
    positions: tuple[KnownPosition, ...] = ()
    is_last: bool = True
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionResponse:
    """`code` is Kafka's, 0 if there is nothing wrong."""

    code: int
    offset: int = NO_POSITION
    correlation: int = 0
