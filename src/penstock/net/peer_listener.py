"""The port that peers dial: accepts, handshakes, passes each link to the owner of its purpose.

An unauthenticated connection costs one socket and a kilobyte, for five seconds at most. Their
number is limited; one more closes the oldest of the address that has most of them, so that few
addresses cannot keep peers out, however many connections they open. They are accepted at a limited
rate, since a flood of them would take the whole loop. The links of a peer are limited; one more
closes its oldest, so that a peer that leaks its links keeps no other out. What they hold of frames
without an end is limited in sum; beyond it the link that holds most ends.
"""

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.net.peer_auth import (
    NONCE_BYTES,
    Identity,
    ListenerHandshake,
    PeerHello,
    PeerSecurity,
    printable,
)
from penstock.net.peer_link import LinkSetup, PeerLink
from penstock.net.sockets import OpenSocket, open_socket
from penstock.net.tls_gate import TlsGate

HANDSHAKE_TIMEOUT_MS = 5_000
STRANGERS_MAX = 128
"""Connections without a completed handshake; fewer if the process may open few files."""
_DESCRIPTORS_PART = 16
_STRANGERS_MIN = 8
LINKS_MAX = 4_096
"""Links in total; some tens of peers have a handful each."""
LINKS_PER_PEER_MAX = 64
"""Links of one peer for one purpose, and of all command-line tools, which have no ids, together."""
UNENDED_BYTES_MAX = 64 << 20
"""Bytes of frames without an end on all links of a peer for one purpose; at least two frames."""

_ACCEPTS_PER_TURN = 4
"""Connections accepted in one turn; one costs 0.3 ms until it is refused."""
_REST_SECONDS = 0.005
"""Pause after so many. What comes faster waits in the backlog of the socket: a flood of strangers
then takes a quarter of the loop at most, and 50 nodes that start together wait for half a second.
"""
_PAUSE_SECONDS = 1.0
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger(__name__)

OnLink = Callable[[PeerLink], None]


class _Stranger(NamedTuple):
    """A connection without a completed handshake."""

    task: asyncio.Task[None]
    host: str


