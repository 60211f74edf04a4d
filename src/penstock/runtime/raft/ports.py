"""What the metadata log needs of its process, besides its storage and its transport.

Source: as raft_log.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.base.ids import PeerId
from penstock.base.ports import Offload, Scheduler
from penstock.runtime.raft.transport import Address, parse_address


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftPorts:
    """Scheduling, threads, randomness and addresses that the log needs."""

    offload: Offload
    scheduler: Scheduler
    random_below: Callable[[int], int]
    """`random_below(n)` returns 0 to n - 1; draws of different voters must be independent."""

    address_of: Callable[[PeerId, str], Address] = lambda _, text: parse_address(text)
    """Where to dial a voter, by its id and its address in the configuration, which is empty for a
    voter that was alone when the log began. Port 0: it is not dialled."""
