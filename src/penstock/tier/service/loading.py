"""Builds the tier's metadata of one internal partition from its records.

A record with a known key and a value that this release can not read makes the whole partition
unusable here, until it is written anew: a manifest without one of its runs would be a gap. Records
with unknown keys are kept for rewrites.

Source: docs/adr/0121; Kafka's CoordinatorLoader.
"""

from collections.abc import Generator
from itertools import pairwise

from penstock.base.ids import TopicPartition
from penstock.base.invariant import invariant
from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.plain_loader import PlainLoader
from penstock.coordinator.portions import Steps
from penstock.coordinator.records import UnreadRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import Held, TierMetadata
from penstock.tier.service import records as r
from penstock.tier.service.table import TierTable

TOGETHER = 100
"""Objects, or runs, that are put in at one step: about 10 us."""


class TierLoader(PlainLoader):
    """As Loader; `metadata` is empty, and is what comes to have what the records say."""

    __slots__ = (
        "_bounds",
        "_counters",
        "_give_ups",
        "_metadata",
        "_rows",
        "_runs",
        "_tenures",
        "_unreadable",
    )

    def __init__(self, metadata: TierMetadata, unread: UnreadRecords) -> None:
        super().__init__(unread)
        self._metadata = metadata
        self._unreadable: set[bytes] = set()
        self._counters = r.Counters(metadata.objects.next_id, 0)
        self._tenures: dict[int, Held] = {}
        self._rows: dict[int, ObjectRow] = {}
        self._bounds: dict[TopicPartition, r.Bounds] = {}
        self._runs: dict[TopicPartition, dict[int, Run]] = {}
        self._give_ups: dict[TopicPartition, int] = {}

    def load(self, record: UnreadRecord) -> None:
        """As in Loader."""
        key = record.key or b""
        try:
            what = r.decode_key(key)
        except MalformedRecord:
            self._unread.put(record)
            return
        try:
            self._put(what, record.value)
            self._unreadable.discard(key)
        except MalformedRecord as error:
            self._unreadable.add(key)
            self._unread.leave_in_log(str(error))

    def _put(self, what: r.Key, value: bytes | None) -> None:
        if value is None:
            self._remove(what)
            return
        cluster_id = self._metadata.cluster_id
        match what:
            case r.OfCounters():
                self._counters = r.decode_counters(value)
            case r.OfTenure(set_id):
                self._tenures[set_id] = r.decode_tenure(set_id, value)
            case r.OfObject(object_id):
                self._rows[object_id] = r.decode_object(cluster_id, object_id, value)
            case r.OfPartition(one):
                self._bounds[one] = r.decode_bounds(value)
            case r.OfRun(one, first):
                self._runs.setdefault(one, {})[first] = r.decode_run(cluster_id, value)
            case r.OfGiveUps(one):
                self._give_ups[one] = r.decode_give_ups(value)

    def _remove(self, what: r.Key) -> None:
        match what:
            case r.OfCounters():
                pass
            case r.OfTenure(set_id):
                self._tenures.pop(set_id, None)
            case r.OfObject(object_id):
                self._rows.pop(object_id, None)
            case r.OfPartition(one):
                self._bounds.pop(one, None)
            case r.OfRun(one, first):
                self._runs.get(one, {}).pop(first, None)
            case r.OfGiveUps(one):
                self._give_ups.pop(one, None)

    def make(self) -> Generator[int, None, TierTable]:
        """As in Loader."""
        table = TierTable(self._metadata)
        if self._unreadable:
            table.is_lost = True
            return table
        for held in self._tenures.values():
            self._metadata.restore_tenure(held)
        for number, row in enumerate(self._rows.values()):
            self._metadata.objects.restore(row)
            if number % TOGETHER == 0:
                yield 1
        for one, bounds in self._bounds.items():
            self._metadata.restore(one, self._manifest(one, bounds))
            yield 1 + len(self._runs.get(one, ())) // TOGETHER
        self._metadata.restore_counters(*self._counters)
        return table

    def _manifest(self, one: TopicPartition, bounds: r.Bounds) -> Manifest:
        runs = [run for _, run in sorted(self._runs.get(one, {}).items())]
        for before, after in pairwise(runs):
            end, first = before.end_offset, after.first_offset
            invariant(end == first, "runs with a gap between them", partition=one, end=end)
        return Manifest(Snapshot(*bounds, tuple(runs), self._give_ups.get(one, 0)))

    def discard(self) -> Steps:
        """As in Loader."""
        self._runs.clear()
        self._rows.clear()
        yield 1
