"""Transport of a session: a peer link, or a pair of channels within one process.

A broker that is a controller too has a session with itself as with any other controller, except
that messages are passed as objects and not encoded. A message arrives in a later callback, never
within `send`; after `close` nothing arrives at either end.
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Protocol

from penstock.base.ids import BrokerId, PeerId, SessionId
from penstock.base.ports import Buffer
from penstock.net.peer import PeerLink
from penstock.net.peer_slices import in_slices
from penstock.runtime.peer_codec import PeerMessageError
from penstock.runtime.session.messages import SESSION_CODEC, SessionMessage

OnMessage = Callable[[SessionMessage], None]
OnClosed = Callable[[str], None]


class SessionChannel(Protocol):
    """One end of a session."""

    @property
    def peer_id(self) -> int:
        """Peer id of the other end."""

    @property
    def session_id(self) -> SessionId:
        """The session's id, chosen by the broker."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing is sent or received any more."""

    def start(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Start receiving. `on_closed` is called once with a reason, never within `close`."""

    def send(self, message: SessionMessage) -> None:
        """Send; on a closed channel this does nothing. Raises PeerFrameTooLarge."""

    def close(self, reason: str) -> None:
        """Close the session."""


class LinkChannel:
    """A session over a peer link."""

    def __init__(self, link: PeerLink, session_id: SessionId, *, is_asked: bool = False) -> None:
        """`is_asked`: this end answers, and stops reading while the peer does not read its answers.

        Only one of the two ends may do so, or both could wait for each other.
        """
        self._link = link
        self._is_asked = is_asked
        self._is_held = False
        self.peer_id = link.hello.peer_id
        self.session_id = session_id

    @property
    def is_closed(self) -> bool:
        """Whether the link has closed."""
        return self._link.is_closed

    def start(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Start receiving; an invalid message closes the link."""
        link = self._link

        def on_frame(frame: memoryview) -> None:
            if SESSION_CODEC.is_long(frame):
                in_slices(link, frame, self._read(link.keep(frame), on_message))
                return
            try:
                message = SESSION_CODEC.decode(frame)
            except PeerMessageError as error:
                self._report_violation(error)
                return
            on_message(message)

        link.kind_of = SESSION_CODEC.kind_of
        link.on_writable = self._go_on
        link.on_frame = on_frame
        link.on_closed = on_closed

    def _read(self, frame: Buffer, on_message: OnMessage) -> Generator[None, None, None]:
        """Decode a long frame in slices."""
        try:
            message = yield from SESSION_CODEC.slices(frame)
        except PeerMessageError as error:
            self._report_violation(error)
            return
        yield
        on_message(message)

    def _report_violation(self, error: PeerMessageError) -> None:
        self._link.break_off(f"session peer={self.peer_id}", str(error))

    def send(self, message: SessionMessage) -> None:
        """Send one frame."""
        link = self._link
        if link.is_closed:
            return
        link.send(*SESSION_CODEC.encode(message))
        if self._is_asked and not link.is_writable and not self._is_held:
            self._is_held = True
            link.pause_reading()

    def _go_on(self) -> None:
        if self._is_held:
            self._is_held = False
            self._link.resume_reading()

    def close(self, reason: str) -> None:
        """Close the link."""
        self._link.close(reason)


class LocalChannel:
    """One end of a session within this process; created in pairs by `local_channels`."""

    def __init__(self, peer_id: int, session_id: SessionId) -> None:
        self.peer_id = peer_id
        self.session_id = session_id
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self.other = self
        self._on_message: OnMessage | None = None
        self._on_closed: OnClosed | None = None

    def join(self, other: "LocalChannel") -> None:
        """Connect the two ends."""
        self.other, other.other = other, self

    def start(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        """Start receiving."""
        self._on_message, self._on_closed = on_message, on_closed

    def send(self, message: SessionMessage) -> None:
        """Deliver the message to the other end in the next loop iteration."""
        if not self.is_closed:
            self._loop.call_soon(self.other.deliver, message)

    def deliver(self, message: SessionMessage) -> None:
        """Receive a message from the other end."""
        if not self.is_closed and self._on_message is not None:
            self._on_message(message)

    def close(self, reason: str) -> None:
        """Close both ends."""
        for end in (self, self.other):
            if not end.is_closed:
                end.is_closed = True
                self._loop.call_soon(end.report_closed, reason)

    def report_closed(self, reason: str) -> None:
        """Notify the owner of this end."""
        if self._on_closed is not None:
            self._on_closed(reason)


def local_channels(
    *, broker_id: BrokerId, controller_id: PeerId, session_id: SessionId
) -> tuple[LocalChannel, LocalChannel]:
    """Return the broker's end and the controller's end of a session within this process."""
    broker_end = LocalChannel(controller_id, session_id)
    controller_end = LocalChannel(broker_id, session_id)
    broker_end.join(controller_end)
    return broker_end, controller_end
