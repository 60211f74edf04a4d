"""A leader that tells what a modelled store has, and what a task reads of it."""

import itertools
from collections.abc import Sequence

from penstock.base.ids import CoordinatorEpoch
from penstock.client.tier import NOT_THERE, StorePlace, TierPart
from penstock.protocol.own_fields import TierState
from penstock.record.batch import TRANSACTIONAL, stamp
from penstock.record.build import Record, build_batch
from penstock.record.committed import committed_pieces
from penstock.record.marker import Marker, build_marker
from penstock.record.read import iter_batches, iter_records
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.tier.options import TierOptions
from penstock.spark.tier.piece import Planned
from penstock.spark.tier.plan import TierPlanner
from penstock.spark.tier.reading import History, TierRun
from penstock.tier.metadata.manifest import Manifest
from simulator.kernel.object_store import Bucket
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put

TOPIC, ONE = "t", key(1, 0)
NAME = PartitionName(TOPIC, 0)
LEASE_MS = 60_000
_numbers = itertools.count()


class Leader:
    """Tells of one partition as a master does, a few runs at a time."""

    timeout_seconds = 0.0

    def __init__(self, manifest: Manifest, *, page: int = 2, lease_ms: int = LEASE_MS) -> None:
        self.manifest = manifest
        self.lease_ms = lease_ms
        self.state = TierState.KNOWN
        self.asked: list[int] = []
        self.place = StorePlace(f"s3://of-test-{next(_numbers)}", "", "")
        self._page = page

    def tier_part(self, of: PartitionName, offset: int) -> TierPart:
        assert of == NAME
        self.asked.append(offset)
        if self.state is not TierState.KNOWN:
            return NOT_THERE._replace(state=self.state)
        start, end = self.manifest.start_offset, self.manifest.end_offset
        runs = itertools.islice(self.manifest.runs_from(max(start, offset)), self._page)
        return TierPart(self.state, self.place, self.lease_ms, start, end, tuple(runs))


def objects(bucket: Bucket, parts: Sequence[Part]) -> Manifest:
    """Put an object for each part; return the manifest of all."""
    runs = [run for at, part in enumerate(parts, 1) for run in put(bucket, name(at), [part])]
    return manifest_of(runs, ONE)


def plain(*offsets: int, size: int = 9) -> Part:
    return Part(ONE, [batch(at, size=size) for at in offsets])


def planner(*, use: str = "required", is_committed_only: bool = True) -> TierPlanner:
    options = TierOptions(use=use)
    return TierPlanner(options, is_committed_only=is_committed_only, timeout_seconds=0.0)


def planned(leader: Leader, start: int, end: int, *, cut: bool = True) -> list[Planned]:
    return planner().plan(leader, [OffsetRange(TOPIC, 0, start, end)], cut=cut)


def history(leader: Leader, use: str = "required", *, is_committed_only: bool = True) -> History:
    return History(leader, TierOptions(use=use), is_committed_only=is_committed_only)


def offsets_of(runs: Sequence[TierRun]) -> list[int]:
    """Return the offsets of the records that are rows: as `read_range` takes them."""
    return [
        record.offset
        for run in runs
        for piece in committed_pieces(run.data, run.aborted)
        for header, one in iter_batches(piece)
        if not header.is_control
        for record in iter_records(one)
        if run.offset <= record.offset < run.end
    ]


def rows(leader: Leader, parts: Sequence[Planned], *, is_committed_only: bool = True) -> list[int]:
    reading = history(leader, is_committed_only=is_committed_only)
    return [at for part in parts for at in offsets_of(list(reading.runs(part)))]


def transactional(base_offset: int, producer_id: int) -> bytes:
    record = [Record(None, b"v", (), 1)]
    own = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    return placed(build_batch(record, producer_id=producer_id, **own), base_offset)


def marker(base_offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    told = Marker(is_commit, CoordinatorEpoch(0), base_offset)
    built = build_marker(told, producer_id=producer_id, producer_epoch=0, timestamp_ms=1)
    return placed(built, base_offset)


def placed(built: bytes, base_offset: int) -> bytes:
    made = bytearray(built)
    stamp(memoryview(made), 0, base_offset=base_offset, leader_epoch=0)
    return bytes(made)
