"""Checking bytes that were read before they are sent: batches for clients, runs for slaves.

    piece of a read   [frame header 48 | batch]   the frame's checksum, the batch's own, and
                                                  that it is the frame which the index names

`check_regions`, which every byte for a consumer passes through, has a compiled twin.

Consumers may not verify checksums (librdkafka does not by default), and the batch's own CRC leaves
out its first 21 bytes. So they are verified here, where the frame header is at hand. The cost for
each batch and byte shows in the CPU seconds of `python -m benchmarks consume`.

Source: Kafka checks none of this when it serves; ADR 0020. No I/O.
"""

from struct import Struct

from crc32c import crc32c

from penstock.base.ids import TopicPartition
from penstock.frames.frames import (
    BATCH_COVERED_BYTES,
    FRAME_HEADER_BYTES,
    HEADER,
    KIND_BATCH,
    check_body,
    check_header,
)
from penstock.storage.errors import CorruptFrame
from penstock.storage.read.regions import Region

_CHECKED = Struct(">I3xB8xQ4xi16s17xI")
"""Checked fields of a batch's frame: checksum, kind, position, partition, topic id, batch CRC."""

_checked = _CHECKED.unpack_from
_header = HEADER.unpack_from


def check_regions(
    regions: list[Region], found: list[memoryview], wanted: TopicPartition
) -> list[memoryview]:
    """Check every batch in what was read for `regions`; return the batches, in order.

    Raises CorruptFrame.
    """
    batches: list[memoryview] = []
    for (start, length, pieces), data in zip(regions, found, strict=True):
        check_length(data, start, length)
        for at, size in pieces:
            check_batch(data, at, size, start + at - FRAME_HEADER_BYTES, wanted)
            batches.append(data[at : at + size])
    return batches


def check_length(data: memoryview, start: int, length: int) -> None:
    """Check that all of a region is there. Raises CorruptFrame."""
    if len(data) != length:
        raise CorruptFrame(start, f"only {len(data)} of {length} bytes could be read")


def check_batch(
    data: memoryview, at: int, size: int, position: int, wanted: TopicPartition
) -> None:
    """Check the batch of `size` bytes at `at`, whose frame header is before it.

    `position` is the frame's own. Raises CorruptFrame.
    """
    head, covered_end = at - FRAME_HEADER_BYTES, at + BATCH_COVERED_BYTES
    crc, kind, named, partition, topic_id, batch_crc = _checked(data, head)
    if kind != KIND_BATCH or named != position or (topic_id, partition) != wanted:
        raise CorruptFrame(position, "the index names another frame")
    if (
        crc32c(data[head + 4 : covered_end]) != crc
        or crc32c(data[covered_end : at + size]) != batch_crc
    ):
        raise CorruptFrame(position, "a checksum does not agree")


def check_place(data: memoryview, head: int, position: int, wanted: TopicPartition) -> None:
    """Check that the frame at `head` is the one that the index names. Raises CorruptFrame."""
    _, _, _, kind, _, _, named, _, partition, topic_id = _header(data, head)
    if kind != KIND_BATCH or named != position or (topic_id, partition) != wanted:
        raise CorruptFrame(position, "the index names another frame")


def check_run(data: memoryview, position: int, segment_end: int) -> None:
    """Check every frame of a run that begins at `position`. Raises CorruptFrame."""
    at, size = 0, len(data)
    while at < size:
        header = check_header(data, at, position + at, segment_end - position - at)
        check_body(data, at, header)
        at += header.frame_bytes
