"""What a coordinator of shares counts; plain numbers, read when metrics are collected.

Source: Kafka `ShareGroupMetrics`, `SharePartitionMetrics` (KIP-1103).
"""

from collections import Counter
from dataclasses import dataclass, field

from penstock.shares.updates.handed import HandOut, Short


@dataclass(slots=True)
class ShareCounters:
    """Counts since the start of the coordinator."""

    handed_out: int = 0
    """Records, each time that one is."""
    short: Counter[Short] = field(default_factory=Counter)
    """Hand-outs of fewer records than wanted, by the reason: WINDOW and IN_FLIGHT are full ones."""
    ended: int = 0
    """Offsets that timers had looked at: holds and pauses that ended, and some that did not."""
    refused_writes: int = 0
    """Batches that the log refused, which are written again."""

    def note(self, handed: HandOut) -> None:
        """Count a hand-out."""
        self.handed_out += len(handed.counts)
        if handed.short is not None:
            self.short[handed.short] += 1
