"""What a listener does with a client before it is served: TLS, and who it is.

A listener without a door serves everybody at once. Others have one for each of their connections:

    accepted ─► TLS, where `context` is given ─► admit ─► frames ─► guard, where admit has set one
"""

import ssl
from collections.abc import Callable
from typing import Any, NamedTuple

TlsContext = Callable[[], ssl.SSLContext]
"""Returns the context for the next handshake: certificates may be renewed."""


class Door(NamedTuple):
    """The door of one listener."""

    context: TlsContext | None
    admit: Callable[[Any], None]
    """Called with each connection, of the kind that its port has, before its first frame; it may
    set `principal` and `guard`. Behind TLS the connection is open, and may be ended."""
    application: str = ""
    """What clients have to agree on by ALPN (RFC 7301); empty: nothing is asked."""
    takes_plain: bool = False
    """Whether those who begin with something else than TLS are served without it."""
