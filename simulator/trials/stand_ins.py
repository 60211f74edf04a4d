"""Replacements for disk, network and time in walks of production replication code.

    Moment     a clock that is moved by hand, with timers
    PlainLog   a commit log of plain bytes, each identified by its position and mastership
    PlainLink  one end of a link: sent messages are kept, received ones are put in by hand

A log's bytes are not stored: the bytes of a mastership at a position are always the same, and those
of two masterships differ. So comparing logs by their epochs is exact.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count, pairwise

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Position
from penstock.frames.run import Run
from penstock.net.peer import PeerHello
from penstock.replication.alignment import LogShape
from penstock.replication.messages import HaMessage
from penstock.replication.wire import decode, encode
from penstock.storage.errors import GapInRun
from penstock.storage.second_level.manifest import Reach

EPOCH_BYTES = 8
"""Of the frame that begins a mastership."""
SEGMENT_BYTES = 1 << 20
CALLS_MAX = 10_000
"""At one moment; what asks for itself again and again is a mistake."""


class Timer:
    """What is due at a time, unless it was cancelled."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Let it not happen."""
        self._call = None

    def __call__(self) -> None:
        if self._call is not None:
            self._call()


class Moment:
    """See the module: Clock and Scheduler."""

    def __init__(self, now_ms: int = 0) -> None:
        self.now_ms = now_ms
        self._due: list[tuple[int, int, Timer]] = []
        self._numbers = count()

    def wall_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def monotonic_ms(self) -> int:
        """Return the time."""
        return self.now_ms

    def monotonic_us(self) -> int:
        """Return the time."""
        return self.now_ms * 1_000

    def call_soon(self, callback: Callable[[], None]) -> Timer:
        """Call it when `run` is called."""
        return self.call_later(0, callback)

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Call it when `run` is called at that time or later."""
        timer = Timer(callback)
        heappush(self._due, (self.now_ms + delay_ms, next(self._numbers), timer))
        return timer

    def run(self) -> None:
        """Call what is due by now."""
        for _ in range(CALLS_MAX):
            if not self._due or self._due[0][0] > self.now_ms:
                return
            heappop(self._due)[2]()
        raise AssertionError("what is due at one moment does not come to an end")


class PlainLog:
    """See the module: as much of a SetLog as a member of a set asks for."""

    is_fenced = False

    def __init__(self, epochs: list[tuple[int, int]], start: int, end: int) -> None:
        self.epochs = epochs
        self.start_position = start
        self.end_position = self.durable_position = self.written_position = end
        self.confirmed_position = 0
        self.is_sole_member = False
        self.is_busy = False
        self.takes = SEGMENT_BYTES
        """How many bytes it takes now: a sync has to end first."""
        self._truncating: tuple[int, Callable[[PlatformError | None], None]] | None = None
        self.on_written = self.on_durable = self.on_reopened = self.on_append_ready = _nothing
        self.on_fenced: Callable[[Exception], None] = _ignored

    @property
    def reach(self) -> Reach:
        """As if it had nothing below its start, and lacked that: so some slaves lack some."""
        return Reach(Position(self.start_position), Position(self.start_position))

    @property
    def leader_epoch(self) -> int:
        """The newest in the log, -1 for none."""
        return self.epochs[-1][0] if self.epochs else -1

    def begin_epoch(self, leader_epoch: int) -> None:
        """Begin a mastership, unless it has begun."""
        if leader_epoch > self.leader_epoch:
            self.epochs = [*self.epochs, (leader_epoch, self.end_position)]
            self.append(EPOCH_BYTES)

    def append(self, size: int) -> None:
        """Write bytes of the newest mastership."""
        self.end_position += size
        self.written_position = self.end_position
        self.on_written()

    def sync(self, position: int) -> None:
        """Make durable what is below that position."""
        if position > self.durable_position:
            self.durable_position = position
            self.on_durable()

    def follow(self) -> None:
        """Be a slave's."""

    def note_confirmed(self, position: int) -> None:
        """Learn what is confirmed."""

    def epoch_at(self, position: int) -> tuple[int, int]:
        """Return whose byte stands there, (-1, 0) for nobody's; and up to where it is so."""
        ends = [*self.epochs, (0, self.end_position)]
        for (epoch, start), (_, end) in pairwise(ends):
            if start <= position < end:
                return epoch, end
        return -1, position

    def read_run(self, position: int, size: int, written: int, *, is_checked: bool = False) -> Run:
        """Return the bytes of one mastership at a position."""
        del is_checked
        epoch, end = self.epoch_at(position)
        end = min(end, written, position + size)
        run = bytes(max(0, end - position))
        return Run(
            LeaderEpoch(epoch),
            Position(position),
            Position(0),
            Position(SEGMENT_BYTES),
            memoryview(run),
            Position(max(end, position)),
        )

    def append_run(self, run: Run) -> int:
        """Take what a master sends, as far as there is room now. Raises GapInRun."""
        if run.position != self.end_position:
            raise GapInRun(run.position, self.end_position)
        taken = min(len(run.data), self.takes)
        self.takes -= taken
        if taken and run.leader_epoch > self.leader_epoch:
            self.epochs = [*self.epochs, (run.leader_epoch, run.position)]
        self.end_position += taken
        self.written_position = self.end_position
        return taken

    def truncate(self, position: int, done: Callable[[PlatformError | None], None]) -> None:
        """Begin to cut; it is done when `finish` is called."""
        self.is_busy = True
        self._truncating = position, done

    def finish(self) -> None:
        """End a cut that has begun."""
        if self._truncating is None:
            return
        (position, done), self._truncating = self._truncating, None
        self.epochs = [epoch for epoch in self.epochs if epoch[1] < position]
        self.end_position = self.written_position = position
        self.durable_position = min(self.durable_position, position)
        self.is_busy = False
        self.on_reopened()
        done(None)


