"""What a coordinator of shares answers, and what it needs of others.

Source: Kafka ShareAcknowledgeResponse.json, DescribeShareGroupOffsetsResponse.json (KIP-932).
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol, TypeAlias

from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.unwritten import Unwritten
from penstock.shares.answers import Verdict
from penstock.shares.config import SharePolicy
from penstock.shares.runs import Runs
from penstock.shares.state import ShareKey


class Unavailable(Enum):
    """Why a share can not be used now."""

    NOT_HERE = "another node has the share, or is about to"
    LOADING = "the share is being loaded"
    NOT_STARTED = "it is not decided where the group begins in the partition"
    UNREADABLE = "a later release has written records of the share"
    FULL = "too much waits for the log"
    TOO_MANY = "there are too many shares"
    INVALID = "an offset, a member's name or the number of offsets is out of range"


WhyNot: TypeAlias = Unavailable | Unwritten


class Answer(NamedTuple):
    """The outcome of a request, once it is confirmed; nothing else is said if `why_not`."""

    why_not: WhyNot | None = None
    verdicts: Sequence[Verdict] = ()
    nonce: int = 0
    """Of renewed records."""


class Told(Protocol):
    """Receives an answer."""

    def __call__(self, answer: Answer, /) -> None: ...


class Described(NamedTuple):
    """What is known of a share."""

    start_offset: int
    """Everything below it is over for good: what is confirmed."""
    end_offset: int
    in_flight_count: int
    free_count: int
    is_ordered: bool
    epoch: CoordinatorEpoch
    delivered: Iterator[list[int]]
    """Counts by deliveries, a chunk at a step (find.delivered); a million records are many."""


class Outlook(NamedTuple):
    """What may be handed out next of a share."""

    start_offset: int
    """Where its window begins."""
    next_offset: int
    """The first record that may be handed out, if there is one."""
    room: int
    """How many records may be; 0: so many are handed out already, or the window is full."""
    end_offset: int = 0
    """Where the window ends: what is behind it was never handed out."""
    is_ordered: bool = False
    """Whether what is behind it needs its keys to be handed out."""


class DeadLetters(Protocol):
    """Copies records that are given up."""

    def send(self, partition: int, key: ShareKey, runs: Runs) -> None:
        """Have these records copied, for as long as that takes.

        `partition` is that of the internal topic. The coordinator's `dead_lettered` is called with
        the records whose copies are confirmed. After a failover the same may be asked for again.
        """

    def cancel(self, partition: int) -> None:
        """Another node has the shares of that internal partition: copy nothing more."""


class Groups(Protocol):
    """What is known of groups and of the places of partitions."""

    def policy_of(self, key: ShareKey) -> SharePolicy:
        """Return what the group asks for now."""

    def internal_partition_of(self, key: ShareKey) -> int | None:
        """Return the internal partition in the replica set of the data; None if unknown."""
