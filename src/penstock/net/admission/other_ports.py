"""Ports of a listener that speak something else than frames with a length before them.

They share with the others: who is let in, counting, turns of the loop, and the end. What they read
and write is their own.

Source: ours.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.net.admission.unproven import Client
from penstock.net.errors import CloseKind
from penstock.net.limits import NetLimits
from penstock.net.receive import ReceiveBuffers
from penstock.net.stats import NetStats
from penstock.net.turn_share import TurnShare


class OtherConnection(asyncio.BufferedProtocol, ABC):
    """A connection of such a port."""

    client_host: str
    listener_name: str
    certificate = b""
    """The client's certificate (DER), which TLS has checked; empty if there is none."""
    principal: str
    """Who the client is; empty while that is unknown."""

    @property
    @abstractmethod
    def is_unproven(self) -> bool:
        """Whether its client has yet to prove who it is."""

    @property
    @abstractmethod
    def received_bytes(self) -> int:
        """Memory that it holds for what has not arrived whole, or is not taken."""

    @abstractmethod
    def abort(self, kind: CloseKind) -> None:
        """End it at once and count why."""

    @abstractmethod
    def end(self, kind: CloseKind) -> None:
        """End it behind what is ready to be sent, and count why."""


class Shared(NamedTuple):
    """What a listener gives to each connection of such a port."""

    limits: NetLimits
    turn: TurnShare
    stats: NetStats
    buffers: ReceiveBuffers
    tick: Callable[[], int]
    """The second that the listener is in."""
    gone: Callable[[Client], None]
    """To be called once, when the connection has closed."""


class OtherPort(Protocol):
    """Makes and keeps the connections of a port."""

    def connect(self, host: str, shared: Shared) -> OtherConnection:
        """Return a connection to be opened."""

    def sweep(self) -> None:
        """A second has passed."""

    def drain(self) -> None:
        """End each connection once what it has begun is answered."""

    def abort(self) -> None:
        """End all of them at once."""
