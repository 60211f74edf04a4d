"""What a run of a log adds to the index, as a worker gathers it.

    run ─► frames ─► batches of clients' topics ─► records ─► names of each ─► entries

A batch whose records can not be read adds none: no consumer gets them. Control batches have no
messages. What a transaction has aborted is in the index, and found to be none when it is read.

Source: ours.
"""

from collections.abc import Callable
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicId, TopicPartition
from penstock.finding.piece import Gathered, Piece
from penstock.frames.frames import FRAME_HEADER_BYTES, HEADER, KIND_BATCH, FrameHeader
from penstock.record.batch import read_header
from penstock.record.compression import Bounds
from penstock.record.picked import iter_picked
from penstock.record.read import open_batch, record_timestamp


class Naming(NamedTuple):
    """How the messages of a front are found; called on workers."""

    headers: tuple[bytes, ...]
    """Names of the headers that are looked at."""
    names: Callable[[bytes | None, tuple[bytes | None, ...]], list[bytes]]
    """Returns the names of a message, of the key of its record and the values of the headers."""


BoundsOf = Callable[[bytes], Bounds | None]
"""How much the batches of a topic may unpack to; None where nothing of it is found by name."""


def gather(data: memoryview, piece: Piece, naming: Naming, bounds_of: BoundsOf) -> Gathered:
    """Return what the frames of a run add to a piece."""
    gathered = Gathered(piece)
    at = 0
    while at < len(data):
        frame = FrameHeader(*HEADER.unpack_from(data, at))
        end = at + frame.frame_bytes
        bounds = bounds_of(frame.topic_id) if frame.kind == KIND_BATCH else None
        if bounds is not None:
            partition = TopicPartition(TopicId(frame.topic_id), frame.partition)
            batch = data[at + FRAME_HEADER_BYTES : end]
            try:
                _gather_batch(gathered, partition, batch, naming, bounds)
            except PlatformError:
                gathered.unreadable += 1
        at = end
    return gathered


def _gather_batch(
    gathered: Gathered,
    partition: TopicPartition,
    batch: memoryview,
    naming: Naming,
    bounds: Bounds,
) -> None:
    """Add the records of a batch. Raises RecordError kinds, after some were added."""
    header = read_header(batch)
    if header.is_control:
        return
    block = open_batch(header, batch, bounds)
    for delta, timestamp_delta, key, *values in iter_picked(block, naming.headers):
        names = naming.names(key, tuple(values))
        if names:
            gathered.add(partition, header.base_offset + delta, names)
            gathered.saw(record_timestamp(header, timestamp_delta))
