"""What a listener does with a client before it is served: TLS, and who it is.

A listener without a door serves everybody at once. Others have one for each of their connections:

    accepted ─► TLS, where `context` is given ─► admit ─► frames ─► guard, where admit has set one
"""

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.net.connection import Connection

TlsContext = Callable[[], ssl.SSLContext]
"""Returns the context for the next handshake: certificates may be renewed."""


class Door(NamedTuple):
    """The door of one listener."""

    context: TlsContext | None
    admit: Callable[["Connection"], None]
    """Called with each connection before its first frame; it may set `principal` and `guard`.
    Behind TLS the connection is open, and may be ended."""
