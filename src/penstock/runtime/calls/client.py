"""The asking side of calls: a link to each broker that is asked, dialled when it is first asked.

    ask(2) ─► lane ─► link to broker 2 ─► AskingBroker there
    ask(1) ─► lane ─► the same handlers, without a link       (this is broker 1)

A link stays open. When it ends, what was sent ends with an unknown outcome at once; what waits is
sent over the next link. A broker that can not be reached is dialled less and less often: each
attempt that fails ends what waits for it, so that no caller is the reason for another attempt
before its time. The address is looked up in the image for each attempt, and a broker that has moved
since is dialled anew.

An end that works on something tells so (server.py); one that is silent for as long as a replication
link may be is dead.

Source: docs/adr/0090; runtime/ha/client.py.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock.base.ids import BrokerId
from penstock.base.ports import Cancellable
from penstock.coordinator.calls.asking import (
    FRAME_BYTES_MAX,
    Asks,
    CallFailed,
    CallNotServed,
    CallTooLarge,
    Message,
    Told,
)
from penstock.net.peer import PeerFrameTooLarge, PeerHello, PeerLink, PeerRefused, dial
from penstock.net.redial import RedialPause
from penstock.runtime.calls.incoming import read_frames
from penstock.runtime.calls.lane import Lane
from penstock.runtime.calls.messages import (
    PURPOSE,
    StillThere,
    Unserved,
    encode,
    is_question,
    unserved,
)
from penstock.runtime.calls.ports import CallPorts
from penstock.runtime.calls.server import CallServer
from penstock.runtime.io.resting import rest

log = logging.getLogger(__name__)


class AskedBroker:
    """One broker that is asked, over successive links."""

    def __init__(
        self, broker_id: BrokerId, ports: CallPorts, on_gone: Callable[[BrokerId], None]
    ) -> None:
        """`on_gone` is called when nothing waits and the broker is not registered any more."""
        self.broker_id = broker_id
        self.link: PeerLink | None = None
        self.lane = Lane(
            f"broker {broker_id}", ports, transmit=self._transmit, has_room=self._has_room
        )
        self._ports = ports
        self._on_gone = on_gone
        self._address: tuple[str, int] | None = None
        self._pause = RedialPause(ports.config.reconnect_ms, ports.config.reconnect_ms_max)
        self._is_running = False
        self._is_stopped = False
        self._changed = asyncio.Event()
        """Set when the link was lost or the broker stops."""
        self._silent_since_ms: int | None = None
        """When something was sent, or heard, that has to be followed by something heard."""
        self._watch: Cancellable | None = None

    def prepare(self) -> None:
        """See to it that there is a link, or will be: called before each question."""
        if self.link is not None and self._ports.address_of(self.broker_id) != self._address:
            self.link.close("the broker is registered elsewhere now")
        if not self._is_running:
            self._is_running = True
            self._ports.spawn(f"calls-to-{self.broker_id}", self._run())

    def stop(self) -> None:
        """Close the link; nobody asks any more."""
        self._is_stopped = True
        self.lane.refuse("this broker stops")
        if self.link is not None:
            self.link.close("this broker stops")
        if self._watch is not None:
            self._watch.cancel()
        self._changed.set()

    # --- connecting ----------------------------------------------------------------------------

    async def _run(self) -> None:
        """Keep a link while it lasts, and make another one if something waits then."""
        clock = self._ports.clock
        while True:
            lasted_ms = 0
            link = await self._dial()
            if link is not None:
                began_ms = clock.monotonic_ms()
                self._changed.clear()
                self._attach(link)
                await self._changed.wait()
                lasted_ms = clock.monotonic_ms() - began_ms
            if not self._is_stopped:
                await rest(self._changed, self._pause.after(lasted_ms))
            if self._is_stopped or not self.lane.waiting:
                break
        self._is_running = False
        if self._ports.address_of(self.broker_id) is None:
            self._on_gone(self.broker_id)

    async def _dial(self) -> PeerLink | None:
        ports = self._ports
        address = self._address = ports.address_of(self.broker_id)
        if address is None:
            self.lane.refuse("no replication address is registered")
            return None
        hello = PeerHello(PURPOSE, ports.image.cluster_id, ports.broker_id, ports.new_session_id())
        try:
            link = await dial(
                address,
                hello,
                ports.security,
                timeout_ms=ports.config.dial_timeout_ms,
                frame_bytes_max=FRAME_BYTES_MAX,
            )
        except (PeerRefused, OSError) as error:
            self.lane.refuse(f"no link to {address[0]}:{address[1]}: {error}")
            return None
        if link.hello.peer_id != self.broker_id:
            reason = f"{address[0]}:{address[1]} is broker {link.hello.peer_id}"
            link.break_off(self._who, reason)
            self.lane.refuse(reason)
            return None
        if self._is_stopped:
            link.close("this broker stops")
            return None
        return link

    @property
    def _who(self) -> str:
        return f"calls to={self.broker_id}"

    def _attach(self, link: PeerLink) -> None:
        log.info("called=%d connected", self.broker_id)
        self.link, self._silent_since_ms = link, None
        link.on_closed = lambda reason: self._closed(link, reason)
        link.on_writable = self.lane.pump
        read_frames(link, self._who, self._on_message, self._on_unknown)
        self.lane.pump()

    def _closed(self, link: PeerLink, reason: str) -> None:
        if self.link is link:
            self.link = None
            log.info("called=%d disconnected: %s", self.broker_id, reason)
            self.lane.lose(reason)
            self._changed.set()

    # --- messages ------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        return self.link is not None and not self.link.is_closed and self.link.is_writable

    def _transmit(self, question: Asks[Any]) -> None:
        assert self.link is not None
        try:
            self.link.send(encode(question))
        except PeerFrameTooLarge as error:
            raise CallTooLarge(str(error)) from error
        if self._silent_since_ms is None:
            self._silent_since_ms = self._ports.clock.monotonic_ms()
        if self._watch is None:
            self._look_after(self._ports.config.link_silence_ms)

    def _hear(self) -> None:
        now_ms = self._ports.clock.monotonic_ms()
        self._silent_since_ms = now_ms if self.lane.sent else None

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Told | Unserved):
            self.lane.on_answer(message)
        elif not isinstance(message, StillThere):
            assert self.link is not None
            self.link.break_off(self._who, "a message that only asks")
        self._hear()

    def _on_unknown(self, frame: memoryview, number: int, what: str) -> None:
        assert self.link is not None
        if is_question(frame):
            self.link.break_off(self._who, what)
        self.lane.on_unreadable(number, what)
        self._hear()

    def _look_after(self, delay_ms: int) -> None:
        self._watch = self._ports.scheduler.call_later(delay_ms, self._look)

    def _look(self) -> None:
        """Give up a link on which nothing is heard although something should be."""
        self._watch = None
        if self.link is None or self._silent_since_ms is None:
            return
        silent_ms = self._ports.clock.monotonic_ms() - self._silent_since_ms
        if silent_ms >= self._ports.config.link_silence_ms:
            self.link.abort(f"nothing heard for {silent_ms} ms")
        else:
            self._look_after(self._ports.config.link_silence_ms - silent_ms)


class OwnBroker:
    """This broker as one that is asked: the same bounds and handlers, and no link."""

    def __init__(self, ports: CallPorts, server: CallServer) -> None:
        self._ports = ports
        self._server = server
        self._running = 0
        self.lane = Lane("this broker", ports, transmit=self._transmit, has_room=self._has_room)

    def _has_room(self) -> bool:
        return self._running < self._ports.limits.served

    def _transmit(self, question: Asks[Any]) -> None:
        encode(question)  # what is too large for others is too large here
        self._running += 1
        self._ports.spawn("call-of-itself", self._work(question))

    async def _work(self, question: Asks[Any]) -> None:
        number = question.correlation
        try:
            answer = await self._server.answer(question)
        except CallNotServed as error:
            self.lane.on_answer(unserved(number, str(error), is_begun=False))
        except CallFailed as error:
            self.lane.on_answer(unserved(number, str(error), is_begun=True))
        else:
            self.lane.on_answer(replace(answer, correlation=number))
        finally:
            self._running -= 1
        self.lane.pump()
