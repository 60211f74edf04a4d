"""What a broker asks the coordinator of a group about positions, for clients who ask it instead.

    CommitPositionRequest ─► PositionResponse   keep the position of a group in a partition
    FetchPositionRequest  ─► PositionResponse   where is the group in a partition
    GroupPositionsRequest ─► GroupPositionsResponse   all positions of the group, page by page
    DeleteGroupRequest    ─► PositionResponse   delete the group, which has no members

RocketMQ's clients keep positions at the broker of the queue, which seldom coordinates their group.

Source: docs/adr/0122.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from penstock.coordinator.calls.asking import FRAME_BYTES_MAX, Asks, Told

POSITIONS_MAX: Final = 2_000
"""Positions of one GroupPositionsResponse: above four times what is told, for later releases."""

NO_POSITION = -1
NOT_HERE = 16
"""Code of an answer: another broker coordinates the group (Kafka's NOT_COORDINATOR)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionResponse(Told):
    """`code` is Kafka's, 0 if there is nothing wrong."""

    BYTES_MAX: ClassVar[int] = 64

    code: int
    offset: int = NO_POSITION


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPositionRequest(Asks[PositionResponse]):
    """Keep a position, committed from outside of the group."""

    group: str
    topic: str
    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPositionRequest(Asks[PositionResponse]):
    """Tell a position."""

    group: str
    topic: str
    topic_id: bytes
    """16 bytes. A position in a topic of the same name that was deleted is none."""
    partition: int

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupRequest(Asks[PositionResponse]):
    """Delete a group with its positions."""

    group: str


class KnownPosition(NamedTuple):
    """A position that a group has."""

    topic: str
    topic_id: bytes
    """16 bytes; zeros where it was committed without."""
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositionsResponse(Told):
    """`code` as in PositionResponse; a page of positions, in their order."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"positions": POSITIONS_MAX}

    code: int
    positions: tuple[KnownPosition, ...] = ()
    is_last: bool = True

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (one.topic_id for one in self.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPositionsRequest(Asks[GroupPositionsResponse]):
    """Tell positions, by topic and partition."""

    group: str
    after_topic: str = ""
    """Those behind this place alone; from the first with an empty topic."""
    after_partition: int = -1
