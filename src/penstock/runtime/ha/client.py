"""The slave's end of all replication links: one link to each master's process.

    HaClient ─┬─ MasterLink (broker 1) ── sets 1, 4
              └─ MasterLink (broker 3) ── set 7          dialled while there are sets to follow

A lost link is dialled again with growing pauses; the master's address is looked up in the image for
every attempt. What is done for each set is in followed_set.py.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, assert_never

from penstock.base.ids import BrokerId, ReplicaSetId
from penstock.base.ports import Clock, Scheduler
from penstock.net.peer import PeerHello, PeerLink, PeerRefused, PeerSecurity, dial
from penstock.net.redial import RedialPause
from penstock.replica.followed_set import FollowedSet
from penstock.replication.config import ReplicationConfig
from penstock.replication.messages import (
    Acknowledge,
    BaseBytes,
    BaseBytesWanted,
    Begin,
    Goodbye,
    HaMessage,
    Hello,
    HelloAnswer,
    KeepAlive,
    LogRun,
    Manifest,
    ManifestWanted,
    Refused,
)
from penstock.runtime.ha.live_link import LiveLink
from penstock.runtime.io.resting import rest

FRAME_BYTES_MAX = 192 << 20
"""Larger than any frame of a log: a batch is never larger than a produce request, and a manifest
never larger than its snapshot."""

log = logging.getLogger(__name__)


class ClientPorts(NamedTuple):
    """Addresses, identity, clock and settings for links to masters."""

    hello: Callable[[], PeerHello]
    """Returns this process's hello; called for each link, as the session id differs."""
    security: PeerSecurity
    address_of: Callable[[BrokerId], tuple[str, int] | None]
    """Returns a broker's replication address; None while that is unknown."""
    config: ReplicationConfig
    clock: Clock
    scheduler: Scheduler
    spawn: Callable[[str, Coroutine[Any, Any, None]], None]


class HaClient:
    """The links to all masters that this broker follows."""

    def __init__(self, ports: ClientPorts) -> None:
        self._ports = ports
        self.links: dict[BrokerId, MasterLink] = {}

    def follow(self, followed: FollowedSet, master_id: BrokerId) -> None:
        """Follow a set over the link to its master; dial the master if there is no link yet."""
        link = self.links.get(master_id)
        if link is None:
            link = self.links[master_id] = MasterLink(master_id, self._ports, self._ended)
        link.add(followed)

    def unfollow(self, followed: FollowedSet, master_id: BrokerId) -> None:
        """Stop following a set; the link closes with its last set."""
        link = self.links.get(master_id)
        if link is not None:
            link.remove(followed)

    def on_offence(self, master_id: BrokerId, reason: str) -> None:
        """Close the link to a master that broke the protocol."""
        link = self.links.get(master_id)
        if link is not None:
            link.abort(reason)

    def tick(self) -> None:
        """Check time-outs; call several times in each keep-alive interval."""
        for link in list(self.links.values()):
            link.tick()

    def stop(self) -> None:
        """Close all links."""
        for link in list(self.links.values()):
            link.stop("the broker stops")

    def _ended(self, master_id: BrokerId) -> None:
        self.links.pop(master_id, None)


class MasterLink:
    """The link to one master's process, over successive connections."""

    def __init__(
        self, master_id: BrokerId, ports: ClientPorts, on_ended: Callable[[BrokerId], None]
    ) -> None:
        self.master_id = master_id
        self.sets: dict[ReplicaSetId, FollowedSet] = {}
        self.live: LiveLink | None = None
        self.lost_ms: int | None = None
        """Monotonic time at which the last open link was lost; None while one is open."""
        self._ports = ports
        self._on_ended = on_ended
        self._is_stopped = False
        self._changed = asyncio.Event()
        """Set when the link was lost or is no longer needed."""
        ports.spawn(f"ha-link-{master_id}", self._run())

    def add(self, followed: FollowedSet) -> None:
        """Follow one more set over this link."""
        self.sets[followed.replica_set_id] = followed
        if self.live is not None:
            followed.attach(self.live.send)

    def remove(self, followed: FollowedSet) -> None:
        """Stop following a set; without any the link closes."""
        if self.sets.get(followed.replica_set_id) is followed:
            del self.sets[followed.replica_set_id]
        if not self.sets:
            self.stop("nothing is followed here any more")

    def stop(self, reason: str) -> None:
        """Close the link and stop dialling."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self.live is not None:
            self.live.link.close(reason)
        self._changed.set()
        self._on_ended(self.master_id)

    def abort(self, reason: str) -> None:
        """Close the connection; another one is dialled."""
        if self.live is not None:
            self.live.link.break_off(f"ha master={self.master_id}", reason)

    def tick(self) -> None:
        """Check the time-outs of the link and of its sets."""
        if self.live is not None:
            self.live.tick()
        for followed in list(self.sets.values()):
            followed.tick()

    # --- connecting ----------------------------------------------------------------------------

    async def _run(self) -> None:
        config, clock = self._ports.config, self._ports.clock
        pause = RedialPause(config.reconnect_ms, config.reconnect_ms_max)
        while not self._is_stopped:
            lasted_ms = 0
            link = await self._dial()
            if link is not None:
                began_ms = clock.monotonic_ms()
                self._changed.clear()
                self._attach(link)
                await self._changed.wait()
                lasted_ms = clock.monotonic_ms() - began_ms
            if not self._is_stopped:
                await rest(self._changed, pause.after(lasted_ms))

    async def _dial(self) -> PeerLink | None:
        address = self._ports.address_of(self.master_id)
        if address is None:
            return None
        try:
            link = await dial(
                address,
                self._ports.hello(),
                self._ports.security,
                timeout_ms=self._ports.config.dial_timeout_ms,
                frame_bytes_max=FRAME_BYTES_MAX,
            )
        except (PeerRefused, OSError) as error:
            log.debug("master=%d at %s:%d: %s", self.master_id, *address, error)
            return None
        if link.hello.peer_id != self.master_id:
            link.break_off(f"ha master={self.master_id}", f"it is broker {link.hello.peer_id}")
            return None
        if self._is_stopped:
            link.close("nothing is followed here any more")
            return None
        return link

    def _attach(self, link: PeerLink) -> None:
        log.info("master=%d connected", self.master_id)
        live = self.live = LiveLink(link, self._ports.clock, self._ports.config)
        self.lost_ms = None
        link.on_closed = lambda reason: self._closed(live, reason)
        link.on_frame = self._on_frame
        for followed in list(self.sets.values()):
            followed.attach(live.send)

    def _closed(self, live: LiveLink, reason: str) -> None:
        if self.live is not live:
            return
        self.live = None
        self.lost_ms = self._ports.clock.monotonic_ms()
        log.info("master=%d disconnected: %s", self.master_id, reason)
        for followed in list(self.sets.values()):
            followed.detach()
        self._changed.set()

    # --- messages ------------------------------------------------------------------------------

    def _on_frame(self, frame: memoryview) -> None:
        assert self.live is not None
        self.live.take(frame, self._handle, self.abort)

    def _handle(self, message: HaMessage) -> None:
        match message:
            case LogRun() | HelloAnswer() | Refused() | Manifest() | BaseBytes():
                followed = self.sets.get(message.replica_set_id)
                if followed is not None:
                    followed.on_message(message)
            case KeepAlive():
                pass
            case (
                Hello() | Begin() | Acknowledge() | Goodbye() | ManifestWanted() | BaseBytesWanted()
            ):
                self.abort("a message that only slaves send")
            case _:
                assert_never(message)
