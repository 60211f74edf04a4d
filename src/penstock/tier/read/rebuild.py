"""Makes the metadata of a tier anew from the objects in its store, when all of it was lost.

    objects in the order of their ids; each tells its extents
    extent as copied        takes the place of everything at or above its first offset
    extent merged           takes the place of what is in its range; where what an older object has
                            goes on above it, and is of the same epochs, that stays
    extent rewritten        takes the place of what has exactly its range, or fills it

Ids are given in the order of tenures, and a master goes on where the tier ends: so of two objects
with the same offsets the later one is right, and what an older one has above its beginning was
cut or never committed. A merge that was never committed may be larger than the one that was
committed after it, and what both have is the same. What no extent of an object is used of is left
where it is: the next scrub calls it an orphan, and a person decides. The tier may have more than
the log after an unclean election; the next master's cut sees to that.

A gap whose upper side is part of one round of uploads is no loss: these are put side by side, and
committed only behind what is there. What is above it was not committed, or is at most the rest of a
round, which the next master copies again; all that is below it may be years.

Source: docs/adr/0117; the manifest that lists its files again, LevelDB's RepairDB.
"""

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from penstock.base.ids import TopicPartition
from penstock.extents.layout import NOT_CLEANED
from penstock.tier.errors import LyingObject, ObjectNotFound
from penstock.tier.metadata.manifest import Manifest, Run, Snapshot
from penstock.tier.metadata.objects import ROUND_OBJECTS_MAX, ObjectRow, State
from penstock.tier.metadata.state import TierMetadata
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName, parse_name, prefix_of
from penstock.tier.port import ObjectStore
from penstock.tier.read.describe import Described, describe_object

ID_GAP = 1 << 20
"""Ids that are left out: so many may have been reserved whose objects have not landed yet."""


class Gap(NamedTuple):
    """Offsets between objects that no object has: what is below them is not used."""

    topic_partition: TopicPartition
    first_offset: int
    end_offset: int


class Rebuilt(NamedTuple):
    """New metadata, and what a person should know about it."""

    metadata: TierMetadata
    refused: list[tuple[str, str]]
    """Objects that are damaged or contradict others, and why; nothing of them is used."""
    unused: list[ObjectName]
    """Objects of which nothing is used: not any more, or not yet, as their round is not whole."""
    gaps: list[Gap]
    runs: dict[TopicPartition, list[Run]]
    """All that can be read, in the order of offsets: also what a gap keeps out of the metadata."""


async def rebuild(store: ObjectStore, cluster_id: bytes, times: TierTimes, now_ms: int) -> Rebuilt:
    """Return metadata for all objects of a cluster. Reads no batches. Raises StoreError.

    `now_ms` is the time of day: event ids go on from it, above all that were given before.
    """
    lines = _Lines()
    async for page in store.pages(prefix_of(cluster_id)):
        for stat in page:
            name = parse_name(stat.name)
            if name is not None and name.cluster_id == cluster_id:
                await lines.collect(store, name)
    lines.lay()
    metadata = TierMetadata(cluster_id, times)
    used = Counter(run.name for runs in lines.used.values() for run in runs)
    deadline = now_ms + times.upload_ms  # of puts that are under way now
    for name, count in sorted(used.items()):
        size = lines.described[name].envelope.object_bytes
        metadata.objects.restore(ObjectRow(name, State.LIVE, deadline, size, count))
    for key, runs in sorted(lines.used.items()):
        bounds = (runs[0].first_offset, runs[-1].end_offset) if runs else (0, 0)
        metadata.restore(key, Manifest(Snapshot(now_ms, *bounds, tuple(runs))))
    for name in lines.described:
        metadata.restore_epoch(name.replica_set_id, name.leader_epoch)
    newest = max((name.object_id for name in lines.seen), default=0)
    metadata.objects.next_id = newest + ID_GAP
    unused = sorted(lines.described.keys() - used.keys())
    return Rebuilt(metadata, lines.refused, unused, lines.gaps, lines.runs)