class PeerListener:
    """One port. Used on its event loop. `own` may be replaced when the cluster id is learned."""

    def __init__(
        self,
        host: str,
        port: int,
        own: PeerHello,
        security: PeerSecurity,
        purposes: Mapping[bytes, OnLink],
        *,
        frame_bytes_max: int,
    ) -> None:
        """`purposes` is read for each link, so that it may change; port 0 takes a free one.

        An owner must set the link's `on_frame` and `on_closed` before it returns, or soon after:
        until then nothing is read.
        """
        self.own = own
        self.purposes = purposes
        self.strangers_max = strangers_that_fit()
        self.links_max = LINKS_MAX
        self.links_per_peer_max = LINKS_PER_PEER_MAX
        self.unended_bytes_max = max(UNENDED_BYTES_MAX, 2 * frame_bytes_max)
        self.handshake_timeout_ms = HANDSHAKE_TIMEOUT_MS
        self._endpoint = (host, port)
        self._security = security
        self._frame_bytes_max = frame_bytes_max
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._tls_gate = TlsGate(self._loop, self._end_stranger)
        self._strangers: dict[PeerLink, _Stranger] = {}
        """The oldest first."""
        self._strangers_of: Counter[str] = Counter()
        """By address; none is 0."""
        self._links: dict[PeerLink, None] = {}
        self._links_of: dict[tuple[bytes, int], dict[PeerLink, None]] = {}
        """By purpose and peer, the oldest first."""
        self._pause: asyncio.TimerHandle | None = None

    @property
    def port(self) -> int:
        """The open port."""
        assert self._socket is not None, "not started"
        return int(self._socket.getsockname()[1])

    @property
    def stranger_count(self) -> int:
        """Number of connections without a completed handshake."""
        return len(self._strangers)

    @property
    def link_count(self) -> int:
        """Number of links with open connections."""
        return len(self._links)

    def start(self, open_socket: OpenSocket = open_socket) -> None:
        """Open the port and serve. Raises ConfigError if it cannot be opened."""
        self._socket = open_socket(*self._endpoint)
        self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def stop(self) -> None:
        """Close the port, all links and all connections in a handshake."""
        if self._pause is not None:
            self._pause.cancel()
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._tls_gate.close()
        for link in list(self._strangers):
            self._end_stranger(link, "the port is closed")
        for link in list(self._links):
            link.close("the port is closed")

    def _accept_some(self) -> None:
        assert self._socket is not None
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    continue  # the peer disconnected before it was accepted
                self._accept_later(error)
                return
            self._admit(accepted, str(address[0]))
        self._pause_for(_REST_SECONDS)

    def _accept_later(self, error: OSError) -> None:
        log.warning("peer port: %s: no links are accepted for a second", error.strerror)
        self._pause_for(_PAUSE_SECONDS)

    def _pause_for(self, seconds: float) -> None:
        """Accept nothing for so long; who connects meanwhile waits in the backlog."""
        assert self._socket is not None
        self._loop.remove_reader(self._socket.fileno())
        self._pause = self._loop.call_later(
            seconds, self._loop.add_reader, self._socket.fileno(), self._accept_some
        )

    def _admit(self, accepted: socket.socket, host: str) -> None:
        if self.link_count >= self.links_max:
            accepted.close()
            self._note(host, "", f"{self.links_max} links are open already")
            return
        if len(self._strangers) >= self.strangers_max:
            self._end_stranger(self._least_missed(), "too many connections are shaking hands")
        accepted.setblocking(False)
        link = PeerLink(self._setup())
        link.address = link.host = host
        task = self._loop.create_task(self._connect(link, accepted))
        self._strangers[link] = _Stranger(task, host)
        self._strangers_of[host] += 1

        def on_done(_task: asyncio.Task[None]) -> None:
            if not link.is_connected:
                accepted.close()

        task.add_done_callback(on_done)

    def _least_missed(self) -> PeerLink:
        """Return the oldest unauthenticated connection of the address that has most of them."""
        return max(self._strangers, key=lambda link: self._strangers_of[self._strangers[link].host])

    def _end_stranger(self, link: PeerLink, reason: str) -> None:
        if link in self._strangers:
            self._strangers[link].task.cancel()
            self._forget_stranger(link)
            link.abort(reason)

    def _forget_stranger(self, link: PeerLink) -> None:
        stranger = self._strangers.pop(link, None)
        if stranger is not None:
            self._strangers_of[stranger.host] -= 1
            if self._strangers_of[stranger.host] == 0:
                del self._strangers_of[stranger.host]

    def _setup(self) -> LinkSetup:
        handshake = ListenerHandshake(
            Identity(self.own, self._frame_bytes_max),
            self._security.keys,
            self._security.token_bytes(NONCE_BYTES),
            self.purposes.__contains__,
        )

        def on_shaken(link: PeerLink, refusal: str) -> None:
            self._on_shaken(link, refusal, handshake)

        return LinkSetup(
            handshake=handshake,
            on_shaken=on_shaken,
            frame_bytes_max=self._frame_bytes_max,
            turn=self._security.turn.share(),
            refusals=self._security.refusals,
            frames=self._security.turn.frames,
            timeout_s=self.handshake_timeout_ms / 1000,
            on_gone=self._forget_link,
            on_unended=self._bound_unended,
        )

    async def _connect(self, link: PeerLink, accepted: socket.socket) -> None:
        tls = self._security.credentials.tls_server
        limits = {} if tls is None else {"ssl_handshake_timeout": self.handshake_timeout_ms / 1000}
        try:
            if tls is not None:
                await self._tls_gate.enter(link, accepted)
            await self._loop.connect_accepted_socket(lambda: link, accepted, ssl=tls, **limits)
        except ssl.SSLError as error:
            self._note(link.host, "", f"no TLS: {error}")
            link.abort("no TLS")
        except OSError as error:
            link.abort(str(error) or "the other end broke off the TLS handshake")
        finally:
            self._tls_gate.leave(link)

    def _on_shaken(self, link: PeerLink, refusal: str, handshake: ListenerHandshake) -> None:
        if not link.is_connected and link in self._strangers:
            self._strangers[link].task.cancel()  # otherwise it would wait for TLS for ever
        self._forget_stranger(link)
        if not refusal:
            if not self._security.keep(link, handshake.key):
                return
            self._keep_link(link)
            self.purposes[link.hello.purpose](link)
            return
        host = link.host
        if not link.has_received:
            log.debug("connection from %s without a handshake: %s", host, refusal)  # mostly a probe
            return
        claimed = handshake.claimed
        who = ""
        if claimed is not None:
            hello = claimed.hello
            who = f" peer={hello.peer_id} purpose={printable(hello.purpose)}"
        self._note(host, who, refusal)

    def _note(self, host: str, who: str, reason: str) -> None:
        self._security.refusals.note(host, f"from {host}{who}", reason, self._loop.time())

    def _keep_link(self, link: PeerLink) -> None:
        self._links[link] = None
        of_peer = self._links_of.setdefault(_owner(link), {})
        of_peer[link] = None
        if len(of_peer) > self.links_per_peer_max:
            oldest = next(iter(of_peer))
            del of_peer[oldest]
            oldest.abort(f"the peer has opened {self.links_per_peer_max} newer links")

    def _bound_unended(self, link: PeerLink) -> None:
        """End the link that holds most if the peer's links hold too much without an end."""
        of_peer = [one for one in self._links_of.get(_owner(link), ()) if not one.is_closed]
        if sum(one.unended_bytes for one in of_peer) > self.unended_bytes_max:
            largest = max(of_peer, key=lambda one: one.unended_bytes)
            largest.abort(f"the peer's frames without an end exceed {self.unended_bytes_max} bytes")

    def _forget_link(self, link: PeerLink) -> None:
        self._security.forget(link)
        if link not in self._links:
            return  # a stranger
        del self._links[link]
        of_peer = self._links_of.get(_owner(link), {})
        of_peer.pop(link, None)
        if not of_peer:
            self._links_of.pop(_owner(link), None)


def strangers_that_fit() -> int:
    """Return the unauthenticated connections for a port: a sixteenth of all descriptors at most.

    With half of 256 at each of two ports none are left for log files and links of peers.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return STRANGERS_MAX
    return max(_STRANGERS_MIN, min(STRANGERS_MAX, int(soft) // _DESCRIPTORS_PART))


def _owner(link: PeerLink) -> tuple[bytes, int]:
    return link.hello.purpose, link.hello.peer_id
