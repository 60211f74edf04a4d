"""A replication link with keep-alives and a time-out for silence.

Each end sends something at least every `keep_alive_ms`. An end that has received nothing for
`link_silence_ms` closes the link, so that a peer that hangs or is partitioned counts as gone.

Source: RocketMQ haSendHeartbeatInterval and haHousekeepingInterval.
"""

from collections.abc import Callable, Generator

from penstock.base.ports import Clock
from penstock.net.peer import PeerLink
from penstock.net.peer_slices import in_slices
from penstock.replication.config import ReplicationConfig
from penstock.replication.errors import InvalidHaMessage
from penstock.replication.messages import HaMessage, KeepAlive
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
        self._heard_ms = self._said_ms = clock.monotonic_ms()

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
        handle(message)

    def send(self, message: HaMessage) -> None:
        """Send one message; on a closed link this does nothing."""
        self._said_ms = self._clock.monotonic_ms()
        self.link.send(*encode(message))

    def tick(self) -> None:
        """Check both times; call several times in each of the two intervals."""
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._heard_ms >= self._config.link_silence_ms:
            self.link.abort(f"nothing heard for {now_ms - self._heard_ms} ms")
        elif now_ms - self._said_ms >= self._config.keep_alive_ms and self.link.is_writable:
            self.send(KeepAlive())


def _read(frame: bytes, handle: Handle, on_violation: OnViolation) -> Generator[None, None, None]:
    try:
        message = yield from decode_slices(memoryview(frame))
    except InvalidHaMessage as error:
        on_violation(str(error))
        return
    yield
    handle(message)
