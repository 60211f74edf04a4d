"""Clock, scheduler and offload under the test's control, a log to play with, and its batches."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from random import Random
from struct import Struct
from typing import Any

from crc32c import crc32c

from penstock.base.ids import LeaderEpoch, Offset, Position, TopicId, TopicPartition
from penstock.base.ports import Disk, Lane
from penstock.record.batch import BatchHeader, read_header
from penstock.storage.commit_log.set_log import Chunk, NeedsDisk, SetLog
from penstock.storage.config import FlushPolicy, LogConfig
from penstock.storage.index.partition_log import PartitionLog

HEADER = Struct(">qiibIhiqqqhii")
DIRECTORY = "set-1"
ALL = Position(1 << 62)

SMALL = LogConfig(
    segment_bytes=65_536,
    staging_bytes=16_384,
    large_batch_bytes=4096,
    checkpoint_interval_bytes=20_000,
    checkpoint_interval_ms=0,
    reserve_bytes=0,
)
"""Small enough that a few hundred batches roll, checkpoint and recycle."""


class Crashed(BaseException):
    """The process ends here; nothing may catch it."""


class Handle:
    """A scheduled callback that can be cancelled."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class World:
    """Time and threads: nothing happens until `run`, `turn` or `advance` is called."""

    def __init__(self, random: Random | None = None) -> None:
        self.now_ms = 1_700_000_000_000
        self.soon: deque[Handle] = deque()
        self.later: list[tuple[int, int, Handle]] = []
        self.work: list[tuple[Callable[[], Any], Callable[[Any, Any], None]]] = []
        self.lanes: list[Lane] = []
        """Of all work so far; the test says what happens when."""
        self.finished: list[Callable[[], None]] = []
        self._random = random
        self._count = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def monotonic_us(self) -> int:
        return self.now_ms * 1000

    def call_soon(self, callback: Callable[[], None]) -> Handle:
        handle = Handle(callback)
        self.soon.append(handle)
        return handle

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Handle:
        handle = Handle(callback)
        self._count += 1
        heapq.heappush(self.later, (self.now_ms + delay_ms, self._count, handle))
        return handle

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any, Any], None],
        lane: Lane = Lane.WORK,
    ) -> None:
        self.lanes.append(lane)
        self.work.append((work, done))

    def turn(self) -> None:
        """Run what is due on the loop, nothing else."""
        while self.soon:
            handle = self.soon.popleft()
            if handle.callback is not None:
                handle.callback()

    def work_one(self) -> None:
        """Let one piece of work off the loop happen, with its `done` on the loop."""
        at = self._random.randrange(len(self.work)) if self._random else 0
        work, done = self.work.pop(at)
        try:
            result = work()
        except Crashed:
            raise
        except BaseException as error:  # noqa: BLE001  as the real one does
            done(None, error)
        else:
            done(result, None)

    def run(self) -> None:
        """Run until nothing is left but timers."""
        while self.soon or self.work:
            self.turn()
            if self.work:
                self.work_one()

    def advance(self, milliseconds: int) -> None:
        """Let time pass, with everything that becomes due."""
        end = self.now_ms + milliseconds
        self.run()
        while self.later and self.later[0][0] <= end:
            self.now_ms, _, handle = heapq.heappop(self.later)
            if handle.callback is not None:
                handle.callback()
            self.run()
        self.now_ms = end


def partition_number(number: int, topic: int = 1) -> TopicPartition:
    return TopicPartition(TopicId(topic.to_bytes(16, "big")), number)


_PATTERN = bytes(at * 7 & 255 for at in range(256))


def make_batch(
    *,
    records: int = 1,
    size: int = 100,
    timestamp: int = 1000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    fill: int = 0,
    attributes: int = 0,
) -> memoryview:
    """Return a batch of `size` bytes with a right CRC; its records are not records."""
    size = max(size, 61)
    shift = bytes((fill + value) & 255 for value in range(256))
    repeats = size // len(_PATTERN) + 1
    body = (_PATTERN * repeats)[61:size].translate(shift)
    producer_id, epoch, sequence = producer
    head = HEADER.pack(
        0, size - 12, 0, 2, 0, attributes, records - 1, timestamp, timestamp,
        producer_id, epoch, sequence, records,
    )  # fmt: skip
    batch = bytearray(head + body)
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return memoryview(batch)


def open_log(
    world: World, disk: Disk, config: LogConfig = SMALL, directory: str = DIRECTORY
) -> SetLog:
    log = SetLog.recover(
        disk=disk,
        directory=directory,
        config=config,
        clock=world,
        offload=world,
        scheduler=world,
        progress=lambda _done, _total: None,
    )
    if log.leader_epoch < 0:
        log.begin_epoch(LeaderEpoch(1))
    return log


def append(log: SetLog, partition: PartitionLog, **batch: Any) -> int:
    data = make_batch(**batch)
    return log.append(partition, data, read_header(data))


def read_chunk(
    world: World,
    log: SetLog,
    partition: PartitionLog,
    offset: int,
    max_bytes: int = 1 << 20,
    limit: int = ALL,
) -> Chunk:
    """Read, off the loop if it has to be; raises what the read raises."""
    found = log.read(partition, Offset(offset), max_bytes, Position(limit))
    if isinstance(found, Chunk):
        return found
    assert isinstance(found, NeedsDisk)
    answers: list[Any] = []
    found.load(lambda chunk, error: answers.append(error or chunk))
    world.run()
    assert len(answers) == 1
    if isinstance(answers[0], Exception):
        raise answers[0]
    assert isinstance(answers[0], Chunk)
    return answers[0]


def batches_of(data: memoryview) -> list[tuple[BatchHeader, bytes]]:
    """Split whole batches; the body comes without what the broker stamps."""
    found = []
    at = 0
    while at < len(data):
        header = read_header(data, at)
        found.append((header, bytes(data[at + 16 : at + header.size_bytes])))
        at += header.size_bytes
    assert at == len(data)
    return found


def read_all(
    world: World, log: SetLog, partition: PartitionLog, limit: int = ALL
) -> list[tuple[int, bytes]]:
    """Return (base offset, bytes behind the stamps) of every batch from the log start on."""
    found: list[tuple[int, bytes]] = []
    offset = partition.log_start_offset
    while True:
        chunk = read_chunk(world, log, partition, offset, 10_000, limit)
        if not chunk.size:
            return found
        for header, body in batches_of(chunk.data):
            assert header.base_offset <= offset if not found else header.base_offset == offset
            found.append((header.base_offset, body))
            offset = Offset(header.last_offset + 1)


def async_config(**changes: Any) -> LogConfig:
    """Return SMALL with the asynchronous flush policy."""
    return replace(SMALL, flush_policy=FlushPolicy.ASYNC, **changes)
