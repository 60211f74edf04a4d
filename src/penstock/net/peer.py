"""Links between the processes of a cluster: dial a peer, or listen for peers.

    link = await dial((host, port), PeerHello(b"raft", cluster_id, own_id, 0), security, ...)
    link.on_frame, link.on_closed = ...
    link.send(header, payload)

Both ends prove that they know the cluster's secret before anything else is sent (net/peer_auth.py).
Purposes and the contents of frames are defined by the users of links.
"""

import asyncio

from penstock.net.peer_auth import (
    NONCE_BYTES,
    Credentials,
    DialerHandshake,
    Identity,
    PeerHello,
    PeerSecurity,
    printable,
)
from penstock.net.peer_errors import PeerFrameTooLarge, PeerLinkError, PeerRefused
from penstock.net.peer_link import LinkSetup, PeerLink
from penstock.net.peer_listener import PeerListener

__all__ = [
    "Credentials",
    "PeerFrameTooLarge",
    "PeerHello",
    "PeerLink",
    "PeerLinkError",
    "PeerListener",
    "PeerRefused",
    "PeerSecurity",
    "dial",
]


async def dial(
    address: tuple[str, int],
    hello: PeerHello,
    security: PeerSecurity,
    *,
    timeout_ms: int,
    frame_bytes_max: int,
) -> PeerLink:
    """Return an open link; nothing is read from it until its `on_frame` is set.

    `timeout_ms` limits connecting and the handshake together; `frame_bytes_max` is the largest
    frame that this side accepts. An empty cluster id in `hello` matches any; `link.hello` has it.

    Raises:
        PeerRefused: one of the two refuses the other; it is logged, with limited frequency.
        OSError: not reached, or lost during the handshake (TimeoutError after `timeout_ms`).
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await _connect(address, hello, security, frame_bytes_max)
    except PeerRefused as error:
        at = f"{address[0]}:{address[1]}"
        place = f"to {at} purpose={printable(hello.purpose)}"
        security.refusals.note(at, place, error.reason, asyncio.get_running_loop().time())
        raise
    except TimeoutError:
        raise TimeoutError(f"{address[0]}:{address[1]} did not answer in {timeout_ms} ms") from None
    except ConnectionError as error:
        if str(error):
            raise
        raise ConnectionResetError(
            "closed before TLS was agreed on: is it in use there?"
        ) from error


async def _connect(
    address: tuple[str, int], hello: PeerHello, security: PeerSecurity, frame_bytes_max: int
) -> PeerLink:
    loop = asyncio.get_running_loop()
    shaken: asyncio.Future[str] = loop.create_future()

    key, nonce = security.keys[0], security.token_bytes(NONCE_BYTES)

    def on_shaken(link: PeerLink, refusal: str) -> None:
        if not refusal:
            security.keep(link, key)
        if not shaken.done():
            shaken.set_result(refusal)

    handshake = DialerHandshake(Identity(hello, frame_bytes_max), key, nonce)
    link = PeerLink(
        LinkSetup(
            handshake=handshake,
            on_shaken=on_shaken,
            frame_bytes_max=frame_bytes_max,
            turn=security.turn.share(),
            refusals=security.refusals,
            frames=security.turn.frames,
            first=handshake.start(),
            on_gone=security.forget,
        )
    )
    try:
        tls = security.credentials.tls_client
        await loop.create_connection(
            lambda: link, *address, ssl=tls, server_hostname=address[0] if tls else None
        )
        refusal = await shaken
    except BaseException:
        link.abort("given up")
        raise
    if not refusal:
        return link
    if link.was_refused:
        raise PeerRefused(refusal)
    raise ConnectionResetError(refusal)
