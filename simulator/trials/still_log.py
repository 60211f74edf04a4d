"""A log that is opened on a copy of a disk, used and closed, while virtual time stands still.

    StillLog(copy) ─► recovery ─► facts, reads, appends ─► close, or drop it: a crash

Work off the loop is done when `run` is called, in the order of submission; timers never fire. So a
start can be tested in the middle of a run without affecting it.

The copy and what happened to it come from operations.py.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from penstock.base.ports import Lane
from penstock.record.batch import read_header
from penstock.record.build import Record, build_batch
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk, SetLog
from penstock.storage.config import LogConfig, Retention
from penstock.storage.index.producers import BatchSpan
from simulator.kernel.disk import SimDisk

T = TypeVar("T")

NOW_MS = 1_700_000_100_000
STEPS_MAX = 10_000
"""Of one `run`; work that asks for itself again and again is a mistake."""
NEW_PARTITION = TopicPartition(TopicId(b"tried on a copy!"), 0)
READ_BYTES = 1


class Facts(NamedTuple):
    """What is known of a log."""

    end: int
    epochs: list[tuple[int, int]]
    partitions: dict[TopicPartition, tuple[int, int, int, int, int]]
    """Log start and end offset, end of the last frame, newest time, bytes."""
    producers: dict[tuple[TopicPartition, int], tuple[int, tuple[BatchSpan, ...]]]
    """(partition, producer id) -> (epoch, newest batches)."""


class Ports:
    """Clock, scheduler and offload of a moment."""

    def __init__(self) -> None:
        self._due: deque[Callable[[], None]] = deque()

    def wall_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return NOW_MS

    def monotonic_us(self) -> int:
        return NOW_MS * 1_000

    def call_soon(self, callback: Callable[[], None]) -> "Ports":
        self._due.append(callback)
        return self

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> "Ports":
        del delay_ms, callback  # that moment never comes
        return self

    def cancel(self) -> None:
        """Stand in for a timer that never fires."""

    def submit(
        self,
        work: Callable[[], T],
        done: Callable[[T | None, BaseException | None], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        del lane  # one thing after the other

        def both() -> None:
            try:
                result = work()
            except (OSError, PlatformError) as error:
                done(None, error)
            else:
                done(result, None)

        self._due.append(both)

    def run(self) -> None:
        """Run the submitted work, and what follows from it."""
        for _ in range(STEPS_MAX):
            if not self._due:
                return
            self._due.popleft()()
        raise AssertionError("work on a copy of a disk does not come to an end")


class StillLog:
    """See the module. Raises what a start of a log raises: PlatformError, OSError."""

    def __init__(self, disk: SimDisk, directory: str, config: LogConfig) -> None:
        self._ports = ports = Ports()
        self.later = ports.call_soon
        self.log = SetLog(
            disk=disk,
            directory=directory,
            config=config,
            clock=ports,
            offload=ports,
            scheduler=ports,
        )
        self.log.is_sole_member = False
        recovery = self.log.replay(_no_progress)
        self.confirmed = recovery.confirmed_position
        """What the files say of what the set has confirmed."""
        self.segment_bases = [segment.base for segment in recovery.segments]
        self.log.open(recovery)
        ports.run()

    def facts(self) -> Facts:
        """Return what it knows of itself now."""
        return facts_of(self.log)

    def read(self, key: TopicPartition, offset: int) -> Chunk:
        """Read one batch. Raises PlatformError."""
        log = self.log
        found = log.read(log.partitions[key], Offset(offset), READ_BYTES, log.end_position)
        if isinstance(found, Chunk):
            return found
        return self._loaded(found)

    def _loaded(self, later: NeedsDisk) -> Chunk:
        results: list[tuple[Chunk | None, PlatformError | None]] = []
        later.load(lambda chunk, error: results.append((chunk, error)))
        self._ports.run()
        ((chunk, error),) = results
        if error is not None:
            raise error
        assert chunk is not None
        return chunk

    def lead(self) -> int:
        """Begin a mastership, write to a partition that is new; return up to where it is durable.

        Raises PlatformError.
        """
        log, ports = self.log, self._ports
        log.begin_epoch(LeaderEpoch(log.leader_epoch + 1))
        batch = memoryview(bytearray(build_batch([Record(b"key", b"value", (), NOW_MS)])))
        log.append(log.open_partition(NEW_PARTITION), batch, read_header(batch))
        log.settle(lambda: None)
        ports.run()
        return log.flushed_position

    def has_number_twice(self) -> bool:
        """Whether two partitions share the number that their producers are known by."""
        numbers = [partition.serial for partition in self.log.partitions.values()]
        return len(set(numbers)) < len(numbers)

    def confirm(self) -> None:
        """Let the set have confirmed all of it, and take the snapshot that is due."""
        self.log.note_confirmed(self.log.end_position)
        self.log.checkpoint()
        self._ports.run()

    def run(self) -> None:
        """Run the work submitted off the loop, and what follows from it."""
        self._ports.run()

    def retain(self, now_ms: int, setting: Retention) -> None:
        """Let one pass of retention go over everything."""
        self.log.apply_retention(now_ms, lambda _: setting)
        self._ports.run()

    def close(self) -> None:
        """End in good order. Raises PlatformError, OSError."""
        self.log.close()


def facts_of(log: SetLog) -> Facts:
    """Return what a log knows of itself."""
    by_serial = {partition.serial: key for key, partition in log.partitions.items()}
    return Facts(
        log.end_position,
        covering(log.epochs, log.start_position),
        {
            key: (
                partition.log_start_offset,
                partition.log_end_offset,
                partition.last_end_position,
                partition.max_timestamp,
                partition.size_bytes,
            )
            for key, partition in log.partitions.items()
            if partition.log_end_offset or partition.log_start_offset
        },
        {
            (by_serial[serial], producer_id): (epoch, window)
            for (serial, producer_id), (epoch, _, window, _) in log.parts.states.all().items()
            if serial in by_serial
        },
    )


def covering(epochs: Sequence[tuple[int, int]], start: int) -> list[tuple[int, int]]:
    """Return the masterships of which something is kept, where `start` is the first byte kept."""
    older = [one for one, (_, end) in pairwise(epochs) if end > start]
    return [*older, *epochs[-1:]]


def _no_progress(_done: int, _all: int) -> None:
    """Ignore the call."""
