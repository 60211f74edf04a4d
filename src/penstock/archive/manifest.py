"""The manifest: what the entries of an archive together say.

Of each partition it is one range [start, end), in chunks one behind another. Nothing overlaps, and
where something is missing between two chunks the later one says so. An entry that does not fit
behind those before it is refused, whoever has written it.

Source: docs/adr/0164.
"""

from dataclasses import dataclass, field

from penstock.archive.entries import (
    FORMAT,
    Added,
    ArchivedFile,
    Began,
    Chunk,
    PartitionState,
    Pruned,
    Snapshot,
    What,
)
from penstock.archive.files import DataName, parse_data_name


class Contradiction(Exception):
    """Internal: an entry does not fit those before it."""


@dataclass(slots=True)
class Part:
    """A partition in the archive; `end` is exclusive. Chunks in order of offsets."""

    start: int
    end: int
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Ranges within it whose records were gone before they were copied."""
        return [
            (chunk.gap_start, chunk.start)
            for chunk in self.chunks
            if self.start <= chunk.gap_start < chunk.start
        ]


@dataclass(slots=True, kw_only=True)
class Manifest:
    """The state of an archive."""

    archive_id: str = ""
    topic: str = ""
    topic_id: str = ""
    keep_ms: int = 0
    parts: dict[int, Part] = field(default_factory=dict)

    def apply(self, what: What) -> None:
        """Take an entry in. Raises Contradiction."""
        match what:
            case Began():
                self._begin(what)
            case Added():
                for chunk in what.chunks:
                    self._add(chunk)
            case Pruned():
                for partition, start in what.starts:
                    self._prune(partition, start)

    def names(self) -> set[str]:
        """Return the names of all files that count."""
        return {
            file.name
            for part in self.parts.values()
            for chunk in part.chunks
            for file in chunk.files
        }

    def chunks(self) -> list[Chunk]:
        """Return all chunks, by partition and offset."""
        return [chunk for number in sorted(self.parts) for chunk in self.parts[number].chunks]

    def _begin(self, what: Began) -> None:
        if what.format != FORMAT:
            raise Contradiction(f"it is of format {what.format}, known is {FORMAT}")
        if not self.archive_id:
            self.archive_id, self.topic = what.run, what.topic
        if what.topic != self.topic or (self.topic_id and what.topic_id != self.topic_id):
            raise Contradiction("it is of another topic")
        self.topic_id, self.keep_ms = what.topic_id, what.keep_ms

    def _add(self, chunk: Chunk) -> None:
        part = self.parts.get(chunk.partition)
        if part is None:
            part = Part(chunk.start, chunk.start)
        where = f"offsets {chunk.start} to {chunk.end} of partition {chunk.partition}"
        if chunk.gap_start != part.end or not part.end <= chunk.start < chunk.end:
            raise Contradiction(f"{where} do not follow those before, which end at {part.end}")
        for file in chunk.files:
            _check_file(file, chunk, where)
        part.chunks.append(chunk)
        part.end = chunk.end
        self.parts[chunk.partition] = part

    def _prune(self, partition: int, start: int) -> None:
        part = self.parts.get(partition)
        if part is None or not part.start <= start <= part.end:
            raise Contradiction(f"partition {partition} does not have the offset {start}")
        kept = [chunk for chunk in part.chunks if chunk.end > start]
        if kept and kept[0].start < start:
            raise Contradiction(f"offset {start} of partition {partition} is within a chunk")
        part.start, part.chunks = start, kept


def _check_file(file: ArchivedFile, chunk: Chunk, where: str) -> None:
    named = DataName(chunk.partition, chunk.start, chunk.end)
    if parse_data_name(file.name) != named:
        raise Contradiction(f"{file.name} is no file of {where}")
    if not chunk.start <= file.first_offset <= file.last_offset < chunk.end:
        raise Contradiction(f"{file.name} has offsets beside {where}")


def to_snapshot(manifest: Manifest, number: int, entry: str) -> Snapshot:
    """Return the manifest after entry `number`, to be written down."""
    return Snapshot(
        number=number,
        entry=entry,
        archive_id=manifest.archive_id,
        topic=manifest.topic,
        topic_id=manifest.topic_id,
        keep_ms=manifest.keep_ms,
        partitions=tuple(
            PartitionState(partition=one, start=part.start, end=part.end, chunks=tuple(part.chunks))
            for one, part in sorted(manifest.parts.items())
        ),
    )


def of_snapshot(snapshot: Snapshot) -> Manifest:
    """Return the manifest that was written down."""
    return Manifest(
        archive_id=snapshot.archive_id,
        topic=snapshot.topic,
        topic_id=snapshot.topic_id,
        keep_ms=snapshot.keep_ms,
        parts={
            one.partition: Part(one.start, one.end, list(one.chunks)) for one in snapshot.partitions
        },
    )
