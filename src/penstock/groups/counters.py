"""What the coordinator counts, and which members held up rebalances.

Plain numbers, read when metrics are collected. A hold-up also names the member, since the usual
question about a slow rebalance is which member it waited for.

Source: confluentinc/kafka-rest#611 (one member that does not poll blocks the join for thirty
minutes, and nothing says which).
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

HOLD_UPS_KEPT = 128


class HoldUp(NamedTuple):
    """A member that a rebalance waited for until its timeout."""

    group_id: str
    generation: int
    phase: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    waited_ms: int


@dataclass(slots=True)
class GroupCounters:
    """Counts since the start of the coordinator."""

    rebalances_started: int = 0
    rebalances_completed: int = 0
    consumer_rebalances: int = 0
    """New target assignments of consumer groups."""
    share_rebalances: int = 0
    """New target assignments of share groups."""
    members_expired: int = 0
    members_held_up: int = 0
    static_members_replaced: int = 0
    offsets_committed: int = 0
    transactional_offsets: int = 0
    """Positions written in transactions, which count once these are committed."""
    commits_refused: int = 0
    offsets_refused: int = 0
    joins_put_off: int = 0
    groups_expired: int = 0
    records_unread: int = 0
    journal_errors: int = 0
    hold_ups: deque[HoldUp] = field(default_factory=lambda: deque(maxlen=HOLD_UPS_KEPT))

    def hold_up(self, event: HoldUp) -> None:
        """Count and keep one hold-up; the last HOLD_UPS_KEPT are kept."""
        self.members_held_up += 1
        self.hold_ups.append(event)
