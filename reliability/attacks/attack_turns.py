"""Which API or frame held a node's loop longest while it was attacked, by the node's own metrics.

    begun ── the longest times by kind ── attack ── the same ── those that are other ones

The node tells the longest times of the last one to two minutes: those of its start are among them,
and those of the memory that is touched before an attack. So a time that was there when the attack
began does not count. It may hide a shorter one of the same kind.
"""

import re
import time
from collections.abc import Mapping

from harness.cluster import get_page
from harness.node import NodeProcess

TRIES = 40
PAUSE_SECONDS = 0.5
_TURN = re.compile(rb'penstock_(?:loop|peer)_longest_turn_seconds\{(?:api|frame)="([^"]+)"\} (\S+)')


class TurnWatch:
    """The longest turns of one node from now on."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._before = _turns(node)

    def longest(self) -> str:
        """Return the kind that held the loop longest, and for how long."""
        return longest_since(self._before, _turns(self._node))


def longest_since(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Return the longest of the times that are not the same as before, in seconds by kind."""
    since = [(seconds, kind) for kind, seconds in after.items() if before.get(kind) != seconds]
    if not since:
        return "nothing 0 ms"
    seconds, kind = max(since)
    return f"{kind} {seconds * 1000:.1f} ms"


def turns_on(page: bytes) -> dict[str, float]:
    """Return the longest times on a page of metrics, in seconds by kind."""
    return {one[1].decode(): float(one[2]) for one in _TURN.finditer(page)}


def _turns(node: NodeProcess) -> dict[str, float]:
    for _ in range(TRIES):
        turns = turns_on(get_page(node, "/metrics") or b"")
        if turns:
            return turns
        time.sleep(PAUSE_SECONDS)
    return {}
