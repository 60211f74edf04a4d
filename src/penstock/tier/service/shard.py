"""The tier's metadata as a shard of the coordinator runtime: loading, unloading, rewrites.

Source: docs/adr/0121; docs/adding.md.
"""

from collections.abc import Callable, Iterator

from penstock.coordinator.pending import Writer
from penstock.coordinator.portions import TO_TELL, Steps
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unread import UnreadRecords
from penstock.coordinator.unwritten import Unwritten
from penstock.coordinator.writes import Change, NoChange
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.service.loading import TOGETHER, TierLoader
from penstock.tier.service.table import (
    TierTable,
    counters_record,
    give_ups_records,
    object_records,
    partition_record,
    run_record,
    tenure_record,
)


class TierShard:
    """The tier's metadata of the sets that are led here; `new` makes one that is empty."""

    __slots__ = ("_new", "by_partition")

    def __init__(self, new: Callable[[], TierMetadata]) -> None:
        self._new = new
        self.by_partition: dict[int, TierTable] = {}

    def new_loader(self, partition: int, unread: UnreadRecords) -> TierLoader:
        """As in Shard."""
        del partition
        return TierLoader(self._new(), unread)

    def show(self, partition: int, state: TierTable) -> None:
        """As in Shard."""
        self.by_partition[partition] = state

    def begin(self, partition: int, state: TierTable) -> Steps:
        """As in Shard: whoever copies begins by itself."""
        del partition, state
        yield 1

    def hide(self, partition: int) -> TierTable | None:
        """As in Shard."""
        return self.by_partition.pop(partition, None)

    def let_go(self, state: TierTable) -> Steps:
        """As in Shard."""
        for told in state.lose():
            told(Unwritten.OVERTAKEN)
            yield TO_TELL

    def live_records(self, partition: int) -> Iterator[list[JournalRecord]]:
        """As in Shard. What is applied is in the log, or on its way there."""
        metadata = self.by_partition[partition].metadata
        tenures = [tenure_record(metadata, set_id) for set_id in metadata.tenures]
        yield [counters_record(metadata), *tenures]
        ids = [*metadata.objects.rows]
        for at in range(0, len(ids), TOGETHER):
            rows = metadata.objects.rows
            yield object_records(rows, [one for one in ids[at : at + TOGETHER] if one in rows])
        for one in metadata.partitions():
            manifest = metadata.manifest(one)
            yield [partition_record(one, manifest), *give_ups_records(one, manifest)]
            firsts = [run.first_offset for run in metadata.manifest(one).runs]
            for at in range(0, len(firsts), TOGETHER):
                runs = _present(metadata.manifest(one), firsts[at : at + TOGETHER])
                yield [run_record(one, run) for run in runs]

    def ending(self, partition: int, writer: Writer, *, is_commit: bool) -> Change:
        """As in Shard: it ends nothing here."""
        del partition, writer, is_commit
        return NoChange()

    def on_due(self, key: int) -> None:
        """As in Shard: nothing is due by itself; whoever copies tells the time."""
        del key


def _present(manifest: Manifest, firsts: list[int]) -> Iterator[Run]:
    """Yield the runs that begin there and have not gone meanwhile."""
    found = map(manifest.run_from, firsts)
    yield from (run for run in found if run is not None)
