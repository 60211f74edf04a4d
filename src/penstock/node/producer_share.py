"""How many idempotent producers each log of this node remembers, so that all take so much memory.

    memory that clients may pin ─► half of it ─► equal parts, one for each log

A client makes a producer's state with one small batch, and it stays for a day. So a count for each
log is no bound of a node, which may have many. What is remembered does not count among what
clients pin: it would stand there long after the cause has gone. Who needs more of it raises
`net.unfinished_bytes_max`; a log never remembers more than `log.producer_ids_max`.
"""

from collections.abc import Collection
from typing import Protocol

from penstock.storage.index.producers import STATE_BYTES_MAX

PRODUCERS_PART = 2


class Rememberer(Protocol):
    """A commit log."""

    def let_remember(self, producers: int) -> None: ...


def share_producers(logs: Collection[Rememberer], pinned_bytes_max: int) -> None:
    """Give each log its part; called when there are more of them, or fewer."""
    for log in logs:
        room = pinned_bytes_max // PRODUCERS_PART // len(logs)
        log.let_remember(max(1, room // STATE_BYTES_MAX))
