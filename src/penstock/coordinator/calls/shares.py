"""What the coordinator of a share group asks of the masters of its partitions.

    ShareSummaryRequest ─► ShareSummaryResponse   where each share is
    ShareChangeRequest  ─► ShareCodesResponse     let shares begin, begin elsewhere, or be forgotten
    ShareLeaveRequest   ─► ShareCodesResponse     a member is gone: what it holds is free

and what a master asks of the coordinator:

    ShareBeginRequest   ─► ShareCodesResponse     may these shares begin

A share is where its data is, so that each partition is asked of its own master. Codes are Kafka's,
as numbers; `codes[i]` and `found[i]` are of place i.

Source: KIP-932, Initialize-, ReadSummary- and DeleteShareGroupState between brokers; ours has no
persister to ask.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

from penstock.base.ids import NO_COORDINATOR_EPOCH, CoordinatorEpoch
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX, Asks, Told

SHARES_MAX: Final = 2_000
"""Shares of one question: four times what is asked, for later releases."""

NOT_STARTED = -1
"""Start offset of a share of which it is not decided where it begins."""
NO_LAG = -1
"""The lag is not known, or not cheap to tell."""
NO_EPOCH = NO_COORDINATOR_EPOCH
"""Who asks does not tell, or does not coordinate the group."""


class SharePlace(NamedTuple):
    """A partition of data."""

    topic_id: bytes
    """16 bytes."""
    partition: int


class ShareChange(NamedTuple):
    """A partition of data, and where the share is to begin in it."""

    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int = 0
    """Not heeded where shares are forgotten."""


class ShareChangeKind(IntEnum):
    """What becomes of shares; the numbers are on the wire."""

    START = 0
    """The share begins at the offset; one that has begun stays as it is."""
    RESET = 1
    """The share begins at the offset, whatever it was; one that has not begun does."""
    DELETE = 2
    """The share is forgotten; one that is not there is so already."""


class ShareSummary(NamedTuple):
    """Where a share is."""

    code: int
    """What follows is known if it is 0."""
    start_offset: int = NOT_STARTED
    """Everything below it is over; not below the start of the log."""
    end_offset: int = NOT_STARTED
    """Everything from there on was never handed out."""
    in_flight_count: int = 0
    """Records that members hold now."""
    lag: int = NO_LAG
    """Records that are visible and not over, about: what is over in the window is not counted
    out."""
    delivered: tuple[int, ...] = ()
    """Entry i: records that are not over and were handed out i + 1 times; the tenth, or more.
    Empty if it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummaryResponse(Told):
    """One for each place, in their order."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"found": SHARES_MAX}

    found: tuple[ShareSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSummaryRequest(Asks[ShareSummaryResponse]):
    """Where are the shares of a group in these partitions."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"places": SHARES_MAX}

    group: str
    places: tuple[SharePlace, ...]
    with_deliveries: bool = False
    """Whether deliveries are wanted, which takes time to count."""

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (place.topic_id for place in self.places)

    def fits(self, answer: ShareSummaryResponse) -> bool:
        """As in Asks."""
        return len(self.places) == len(answer.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCodesResponse(Told):
    """One code for each partition, in their order, told once what has changed is confirmed."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"codes": SHARES_MAX}

    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChangeRequest(Asks[ShareCodesResponse]):
    """Change the shares of a group. `kind` is a number of ShareChangeKind."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"changes": SHARES_MAX}

    group: str
    kind: int
    changes: tuple[ShareChange, ...]
    coordinator_epoch: CoordinatorEpoch = NO_EPOCH
    """Leader epoch of the group's partition, of the mastership that asks: one that was replaced
    changes nothing. NO_EPOCH: an earlier release."""

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (change.topic_id for change in self.changes)

    def fits(self, answer: ShareCodesResponse) -> bool:
        """As in Asks."""
        return len(self.changes) == len(answer.codes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLeaveRequest(Asks[ShareCodesResponse]):
    """A member of a group is gone: its session ends, and what it holds at this broker is free.

    The answer has one code.
    """

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX

    group: str
    member: str

    def fits(self, answer: ShareCodesResponse) -> bool:
        """As in Asks."""
        return len(answer.codes) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareBeginRequest(Asks[ShareCodesResponse]):
    """May the shares of a group in these partitions begin: does the group know of them."""

    BYTES_MAX: ClassVar[int] = FRAME_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"places": SHARES_MAX}

    group: str
    places: tuple[SharePlace, ...]

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (place.topic_id for place in self.places)

    def fits(self, answer: ShareCodesResponse) -> bool:
        """As in Asks."""
        return len(self.places) == len(answer.codes)
