"""How Raft members reach one another: the port, and its implementation over peer links.

    RaftLog ── send(peer_id, frame) ─► link with the newest input ─► the peer's RaftLog.on_frame

A member dials the peers it is given and accepts the links of those who dial it: voters dial each
other, learners dial the voters, and a leader answers a learner on the learner's link. Two voters
thus have two links. Messages are sent on the one that received something last, so that a direction
that has gone silent is abandoned as soon as the other works.

Delivery is not promised: a message without a link, or with a full one, is dropped, and Raft sends
again. A peer is lost when its last link has closed, which detects a dead process at once. A link on
which something was sent and nothing came back is closed and dialled anew: after a network partition
TCP may wait many seconds before it retransmits.

A long frame is decoded in slices, and its link is not read meanwhile: entries by the thousand would
hold the loop for tens of milliseconds (ADR 0033).

Source: Raft paper 5.1 (messages may be lost, doubled, reordered). Contents of a frame: codec.py.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from typing import Protocol

from penstock.base.ids import PeerId
from penstock.base.ports import Buffer, Clock
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.net.peer import PeerHello, PeerLink, PeerRefused, PeerSecurity, dial
from penstock.net.peer_errors import PeerFrameTooLarge
from penstock.net.peer_slices import in_slices
from penstock.net.redial import RedialPause
from penstock.raft.errors import InvalidMessage
from penstock.raft.messages import Message
from penstock.runtime.peer_codec import PeerMessageError
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.raft.config import RaftLogConfig

PURPOSE = b"raft"

FRAME_BYTES_MAX = ENTRY_BYTES_MAX + (1 << 20)
"""Largest frame accepted from a peer: one entry always fits. The peer listener needs it too."""

SILENT_ELECTIONS = 5
"""Election timeouts after which a link without any answer is closed."""

SILENT_FRAMES = 10
"""Least unanswered frames of a link taken for silent: not every message has an answer."""

LINKS_PER_PEER_MAX = 4
"""Links with one peer: one in each direction, and recent ones that TCP has not closed yet."""

Address = tuple[str, int]

log = logging.getLogger(__name__)


class RaftReceiver(Protocol):
    """Callbacks of a transport, on the event loop."""

    def on_frame(self, peer_id: PeerId, frame: memoryview) -> None:
        """Process one frame; the view is valid during the call only.

        Raises:
            InvalidMessage, PeerMessageError: no correct peer can have sent it; the link is closed.
        """

    def on_message(self, peer_id: PeerId, message: Message) -> None:
        """Process the message of a long frame. Raises InvalidMessage as `on_frame` does."""

    def on_peer_lost(self, peer_id: PeerId) -> None:
        """The last link with this peer has closed."""


class RaftTransport(Protocol):
    """Carries frames between members. It may lose, duplicate and reorder them."""

    def start(self, receiver: RaftReceiver) -> None:
        """Begin delivering frames. Called once."""

    def set_peers(self, addresses: Mapping[PeerId, Address]) -> None:
        """Keep a link to each of these, and dial no others."""

    def send(self, peer_id: PeerId, *frame: Buffer) -> None:
        """Send one frame if there is a link with room; never blocks."""

    def close(self) -> None:
        """Close all links."""


class _Link:
    """One open link, and when it was last used in monotonic milliseconds."""

    __slots__ = ("heard_ms", "link", "unanswered_frames", "unanswered_ms")

    def __init__(self, link: PeerLink, now_ms: int) -> None:
        self.link = link
        self.heard_ms = now_ms
        self.unanswered_frames = 0
        self.unanswered_ms = 0
        """When the first unanswered frame was sent."""

    def note_heard(self, now_ms: int) -> None:
        """Note that a frame was received."""
        self.heard_ms = now_ms
        self.unanswered_frames = 0

    def note_sent(self, now_ms: int) -> None:
        """Note that a frame is sent."""
        if self.unanswered_frames == 0:
            self.unanswered_ms = now_ms
        self.unanswered_frames += 1

    def is_silent(self, now_ms: int, limit_ms: int) -> bool:
        """Whether the other end has not answered for longer than `limit_ms`."""
        return self.unanswered_frames >= SILENT_FRAMES and now_ms - self.unanswered_ms > limit_ms


class PeerTransport:
    """A RaftTransport over net/peer.py. Created and used on its event loop."""

    def __init__(
        self,
        own: Callable[[], PeerHello],
        security: PeerSecurity,
        clock: Clock,
        config: RaftLogConfig,
    ) -> None:
        """`own` returns this process's hello with purpose b"raft"; called at each dialling."""
        self._own = own
        self._security = security
        self._clock = clock
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._receiver: RaftReceiver | None = None
        self._links: dict[PeerId, list[_Link]] = {}
        self._dialers: dict[PeerId, tuple[Address, asyncio.Task[None]]] = {}
        self._is_closed = False

    def start(self, receiver: RaftReceiver) -> None:
        """Deliver frames to `receiver` from now on."""
        self._receiver = receiver

    def set_peers(self, addresses: Mapping[PeerId, Address]) -> None:
        """Dial new and moved peers, and stop dialling all others."""
        if self._is_closed:
            return
        own_id = self._own().peer_id
        for peer_id, (address, task) in list(self._dialers.items()):
            if addresses.get(peer_id) != address:
                del self._dialers[peer_id]
                task.cancel()
        for peer_id, address in addresses.items():
            if peer_id != own_id and peer_id not in self._dialers:
                task = self._loop.create_task(self._keep_dialled(peer_id, address))
                task.add_done_callback(self._on_dialer_done)
                self._dialers[peer_id] = (address, task)

    def take_link(self, link: PeerLink) -> None:
        """Use a link that a peer has dialled; called by the PeerListener."""
        if self._is_closed or self._receiver is None:
            link.close("the metadata log is not running")
            return
        self._adopt(link, None)

    def send(self, peer_id: PeerId, *frame: Buffer) -> None:
        """Send on the link that received something last, or drop the frame."""
        links = self._links.get(peer_id)
        if not links:
            return
        best = links[0] if len(links) == 1 else max(links, key=lambda one: one.heard_ms)
        now_ms = self._clock.monotonic_ms()
        best.note_sent(now_ms)
        if best.is_silent(now_ms, SILENT_ELECTIONS * self._config.election_timeout_max_ms):
            best.link.abort("no answer")
            return
        if best.link.buffered_bytes > self._config.link_buffer_bytes_max:
            return
        try:
            best.link.send(*frame)
        except PeerFrameTooLarge as error:
            log.warning("raft message to peer=%d not sent: %s", peer_id, error)

    def said_levels(self) -> list[tuple[PeerId, int]]:
        """Return (peer id, session id) of each open link's hello, which names feature levels."""
        links = [link.link.hello for links in self._links.values() for link in links]
        return [(PeerId(hello.peer_id), hello.session_id) for hello in links]

    def close(self) -> None:
        """Close all links and stop dialling."""
        self._is_closed = True
        for _, task in self._dialers.values():
            task.cancel()
        self._dialers.clear()
        for links in list(self._links.values()):
            for link in links:
                link.link.close("the metadata log is closed")

    def _adopt(self, link: PeerLink, on_closed: Callable[[], None] | None) -> None:
        peer_id = PeerId(link.hello.peer_id)
        entry = _Link(link, self._clock.monotonic_ms())
        links = self._links.setdefault(peer_id, [])
        links.append(entry)
        if len(links) > LINKS_PER_PEER_MAX:
            links[0].link.close("replaced by newer links")

        def heard(frame: memoryview) -> None:
            entry.note_heard(self._clock.monotonic_ms())
            if RAFT_CODEC.is_long(frame):
                in_slices(link, frame, self._read(peer_id, link, link.keep(frame)))
                return
            assert self._receiver is not None
            try:
                self._receiver.on_frame(peer_id, frame)
            except (InvalidMessage, PeerMessageError) as error:
                link.break_off(f"raft peer={peer_id}", str(error))

        def closed(reason: str) -> None:
            self._drop(peer_id, entry, reason)
            if on_closed is not None:
                on_closed()

        link.kind_of = RAFT_CODEC.kind_of
        link.on_frame = heard
        link.on_closed = closed

    def _read(self, peer_id: PeerId, link: PeerLink, frame: Buffer) -> Generator[None, None, None]:
        """Decode a long frame in slices; its message has a turn of its own."""
        assert self._receiver is not None
        try:
            message = yield from RAFT_CODEC.slices(frame)
            yield
            self._receiver.on_message(peer_id, message)
        except (InvalidMessage, PeerMessageError) as error:
            link.break_off(f"raft peer={peer_id}", str(error))

    def _drop(self, peer_id: PeerId, entry: _Link, reason: str) -> None:
        links = self._links[peer_id]
        links.remove(entry)
        if links:
            return
        del self._links[peer_id]
        log.info("raft peer=%d lost: %s", peer_id, reason)
        if not self._is_closed and self._receiver is not None:
            self._receiver.on_peer_lost(peer_id)

    async def _keep_dialled(self, peer_id: PeerId, address: Address) -> None:
        """Keep one dialled link to the peer until cancelled."""
        pause = RedialPause(self._config.redial_min_ms, self._config.redial_max_ms)
        while True:
            lasted_ms = 0
            link = await self._dial(peer_id, address)
            if link is not None:
                began_ms = self._clock.monotonic_ms()
                await self._until_closed(link)
                lasted_ms = self._clock.monotonic_ms() - began_ms
            await asyncio.sleep(pause.after(lasted_ms) / 1000)

    async def _dial(self, peer_id: PeerId, address: Address) -> PeerLink | None:
        config = self._config
        try:
            link = await dial(
                address,
                self._own(),
                self._security,
                timeout_ms=config.dial_timeout_ms,
                frame_bytes_max=FRAME_BYTES_MAX,
            )
        except (OSError, PeerRefused) as error:
            log.debug("raft peer=%d at %s:%d not reached: %s", peer_id, *address, error)
            return None
        if link.hello.peer_id != peer_id:
            found = f"it is peer {link.hello.peer_id}: check the controllers' addresses"
            link.break_off(f"raft peer={peer_id}", found)
            return None
        return link

    async def _until_closed(self, link: PeerLink) -> None:
        closed = asyncio.Event()
        self._adopt(link, closed.set)
        try:
            await closed.wait()
        finally:
            link.close("no longer a peer to dial")

    def _on_dialer_done(self, task: asyncio.Task[None]) -> None:
        """Pass an unexpected error to the loop's exception handler, which ends the process."""
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a Raft dialler failed", "exception": error, "task": task}
            self._loop.call_exception_handler(context)


def parse_address(text: str) -> Address:
    """Return host and port of "host:port"; an IPv6 host may be in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0
