"""Extent files of tests, in memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.base.ids import TopicId, TopicPartition
from penstock.base.ports import Buffer
from penstock.extents.layout import NO_HORIZON, Aborted, Entry
from penstock.extents.reader import Read
from penstock.extents.writer import ExtentFileWriter
from penstock.record.batch import stamp
from penstock.record.build import Record, build_batch

PATH = "a.extents"
CLUSTER = bytes(range(16))
SET = 7


class Part(NamedTuple):
    """What one partition has in a file."""

    key: TopicPartition
    batches: Sequence[bytes]
    aborted: Aborted = Aborted()
    decided_end: int | None = None
    generation: int = 0
    horizon_ms: int = NO_HORIZON


def key(topic: int, partition: int) -> TopicPartition:
    return TopicPartition(TopicId(topic.to_bytes(16, "big")), partition)


def batch(
    base_offset: int, *, records: int = 1, epoch: int = 0, times: Sequence[int] = (), size: int = 9
) -> bytes:
    """Return a batch as a log has it; without `times` its records are of its base offset."""
    ages = times or [base_offset] * records
    made = bytearray(build_batch([Record(None, b"v" * size, (), age) for age in ages]))
    stamp(memoryview(made), 0, base_offset=base_offset, leader_epoch=epoch)
    return bytes(made)


def written(parts: Sequence[Part], identity: tuple[bytes, int] = (CLUSTER, SET)) -> bytes:
    """Return the file of these partitions, in this order."""
    return written_with_directory(parts, identity)[0]


def written_with_directory(
    parts: Sequence[Part], identity: tuple[bytes, int] = (CLUSTER, SET)
) -> tuple[bytes, list[Entry]]:
    """Return the file, and the directory as its writer tells it."""
    out = bytearray()

    def write(buffers: Sequence[Buffer]) -> None:
        for buffer in buffers:
            out.extend(buffer)

    writer = ExtentFileWriter(write, *identity)
    for part in parts:
        writer.begin(part.key, part.generation)
        for one in part.batches:
            writer.add(memoryview(one))
        writer.end(part.aborted, part.decided_end, newest_horizon_ms=part.horizon_ms)
    entries = writer.finish()
    assert writer.file_bytes == len(out)
    return bytes(out), entries


def reading(data: bytes) -> Read:
    """Return what reads a file of these bytes."""
    view = memoryview(data)
    return lambda at, size: view[at : at + size]


def noting(data: bytes, asked: list[tuple[int, int]]) -> Callable[[int, int], memoryview]:
    """Return what reads a file, and notes what is read."""
    read = reading(data)

    def noted(at: int, size: int) -> memoryview:
        asked.append((at, size))
        return read(at, size)

    return noted
