"""What remoting clients note, and what a Kafka client has read of the same topics.

Times of clients are those of the request and of its answer, in ns of virtual time; those of records
are what the master's clock said, in ms.
"""

from collections.abc import Mapping
from typing import NamedTuple

FINDINGS_MAX = 3
"""Of a kind."""
Place = tuple[int, int]
"""Partition, offset."""


class Read(NamedTuple):
    """A record as a Kafka client has read it first."""

    place: Place
    time_ms: int
    value: str
    headers: Mapping[str, str]
    seen_ns: int


class Sent(NamedTuple):
    """A message that a producer has sent."""

    value: str
    asked_ns: int
    delay_ms: int = 0
    is_taken: bool = False
    """Whether the answer was that of success; else the message may be there or not."""
    place: Place | None = None
    """Where the answer says that it is."""
    may_be_recalled: bool = False
    """Whether its producer has asked to have it back, and was not refused."""
    is_recalled: bool = False
    """Whether the answer to that was that of success."""


class HalfSent(NamedTuple):
    """A half message that a producer has sent."""

    value: str
    asked_ns: int
    is_taken: bool = False


class Decision(NamedTuple):
    """What a producer said of a half message."""

    value: str
    is_commit: bool
    asked_ns: int
    is_taken: bool = False


class Returned(NamedTuple):
    """A message that a consumer has sent back."""

    value: str
    times: int
    """How often it was consumed before."""
    times_max: int
    delay_ms: int
    asked_ns: int
    is_taken: bool = False

    @property
    def is_given_up(self) -> bool:
        """Whether it is a dead letter, and comes no more."""
        return self.times >= self.times_max


class Updated(NamedTuple):
    """A position that a consumer has told. Without an answer it may count at any time."""

    partition: int
    position: int
    asked_ns: int
    told_ns: int | None = None
    is_taken: bool = False


class Told(NamedTuple):
    """A position that a consumer was told; -1: there is none."""

    partition: int
    position: int
    asked_ns: int
    told_ns: int


class Clock(NamedTuple):
    """How times of records compare with those of clients."""

    start_ms: int
    """What clocks on walls said at virtual time 0."""
    apart_ms: int = 0
    """How far they may be apart."""

    def earliest_ms(self, asked_ns: int, delay_ms: int) -> int:
        """Return the earliest time of a record for which this was asked; clocks show whole ms."""
        return self.start_ms + asked_ns // 1_000_000 + delay_ms - self.apart_ms


def some(texts: list[str]) -> list[str]:
    """Return the first of some findings."""
    return texts[:FINDINGS_MAX]
