"""A replication link with keep-alives and a time-out for silence.

Each end sends a KeepAlive every `keep_alive_ms`, before whatever else is due then. An end that has
received nothing for `link_silence_ms` closes the link, so that a peer that hangs or is partitioned
counts as gone.

A KeepAlive carries the time at which it was sent, and each Acknowledge that of the newest KeepAlive
read before it: a master's lease counts from there (docs/adr/0085).

Source: RocketMQ haSendHeartbeatInterval and haHousekeepingInterval.
"""

from collections.abc import Callable, Generator

from penstock.base.ports import Clock
from penstock.net.peer import PeerLink
from penstock.net.peer_slices import in_slices
from penstock.replication.config import ReplicationConfig
from penstock.replication.errors import InvalidHaMessage
from penstock.replication.messages import NOT_SAID, Acknowledge, HaMessage, KeepAlive
from penstock.replication.wire import decode, decode_slices, encode, is_long, kind_of

Handle = Callable[[HaMessage], None]
OnViolation = Callable[[str], None]


class LiveLink:
    """One end of a link, with the times of the last message in each direction."""

    def __init__(self, link: PeerLink, clock: Clock, config: ReplicationConfig) -> None:
        self.link = link
        self.peer_id = link.hello.peer_id
        link.kind_of = kind_of
        self._clock = clock
        self._config = config
        self._heard_ms = clock.monotonic_ms()
        self._kept_ms = self._heard_ms - config.keep_alive_ms
        self._read_ms = NOT_SAID
        """By the other end's clock: when it sent the newest KeepAlive that was read here."""

    def take(self, frame: memoryview, handle: Handle, on_violation: OnViolation) -> None:
        """Decode a frame, a long one in slices, and handle its message.

        What breaks the rules of the link is reported to `on_violation`.

        A message that is handled at once may refer to the frame's memory.
        """
        self._heard_ms = self._clock.monotonic_ms()
        if is_long(frame):
            in_slices(self.link, frame, _read(bytes(frame), handle, on_violation))
            return
        try:
            message = decode(frame)
        except InvalidHaMessage as error:
            on_violation(str(error))
            return
        if isinstance(message, KeepAlive):
            self._read_ms = message.said_ms
        elif isinstance(message, Acknowledge) and message.read_ms > self._heard_ms:
            on_violation(f"what is sent at {message.read_ms} was read at {self._heard_ms}")
            return
        handle(message)

    def send(self, message: HaMessage) -> None:
        """Send one message; on a closed link this does nothing."""
        self._keep_alive(self._clock.monotonic_ms())
        if isinstance(message, Acknowledge):
            message = message._replace(read_ms=self._read_ms)
        self.link.send(*encode(message))

    def _keep_alive(self, now_ms: int) -> None:
        if now_ms - self._kept_ms >= self._config.keep_alive_ms:
            self._kept_ms = now_ms
            self.link.send(*encode(KeepAlive(now_ms)))

    def tick(self) -> None:
        """Check both times; call several times in each of the two intervals."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._heard_ms >= self._config.link_silence_ms:
            self.link.abort(f"nothing heard for {now_ms - self._heard_ms} ms")
        elif self.link.is_writable:
            self._keep_alive(now_ms)


def _read(frame: bytes, handle: Handle, on_violation: OnViolation) -> Generator[None, None, None]:
    try:
        message = yield from decode_slices(memoryview(frame))
    except InvalidHaMessage as error:
        on_violation(str(error))
        return
    yield
    handle(message)
