"""What an executor is given of the tier: runs of one partition, and until when they stay."""

from typing import NamedTuple, Protocol

from penstock.base.ids import TopicId
from penstock.client.tier import StorePlace, TierPart
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot


class Leaders(Protocol):
    """Whoever tells what the tier has: brokers."""

    timeout_seconds: float

    def tier_part(self, name: PartitionName, offset: int) -> TierPart:
        """Return the first of what the tier has of a partition from `offset` on (inclusive)."""


class TierPiece(NamedTuple):
    """A part of a range, from its start on, that the tier has."""

    place: StorePlace
    """As brokers tell it."""
    until_ms: int
    """By the wall clock, ms since 1970: until then no object of these is deleted."""
    end: int
    """Exclusive. What is behind it is read from brokers."""
    runs: tuple[Run, ...]
    """Those with the part, and behind them those that tell what was aborted in it."""

    @property
    def topic_id(self) -> TopicId:
        """Of the topic that was planned: one that is made again has another."""
        return self.runs[0].entry.topic_id

    def manifest(self) -> Manifest:
        """Return the runs as their reader takes them."""
        first, end = self.runs[0].first_offset, self.runs[-1].end_offset
        return Manifest(Snapshot(0, first, end, self.runs))


class Planned(NamedTuple):
    """The work of a task: a range, and the part of it that the tier has; None: nothing."""

    wanted: OffsetRange
    piece: TierPiece | None = None
