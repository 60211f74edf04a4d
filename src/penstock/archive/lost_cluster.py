"""A topic whose cluster is gone, read from the objects that it has left in its store.

    objects ─► runs of each partition (tier/read/rebuild.py) ─► pieces without a gap
       ─► up to where each is decided (tier/read/settled.py) ─► rows

Objects know topics by their ids, and not by their names: who recovers one says which it is. They
have what was confirmed, up to the last object that was put; what the brokers alone had is not in
them. Of a piece only that counts up to where its transactions are decided: what an open one may
have written behind that, and what others wrote there, is left out, and told.

Where objects are missing or damaged, what lies on both sides of them is there, and the range
between is gone.

Source: docs/adr/0178; docs/formats/tier.md.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from penstock.archive.chunks import COLUMNS
from penstock.archive.errors import NotInStore
from penstock.archive.source import Span
from penstock.base.ids import TopicPartition
from penstock.record.committed import Aborted
from penstock.spark.ranges import OffsetRange
from penstock.spark.reading import OnCorrupt, read_history
from penstock.spark.tier.reading import TierRun, tier_runs
from penstock.spark.tier.store import call
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import parse_name
from penstock.tier.port import ObjectStore
from penstock.tier.read.reader import TierReader
from penstock.tier.read.rebuild import rebuild
from penstock.tier.read.settled import AbortedRange, Settled, settle

NAMED_MAX = 20
"""Ids that a message lists."""


@dataclass(slots=True)
class Lost:
    """What the objects of a cluster have."""

    cluster_id: bytes
    runs: dict[TopicPartition, list[Run]]
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Objects of which nothing is used, and why."""

    def topics(self) -> list[UUID]:
        """Return the ids of all topics that they have records of."""
        return sorted({UUID(bytes=key.topic_id) for key, runs in self.runs.items() if runs})


async def look_through(store: ObjectStore, cluster: UUID | None) -> Lost:
    """Return what the store has of a cluster; None: of the only one that it has objects of.

    Reads the summaries of all objects, and no records. Raises NotInStore, StoreError.
    """
    found: set[bytes] = set()
    async for page in store.pages("" if cluster is None else cluster.hex):
        found |= {name.cluster_id for stat in page if (name := parse_name(stat.name)) is not None}
    if len(found) != 1:
        raise _which_cluster(sorted(found), cluster)
    (cluster_id,) = found
    rebuilt = await rebuild(store, cluster_id, TierTimes(), time.time_ns() // 1_000_000)
    return Lost(cluster_id, rebuilt.runs, rebuilt.refused)


class StoreSource:
    """A topic of a lost cluster."""

    def __init__(self, store: ObjectStore, lost: Lost, topic_id: UUID) -> None:
        """Raises NotInStore."""
        self._reader = TierReader(store)
        self._topic_id = topic_id
        self._manifests = {
            key.partition: [_manifest(piece) for piece in _pieces(runs)]
            for key, runs in sorted(lost.runs.items())
            if key.topic_id == topic_id.bytes and runs
        }
        if not self._manifests:
            raise _which_topic(lost, topic_id)
        self._pieces: dict[int, list[_Piece]] = {}

    def topic_id(self) -> str:
        """Return the id, as brokers told it."""
        return str(self._topic_id)

    def spans(self) -> Mapping[int, Sequence[Span]]:
        """Return one for each piece, up to where it is decided. Raises TierError, StoreError."""
        if not self._pieces:
            self._pieces = {
                number: [_Piece(one, call(settle(self._reader, one))) for one in manifests]
                for number, manifests in self._manifests.items()
            }
        return {
            number: [(one.manifest.start_offset, one.settled.end_offset) for one in pieces]
            for number, pieces in self._pieces.items()
        }

    def undecided(self) -> int:
        """Return how many offsets of the pieces are left out, since nobody knows if they count."""
        self.spans()
        return sum(
            one.manifest.end_offset - one.settled.end_offset
            for pieces in self._pieces.values()
            for one in pieces
        )

    def rows(self, wanted: OffsetRange, on_corrupt: OnCorrupt | None) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range within one span. Raises TierError, StoreError."""
        (piece,) = (
            one
            for one in self._pieces[wanted.partition]
            if one.manifest.start_offset <= wanted.start < one.settled.end_offset
        )
        runs = tier_runs(
            self._reader,
            piece.manifest,
            (wanted.start, wanted.end),
            until_ms=None,
            is_committed_only=False,
        )
        told = _with_aborted(runs, piece.settled.aborted)
        return read_history(wanted, COLUMNS, told, on_corrupt)


class _Piece(NamedTuple):
    """Runs without a gap, and which of their transactions count."""

    manifest: Manifest
    settled: Settled


def _with_aborted(runs: Iterable[TierRun], aborted: Sequence[AbortedRange]) -> Iterator[TierRun]:
    """Yield runs in their order, each with the aborted transactions that touch it."""
    coming = deque(aborted)
    touching: list[AbortedRange] = []
    for run in runs:
        while coming and coming[0].first_offset < run.end:
            touching.append(coming.popleft())
        touching = [one for one in touching if one.marker_offset >= run.offset]
        gone = tuple(Aborted(one.first_offset, one.producer_id) for one in touching)
        yield run._replace(aborted=gone)


def _pieces(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """Yield runs that follow each other without a gap."""
    piece: list[Run] = []
    for run in runs:
        if piece and piece[-1].end_offset < run.first_offset:
            yield piece
            piece = []
        piece.append(run)
    yield piece


def _manifest(runs: Sequence[Run]) -> Manifest:
    return Manifest(Snapshot(0, runs[0].first_offset, runs[-1].end_offset, tuple(runs)))


def _which_cluster(found: Sequence[bytes], wanted: UUID | None) -> NotInStore:
    if wanted is not None:
        return NotInStore(f"the store has no object of a cluster {wanted.hex}")
    if not found:
        return NotInStore("the store has no objects: see tier.url, and its prefix")
    return NotInStore(
        f"the store has objects of {len(found)} clusters: say --cluster with one of"
        f" {_listed([one.hex() for one in found])}"
    )


def _which_topic(lost: Lost, wanted: UUID) -> NotInStore:
    topics = [str(one) for one in lost.topics()]
    if not topics:
        return NotInStore("the objects of this cluster have no records")
    return NotInStore(
        f"no object has records of a topic with the id {wanted}: there are {_listed(topics)}"
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
