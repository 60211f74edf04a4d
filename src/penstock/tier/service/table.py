"""The tier's metadata in one internal partition, which runs ahead of its log.

    command ─► applied ─► what it changed, as one batch ─► confirmed ─► answered
                              │ refused: taken back        │ lost: nothing is answered from here
    nothing changed ──────────┴── answered when all that is on its way by then is confirmed

So a command sees all before it, and nobody is told what a failover may undo.

Its time begins with the wall clock, or with what the log says where that is later, and goes on with
the monotonic clock. A wall clock that jumps ends no grace early; when it is set back, or another
master's is right, time does not stand still until it has caught up.

Source: docs/adr/0121, docs/adr/0131; shares run ahead of their log in the same way (ADR 0093).
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from penstock.base.ids import TopicPartition
from penstock.base.ports import Clock
from penstock.coordinator.records import JournalRecord
from penstock.coordinator.unwritten import Unwritten
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.metadata.objects import ObjectRow
from penstock.tier.metadata.state import Before, TierMetadata
from penstock.tier.service import records as r

Told = Callable[[Unwritten | None], None]


class TierTable:
    """The metadata, and who waits for what is on its way to the log."""

    __slots__ = ("_appended", "_confirmed", "_lead_ms", "_waiting", "is_lost", "metadata")

    def __init__(self, metadata: TierMetadata) -> None:
        self.metadata = metadata
        self.is_lost = False
        """Whether it has what the log may not have: the partition is about to be loaded again."""
        self._appended = 0
        self._confirmed = 0
        """Numbers of changes; they are confirmed in their order."""
        self._lead_ms: int | None = None
        """How far the time is ahead of the monotonic clock, from the first command on."""
        self._waiting: deque[tuple[int, Told]] = deque()

    def now_ms(self, clock: Clock) -> int:
        """Return the time of a command; it never goes back, and never stands still."""
        monotonic_ms = clock.monotonic_ms()
        if self._lead_ms is None:
            self._lead_ms = max(clock.wall_ms(), self.metadata.now_ms) - monotonic_ms
        return monotonic_ms + self._lead_ms

    def wait(self, told: Told) -> None:
        """Tell when all that is on its way by now is confirmed; at once if nothing is."""
        if self._confirmed == self._appended:
            told(None)
        else:
            self._waiting.append((self._appended, told))

    def lose(self) -> Iterator[Told]:
        """Answer nothing any more; yield who still waits."""
        self.is_lost = True
        while self._waiting:
            yield self._waiting.popleft()[1]

    def begun(self) -> int:
        """Return the number of a change that was applied."""
        self._appended += 1
        return self._appended

    def confirmed(self, number: int) -> None:
        """Tell whoever waited for no more than this."""
        self._confirmed = max(self._confirmed, number)
        while self._waiting and self._waiting[0][0] <= self._confirmed:
            self._waiting.popleft()[1](None)

    def refused(self, number: int, before: Before) -> None:
        """Take a change back; one that others followed leaves nothing that could be used."""
        if number == self._appended and not self.is_lost:
            self._appended -= 1
            self.metadata.take_back(before)
            return
        for told in self.lose():
            told(Unwritten.OVERTAKEN)


class Applied:
    """A command that was applied, on its way to the log: as Change."""

    __slots__ = ("_before", "_number", "_table", "records")

    def __init__(self, table: TierTable, before: Before) -> None:
        self._table, self._before = table, before
        self._number = 0
        self.records = changed_records(table.metadata, before)

    def begin(self) -> None:
        """As in Change."""
        self._number = self._table.begun()

    def confirm(self) -> None:
        """As in Change."""
        self._table.confirmed(self._number)

    def refuse(self) -> None:
        """As in Change."""
        self._table.refused(self._number, self._before)


def changed_records(metadata: TierMetadata, before: Before) -> list[JournalRecord]:
    """Return the records of all that the last command has changed."""
    found: list[JournalRecord] = [counters_record(metadata)]
    found += [tenure_record(metadata, set_id) for set_id in before.tenures]
    found += object_records(metadata.objects.rows, list(before.rows))
    for one, was in before.manifests.items():
        manifest = metadata.manifest(one)
        found.append(partition_record(one, manifest))
        if manifest.give_ups != (0 if was is None else was.give_ups):
            found += give_ups_records(one, manifest)
        found += _changed_runs(one, () if was is None else was.runs, manifest.runs)
    return found


def _changed_runs(
    one: TopicPartition, old: Sequence[Run], new: Sequence[Run]
) -> Iterator[JournalRecord]:
    """Yield the runs between those that both have at the beginning and at the end."""
    shorter = min(len(old), len(new))
    same = next((at for at in range(shorter) if old[at] is not new[at]), shorter)
    left = shorter - same
    tail = next((at for at in range(left) if old[-1 - at] is not new[-1 - at]), left)
    put = {run.first_offset: run for run in new[same : len(new) - tail]}
    for run in old[same : len(old) - tail]:
        if run.first_offset not in put:
            yield r.run_key(one, run.first_offset), None
    yield from (run_record(one, run) for run in put.values())


def counters_record(metadata: TierMetadata) -> JournalRecord:
    """Return the record of what is counted."""
    counters = r.Counters(metadata.objects.next_id, metadata.now_ms)
    return r.COUNTERS_KEY, r.encode_counters(counters)


def tenure_record(metadata: TierMetadata, set_id: int) -> JournalRecord:
    """Return the record of a set's tenure."""
    return r.tenure_key(set_id), r.encode_tenure(metadata.tenures[set_id])


def object_records(rows: Mapping[int, ObjectRow], ids: Sequence[int]) -> list[JournalRecord]:
    """Return the records of objects; those of them that are gone are tombstones."""
    found: list[JournalRecord] = []
    for object_id in ids:
        row = rows.get(object_id)
        found.append((r.object_key(object_id), None if row is None else r.encode_object(row)))
    return found


def partition_record(one: TopicPartition, manifest: Manifest) -> JournalRecord:
    """Return the record of a partition but for its runs."""
    bounds = r.Bounds(manifest.last_event_id, manifest.start_offset, manifest.end_offset)
    return r.partition_key(one), r.encode_bounds(bounds)


def give_ups_records(one: TopicPartition, manifest: Manifest) -> list[JournalRecord]:
    """Return the record of how often a partition's copies were given up; none: never."""
    if not manifest.give_ups:
        return []
    return [(r.give_ups_key(one), r.encode_give_ups(manifest.give_ups))]


def run_record(one: TopicPartition, run: Run) -> JournalRecord:
    """Return the record of a run."""
    return r.run_key(one, run.first_offset), r.encode_run(run)