class PlainLink:
    """See the module: as much of a PeerLink as a master or a slave asks for."""

    address = "copy"

    def __init__(self, peer_id: int) -> None:
        self.hello = PeerHello(b"ha", "", peer_id, 0)
        self.is_open = self.is_writable = True
        self.said: list[HaMessage] = []
        """By the real object."""
        self.on_frame: Callable[[memoryview], None] = _ignored
        self.on_closed: Callable[[str], None] = _ignored
        self.on_writable = _nothing
        self.kind_of: Callable[[memoryview], str] = str

    def send(self, *parts: bytes) -> None:
        """Keep what the real object says."""
        if self.is_open:
            self.said.append(decode(memoryview(b"".join(parts))))

    def hear(self, message: HaMessage) -> None:
        """Deliver a message to the production object."""
        if self.is_open:
            self.on_frame(memoryview(b"".join(encode(message))))

    def close(self, reason: str) -> None:
        """End it."""
        if self.is_open:
            self.is_open = False
            self.on_closed(reason)

    abort = close

    def break_off(self, _who: str, reason: str) -> None:
        """End it for what the other end has said."""
        self.close(reason)


def common_end(log_shape: LogShape, other: LogShape) -> int:
    """Return up to where two logs have the same bytes, by looking at whose each of them is.

    Of what one of them has not kept the other's word is taken: it was the same once. An empty log
    lacks nothing of what lies before its start.
    """
    if (
        log_shape.is_empty
        and not log_shape.epochs
        and log_shape.start_position >= other.start_position
    ):
        return log_shape.start_position
    edges = {shape.end_position for shape in (log_shape, other)}
    edges |= {start for shape in (log_shape, other) for _, start in shape.epochs}
    at = 0
    for edge in sorted(edges):
        if edge > at:
            if _owner(log_shape, at) != _owner(other, at):
                return at
            at = edge
    return min(log_shape.end_position, other.end_position, at)


def _owner(shape: LogShape, position: int) -> tuple[int, int]:
    """Return by (leader epoch, its start) whose byte that is; (-1, -1) behind the end."""
    if position >= shape.end_position:
        return -1, -1
    owner = (-1, 0)
    for epoch, start in shape.epochs:
        if start <= position:
            owner = (epoch, start)
    return owner


def _nothing() -> None:
    """Stand for a callback that nobody has set."""


def _ignored(_: object) -> None:
    """Stand for a callback that nobody has set."""
