"""What is known of a client that fetches.

Source: KIP-392 (racks), KIP-98 (isolation level), KIP-227 (sessions).
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.broker.fetch.slave_reads import ReplicaSelector
from penstock.broker.tier.view import TierClient
from penstock.storage.read.needs_disk import Turn, at_once


class Room(Protocol):
    """Memory for the answer, granted by its receiver."""

    def ask_room(self, most: int, begin: Callable[[int], int], /) -> None:
        """Call `begin` once with the bytes that may be read, now or later; 0 if disconnected."""

    def keep(self, size: int, /) -> None:
        """Count bytes that are read and cannot be sent yet, until `let_go`."""

    def let_go(self, size: int, /) -> None: ...


class Consumer(NamedTuple):
    """The fetching client."""

    selector: ReplicaSelector | None = None
    """None for clients that read from masters only."""
    has_session: bool = False
    room: Room | None = None
    """None if there is room for the answer already."""
    turn: Turn = at_once
    """When the disk may be asked about indexes."""
    tier: TierClient | None = None
    """Whom the tier wakes, where the fetch itself does not wait for it; None: the fetch, for the
    connection of `room`."""
    is_committed: bool = False
    """Whether it reads committed records only."""
