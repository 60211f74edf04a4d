"""What pops of one front have in common: how many wait, whose turn it is, what became of messages.

Source: ours; RocketMQ `BrokerConfig.popPollingSize`, which bounds those that wait.
"""

from collections import Counter
from typing import Final

WAITING_MAX: Final = 2_000
"""Pops that wait for messages: each has a task and watches its queues, some 10 KiB."""
GROUPS_MAX: Final = 1_000
"""Groups that are counted by themselves."""
OTHERS: Final = "other groups"
OUTCOMES: Final = ("popped", "again", "acknowledged", "renewed", "refused", "dead_letter")


class Pops:
    """See the module; one for each front."""

    def __init__(self) -> None:
        self.waiting = 0
        self._turn = 0
        self._groups: dict[str, None] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        """By group and outcome: messages that were handed out, of these those that had been before,
        acknowledged, kept for longer, and given up; receipts that were refused."""

    def note(self, group: str, outcome: str, count: int = 1) -> None:
        """Count messages."""
        if group not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                group = OTHERS
            else:
                self._groups[group] = None
        self.counts[group, outcome] += count

    def turn(self, queues: int) -> int:
        """Return the queue at which the next pop begins."""
        self._turn += 1
        return self._turn % queues
