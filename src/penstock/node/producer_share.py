"""How many idempotent producers each log of this node keeps, so that their memory is bounded.

    pinned bytes of clients ─► half of them ─► equal parts, one for each log

A client creates a producer's state with one small batch, and it is kept for a day. A limit per log
does not bound the memory of a node with many logs. The state is not counted in the pinned bytes: it
would take these up long after its client is gone. To keep more, raise
`net.unfinished_bytes_max`; a log never keeps more than `log.producer_ids_max`.
"""

from collections.abc import Collection
from typing import Protocol

from penstock.storage.index.producers import STATE_BYTES_MAX

PRODUCERS_PART = 2


class Rememberer(Protocol):
    """A commit log."""

    def let_remember(self, producers: int) -> None: ...


def share_producers(logs: Collection[Rememberer], pinned_bytes_max: int) -> None:
    """Give each log its part; to be called when the number of logs changes."""
    for log in logs:
        room = pinned_bytes_max // PRODUCERS_PART // len(logs)
        log.let_remember(max(1, room // STATE_BYTES_MAX))
