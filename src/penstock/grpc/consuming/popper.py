"""A call that receives messages, as pops know their clients.

What is read for it counts among what clients of the port pin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.grpc.statuses import GrpcStatus

if TYPE_CHECKING:
    from penstock.grpc.call import Call


class CallPopper:
    """See the module; a Popper."""

    __slots__ = ("_call", "_kept", "client_host")

    def __init__(self, call: Call) -> None:
        self._call = call
        self._kept = 0
        self.client_host = call.client.host

    def has_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._call.is_over

    def abort(self) -> None:
        """End the call: its client has gone."""
        self._call.end(GrpcStatus.CANCELLED)

    def ask_room(self, most: int, begin: Callable[[int], int], /) -> None:
        """Read: an answer has 256 KiB and a message, and few are read at a time."""
        begin(0 if self._call.is_over else most)

    def keep(self, size: int, /) -> None:
        """Count what is read."""
        self._kept += size
        self._call.client.front.read_bytes += size

    def let_go(self, size: int, /) -> None:
        """Count it no more."""
        self.keep(-size)

    def close(self) -> None:
        """Count nothing more: the pop is over, however it went."""
        self.keep(-self._kept)
