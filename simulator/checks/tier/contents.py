"""Check: each run of the tier has the batches of the log from its first offset to its end.

    run ─► read from the store as it lies there ─► batch after batch, none missing, none twice
    offset that was copied before ─► the same bytes        what is confirmed never changes
    run in place of others ─► tells of the same aborted transactions, and as far as they are decided

At the end of a run of the simulator the batches are compared with those of the log.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.extents.layout import Notes
from penstock.record.batch import read_header
from penstock.tier.errors import TierError
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.names import ObjectName
from penstock.tier.read.reader import TierReader
from simulator.kernel.distant_store import SharedStore, at_once
from simulator.kernel.object_store import ModelledStore

READ_BYTES = 1 << 20


class Batch(NamedTuple):
    """A batch as the tier has it."""

    end_offset: int
    """Exclusive."""
    digest: bytes


class TierContents:
    """See the module. `batches` has all that was ever copied, by base offset."""

    def __init__(self, store: SharedStore) -> None:
        self._store = store
        self.batches: dict[TopicPartition, dict[int, Batch]] = {}
        self._notes: dict[tuple[ObjectName, int], Notes] = {}
        """What runs tell, as long as their objects were there."""

    def take(self, run: Run) -> Iterator[str]:
        """Read a run; name what is wrong with it. An object with a flipped bit waits its turn."""
        if str(run.name) in self._store.damaged:
            return
        known = self.batches.setdefault(run.entry.topic_partition, {})
        expected, where = run.first_offset, f"{run.name}, {text_of(run.entry.topic_partition)}"
        try:
            for base, batch in self._batches(run):
                if base != expected:
                    yield f"{where}: offset {expected} is followed by {base}"
                if known.setdefault(base, batch) != batch:
                    yield f"{where}: offset {base} has other bytes than before"
                expected = batch.end_offset
            reader = TierReader(ModelledStore(self._store.bucket))
            self._notes[run.name, run.entry.summary_at] = at_once(reader.notes(run))
        except TierError as error:
            yield f"{where}: {error}"
            return
        if expected != run.end_offset:
            yield f"{where}: it ends at {expected}, and was committed to {run.end_offset}"

    def replaced(self, old: Sequence[Run], new: Sequence[Run]) -> Iterator[str]:
        """Name what runs tell of transactions that those in whose place they are do not, or do."""
        before, after = self._told(old), self._told(new)
        if before is not None and after is not None and before != after:
            yield f"{new[0].name} tells of transactions {after}, and before that was {before}"

    def _told(self, runs: Sequence[Run]) -> tuple[list[tuple[int, ...]], int] | None:
        """Return what was aborted and up to where it is decided; None: a run was not read."""
        rows: list[tuple[int, ...]] = []
        decided_end = 0
        for run in runs:
            notes = self._notes.get((run.name, run.entry.summary_at))
            if notes is None:
                return None
            every = zip(*notes.aborted, strict=True)
            rows += [row for row in every if row[2] < run.end_offset]
            if run.end_offset == run.entry.end_offset:
                decided_end = max(decided_end, notes.decided_end)
        return rows, decided_end

    def _batches(self, run: Run) -> Iterator[tuple[int, Batch]]:
        key, offset = run.entry.topic_partition, run.first_offset
        reader = TierReader(ModelledStore(self._store.bucket))
        manifest = Manifest(Snapshot(1, run.first_offset, run.end_offset, (run,)))
        while offset < run.end_offset:
            found = at_once(reader.read(manifest, key, offset, READ_BYTES))
            for data in found.batches:
                header = read_header(data)
                yield header.base_offset, Batch(header.last_offset + 1, _digest(data))
            offset = found.next_offset

    def differences(
        self, key: TopicPartition, log: Iterable[memoryview], log_start: int
    ) -> Iterator[str]:
        """Name what was copied of a partition and is not so in its log, from its start on."""
        there = dict(_of_log(log))
        for base, batch in sorted(self.batches.get(key, {}).items()):
            if batch.end_offset > log_start and there.get(base) != batch:
                what = "is not there" if base not in there else "has other bytes"
                yield f"{text_of(key)}: offset {base} was copied, and {what} in the log"


def problems_of(key: TopicPartition, snapshot: Snapshot) -> Iterator[str]:
    """Name what is wrong with the runs of a partition in themselves."""
    runs, where = snapshot.runs, f"the tier has {text_of(key)}"
    if not runs:
        return
    if not runs[0].first_offset <= snapshot.start_offset <= runs[0].end_offset:
        yield f"{where} from {snapshot.start_offset}, and its runs from {runs[0].first_offset}"
    if runs[-1].end_offset != snapshot.end_offset:
        yield f"{where} to {snapshot.end_offset}, and its runs to {runs[-1].end_offset}"
    for one, other in pairwise(runs):
        if one.end_offset != other.first_offset:
            yield f"{where}: a gap from {one.end_offset} to {other.first_offset}"


def _of_log(log: Iterable[memoryview]) -> Iterator[tuple[int, Batch]]:
    for data in log:
        header = read_header(data)
        yield header.base_offset, Batch(header.last_offset + 1, _digest(data))


def _digest(data: memoryview) -> bytes:
    return blake2b(data, digest_size=16).digest()


def text_of(key: TopicPartition) -> str:
    """Name a partition."""
    return f"partition {key.partition} of topic {bytes(key.topic_id).hex()}"
