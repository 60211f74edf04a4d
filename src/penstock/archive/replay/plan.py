"""From where to where a replay goes in each partition, and which chunk comes next.

A time stands for the first record that is not older, as a broker finds it: what is behind it comes
too, whatever its own time. Chunks of all partitions come in order of their oldest records, and of
one partition in order of offsets; so one chunk at a time is in memory.

Source: docs/adr/0164; Kafka's ListOffsets for times.
"""

import heapq
from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import NamedTuple

import pyarrow.compute as pc

from penstock.archive.chunks import US_PER_MS, read_chunk
from penstock.archive.entries import Chunk
from penstock.archive.errors import ReplayRefused
from penstock.archive.files import ArchiveFiles
from penstock.archive.manifest import Manifest, Part


class Kind(Enum):
    """The ways to name a place in an archive."""

    BEGINNING = auto()
    END = auto()
    OFFSET = auto()
    TIME = auto()


class Place(NamedTuple):
    """A place in every partition; `value` is an offset, or ms since 1970."""

    kind: Kind
    value: int = 0

    def __str__(self) -> str:
        return f"{self.kind.name}:{self.value}"


class Wanted(NamedTuple):
    """Offsets [start, end) of a partition."""

    start: int
    end: int


def wanted_ranges(
    files: ArchiveFiles,
    manifest: Manifest,
    places: tuple[Place, Place],
    written: Mapping[int, int],
) -> dict[int, Wanted]:
    """Return what is to be replayed of each partition; where one was begun, what is left of it.

    Raises ReplayRefused, ArchiveLies, StoreError.
    """
    wanted: dict[int, Wanted] = {}
    for number, part in sorted(manifest.parts.items()):
        resolver = _Resolver(files, manifest.topic, part)
        start = written.get(number)
        if start is None:
            start = resolver.offset(places[0])
        elif start < part.start:
            raise ReplayRefused(
                f"partition {number} was replayed up to offset {start}, and its archive begins at"
                f" {part.start} by now: give another --id, with --from"
            )
        wanted[number] = Wanted(start, resolver.offset(places[1]))
    return wanted


def in_order(manifest: Manifest, wanted: Mapping[int, Wanted]) -> Iterator[Chunk]:
    """Yield the chunks that have any of the offsets."""
    queues = {
        number: iter([c for c in manifest.parts[number].chunks if c.end > start and c.start < end])
        for number, (start, end) in wanted.items()
    }
    heap: list[tuple[int, int, Chunk]] = []

    def push(number: int) -> None:
        chunk = next(queues[number], None)
        if chunk is not None:
            heapq.heappush(heap, (chunk.first_ms, number, chunk))

    for number in queues:
        push(number)
    while heap:
        _, number, chunk = heapq.heappop(heap)
        yield chunk
        push(number)


class _Resolver:
    """Finds the offset of a place in one partition."""

    def __init__(self, files: ArchiveFiles, topic: str, part: Part) -> None:
        self._files, self._topic, self._part = files, topic, part

    def offset(self, place: Place) -> int:
        part = self._part
        match place.kind:
            case Kind.BEGINNING:
                return part.start
            case Kind.END:
                return part.end
            case Kind.OFFSET:
                return min(max(place.value, part.start), part.end)
            case Kind.TIME:
                return self._at_time(place.value)

    def _at_time(self, time_ms: int) -> int:
        for chunk in self._part.chunks:
            if chunk.files and chunk.last_ms >= time_ms:
                rows = read_chunk(self._files, chunk, self._topic)
                times = rows.column("timestamp").cast("int64")
                is_late = pc.greater_equal(times, time_ms * US_PER_MS)
                return int(pc.min(rows.column("offset").filter(is_late)).as_py())
        return self._part.end
