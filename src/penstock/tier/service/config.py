"""Bounds of the tier's metadata.

Source: docs/adr/0121. Fields ending in `_ms` are milliseconds.
"""

from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le

from penstock.coordinator.runtime import CoordinatorConfig
from penstock.tier.metadata.state import RUNS_MAX
from penstock.tier.metadata.times import TierTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class TierServiceConfig:
    """The tier's metadata on one broker."""

    times: TierTimes = field(default_factory=TierTimes)

    runs_max: Annotated[int, Ge(1_000), Le(1_000_000)] = RUNS_MAX
    """Runs of one replica set; see RUNS_MAX for what they cost."""

    writes_in_flight_max: Annotated[int, Ge(10), Le(10_000)] = 1_000
    """Commands that wait for the log; more are told to come again."""

    rewrite_after_bytes: Annotated[int, Ge(1 << 20), Le(1 << 32)] = 16 << 20
    """The records of a partition are written anew when so many bytes were written since."""

    rewrite_after_pinned_bytes: Annotated[int, Ge(1 << 20), Le(1 << 40)] = 256 << 20
    """The records of a partition are written anew when old ones keep so much of the log of the set
    from being deleted."""

    unread_bytes_max: Annotated[int, Ge(0), Le(1 << 30)] = 16 << 20
    """Memory for records of later releases; with more, a partition is not written anew."""

    def coordinator(self) -> CoordinatorConfig:
        """Return what the runtime has to know."""
        return CoordinatorConfig(
            kind="tier",
            partition_count=1,
            grows=True,
            writes_in_flight_max=self.writes_in_flight_max,
            rewrite_after_bytes=self.rewrite_after_bytes,
            rewrite_after_pinned_bytes=self.rewrite_after_pinned_bytes,
            unread_bytes_max=self.unread_bytes_max,
        )