class _Lines:
    """Objects, and the runs of each partition as they are laid over each other."""

    def __init__(self) -> None:
        self.seen: list[ObjectName] = []
        self.described: dict[ObjectName, Described] = {}
        self.refused: list[tuple[str, str]] = []
        self.runs: dict[TopicPartition, list[Run]] = {}
        self.used: dict[TopicPartition, list[Run]] = {}
        self.gaps: list[Gap] = []

    async def collect(self, store: ObjectStore, name: ObjectName) -> None:
        """Have an object described, or refused by name."""
        self.seen.append(name)
        try:
            self.described[name] = await describe_object(store, str(name))
        except LyingObject as error:
            self.refused.append((error.name, error.reason))
        except ObjectNotFound:
            pass  # it was deleted since it was listed

    def lay(self) -> None:
        """Lay all extents over each other, the oldest object first."""
        epochs: dict[int, int] = {}
        for name in sorted(self.described, key=lambda one: one.object_id):
            if name.leader_epoch < epochs.get(name.replica_set_id, -1):
                self._refuse(name, "an older object has a newer leader epoch")
                continue
            epochs[name.replica_set_id] = name.leader_epoch
            self._lay_object(name)
        for key in self.runs:
            self.used[key] = self._without_gaps(key, self.runs[key])

    def _lay_object(self, name: ObjectName) -> None:
        described = self.described[name]
        changed: dict[TopicPartition, list[Run]] = {}
        for entry, summary in zip(described.directory.entries, described.summaries, strict=True):
            run = Run(name, entry, tuple(summary.notes.epochs), entry.end_offset)
            key = entry.topic_partition
            runs = changed.get(key, self.runs.get(key, []))
            laid = _over(runs, run) if entry.generation else _behind(runs, run)
            if laid is None:
                self._refuse(name, f"what it has of {key} does not fit what else is there")
                return
            changed[key] = laid
        self.runs.update(changed)

    def _refuse(self, name: ObjectName, reason: str) -> None:
        self.refused.append((str(name), reason))
        del self.described[name]

    def _without_gaps(self, key: TopicPartition, runs: list[Run]) -> list[Run]:
        """Return the runs above the last gap, or below it if a round was under way above."""
        kept = runs
        for at in range(len(runs) - 1, 0, -1):
            end, first = runs[at - 1].end_offset, runs[at].first_offset
            if end >= first:
                continue
            if not self._is_under_way(runs[at - 1 :]):
                self.gaps.append(Gap(key, end, first))
                return kept[at:]
            kept = runs[:at]
        return kept

    def _is_under_way(self, runs: list[Run]) -> bool:
        """Whether all runs but the first may be of one round that lacks an object before them."""
        before, *above = (run.name for run in runs)
        first, last = min(above), max(above)
        if first[:3] != last[:3] or last.object_id - first.object_id >= ROUND_OBJECTS_MAX - 1:
            return False
        between = range(before.object_id + 1, first.object_id)
        refused = (parse_name(name) for name, _ in self.refused)
        return not any(one and one[:2] == first[:2] and one[3] in between for one in refused)


def _behind(runs: list[Run], run: Run) -> list[Run]:
    """Return the runs with one that ends what is at or above its first offset."""
    return [*_below(runs, run.first_offset), run]


def _below(runs: list[Run], offset: int) -> list[Run]:
    kept = [run for run in runs if run.first_offset < offset]
    return [run if run.end_offset <= offset else _cut(run, offset) for run in kept]


def _cut(run: Run, offset: int) -> Run:
    """Return a run as it is up to an offset."""
    epochs = tuple(epoch for epoch in run.epochs if epoch[1] < offset)
    return run._replace(epochs=epochs, end_offset=offset)


def _over(runs: list[Run], run: Run) -> list[Run] | None:
    """Return the runs with a rewritten one in its range; None: it does not fit what is there."""
    above = [one for one in runs if one.first_offset >= run.end_offset]
    inside = [one for one in runs if one not in above and one.end_offset > run.first_offset]
    below = [one for one in runs if one.end_offset <= run.first_offset]
    is_whole = not inside or (
        inside[0].first_offset >= run.first_offset and inside[-1].end_offset <= run.end_offset
    )
    if is_whole:
        return [*below, run, *above]
    if not all(map(_is_as_produced, [*inside, run])):
        return None
    last = inside[-1]
    if last.end_offset > run.end_offset and _agree(last, run):
        if last.first_offset <= run.first_offset:
            return runs
        run, above = _cut(run, last.first_offset), [last, *above]
    return [*below, *_below(inside[:1], run.first_offset), run, *above]


def _is_as_produced(run: Run) -> bool:
    """Whether it has every batch of its range, though it may have been merged."""
    return run.entry.generation == 0 or run.entry.newest_horizon_ms == NOT_CLEANED


def _agree(one: Run, other: Run) -> bool:
    """Whether what both have is of the same leader epochs, so that it is the same."""
    first = max(one.first_offset, other.first_offset)
    end = min(one.end_offset, other.end_offset)
    return _epochs_of(one, first, end) == _epochs_of(other, first, end)


def _epochs_of(run: Run, first: int, end: int) -> list[tuple[int, int]]:
    """Return the epochs of a part of a run, each with its first offset there."""
    begun = [(epoch, max(start, first)) for epoch, start in run.epochs if start < end]
    return [one for one, later in pairwise([*begun, (0, end)]) if later[1] > first]
