"""What a slave asks its master of a partition in the tier, to read the store for its consumers.

    TierRunsRequest ─► TierRunsResponse   where it begins, and the runs from an offset on

Source: docs/adr/0162.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from penstock.base.ids import LeaderEpoch
from penstock.coordinator.calls.asking import SMALL_BYTES_MAX, Asks, Told

RUNS_MAX: Final = 100
"""Of one answer; whoever reads on asks again."""
RUNS_BYTES_MAX: Final = 128 << 10
"""Of one answer: a run has some 150 bytes, and 12 more for each mastership that has written it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRunsResponse(Told):
    """What the tier has, as no failover can undo it."""

    BYTES_MAX: ClassVar[int] = RUNS_BYTES_MAX + SMALL_BYTES_MAX
    COUNTS_MAX: ClassVar[Mapping[str, int]] = {"runs": RUNS_MAX}

    is_known: bool
    """False: the asked broker is not the master of that epoch, or does not know it yet."""
    start_offset: int = -1
    """Of the partition, inclusive; what the tier has below counts no more."""
    lease_ms: int = 0
    """For how long, from the question on, objects stay where they are."""
    runs: tuple[bytes, ...] = ()
    """As in answers to readers (docs/formats/tier.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRunsRequest(Asks[TierRunsResponse]):
    """Give the run of a partition that has `offset`, or the first behind it, and those after it."""

    replica_set_id: int
    leader_epoch: LeaderEpoch
    """Of the mastership that both follow."""
    topic_id: bytes
    """16 bytes."""
    partition: int
    offset: int

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)

    def fits(self, answer: TierRunsResponse) -> bool:
        """As in Asks: who knows nothing tells nothing."""
        return answer.is_known or not answer.runs
