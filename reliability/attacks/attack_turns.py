"""Which API or frame held a node's loop longest while it was attacked, by the node's own metrics.

    begun ── the longest times by kind ── attack ── the same ── those that are other ones

The node tells the longest times of the last one to two minutes: those of its start are among them,
and those of the memory that is touched before an attack. So a time that was there when the attack
began does not count. It may hide a shorter one of the same kind.

A turn is measured by the clock, so what other processes did meanwhile is in it. The kernel counts
for how long the loop was ready to run and had no processor.
"""

import re
import time
from collections.abc import Mapping
from pathlib import Path

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
        self._waited_ns = _waited_ns(node.pid)
        self._began = time.monotonic_ns()

    def longest(self) -> str:
        """Return the kind that held the loop longest, and for how long."""
        return longest_since(self._before, _turns(self._node))

    def without_processor_percent(self) -> float:
        """Return the share of the time in which the loop was ready and waited for a processor."""
        passed_ns = time.monotonic_ns() - self._began
        return 100 * (_waited_ns(self._node.pid) - self._waited_ns) / passed_ns


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


def _waited_ns(pid: int) -> int:
    """Return for how long the main thread of a process, which is its loop, was ready to run."""
    counts = Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()
    return int(counts[1])
