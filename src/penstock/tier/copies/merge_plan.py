"""Which small runs of a partition become one, and when.

    runs     [ large )[ small )[ small )[ small )[ large )[ small )[ small ) ...
             so many bytes in a row, or so many runs of one generation that are old ─► one run

A run that fills half an object is large, and stays as it is. Small ones are merged when as many
follow each other as an object takes; else when there are enough of one generation, the oldest of
them old enough. So a partition that gets little has few runs of each generation, and each byte is
written again once for each generation: eight runs of one day are one, eight of those are one again.

No merged run goes on across the local start: disks are freed up to the end of a run, and only so it
is known that the tier goes on below (retention.py). It rises, though: what ends there goes on then.

Source: docs/requirements.md T-1; docs/adr/0176. LSM trees that merge sorted runs by size, with the
generation for a level.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import NamedTuple, Protocol

from penstock.base.ids import TopicPartition
from penstock.tier.copies.effects import MergePlan, Replacement
from penstock.tier.metadata.manifest import Manifest, Run

RUNS_MAX = 500
"""That become one: each is a small read at least, and a row that goes."""
PLAN_RUNS_MAX = 1000
"""That one object takes the place of: they go from the metadata by one commit."""
LOOKED_AT_MAX = 2000
"""Runs that are looked at for one plan: some ms. The others come next time."""
PARTITIONS_MAX = 500
"""Of which the same is true."""
NEVER = 1 << 62


class MergeRules(NamedTuple):
    """What is merged."""

    object_bytes: int
    """Of batches in a merged object, at most; half of it is not small any more."""
    age_ms: int
    """Of the oldest of small runs, from which on their number alone decides."""
    runs_min: int
    """Of one generation, that are merged then."""


class Mergers(Protocol):
    """Tells a copier what is to be merged."""

    def plan(self, manifests: Mapping[TopicPartition, Manifest]) -> MergePlan:
        """Return the next object's; nothing: there is none now."""


class Bounds(NamedTuple):
    """What there is to know of partitions besides their runs."""

    local_start: Callable[[TopicPartition], int | None]
    """Where the master's log begins; None: nothing of the partition is to be merged."""
    now_ms: Callable[[], int]
    """The time of day, as retention has it."""
    has_room: Callable[[], bool] = lambda: True
    """Whether a merge would begin at once."""


class _Seen(NamedTuple):
    """What a partition was when nothing was found in it."""

    last_event_id: int
    local_start: int
    ripe_ms: int
    """When time alone may change that."""


class MergePlanner:
    """Implements Mergers for one mastership. Looks at what has changed, a part at a time."""

    def __init__(self, rules: MergeRules, bounds: Bounds) -> None:
        self._rules = rules
        self._bounds = bounds
        self._queue: deque[TopicPartition] = deque()
        self._seen: dict[TopicPartition, _Seen] = {}
        self._settled: dict[TopicPartition, Run] = {}
        """Before these runs there is nothing to be merged, as long as they are there."""
        self._put_off: dict[TopicPartition, int] = {}
        self._paused_until_ms = 0

    def put_off(self, key: TopicPartition, ms: int) -> None:
        """Leave a partition out for a time."""
        self._put_off[key] = self._bounds.now_ms() + ms

    def pause(self, ms: int) -> None:
        """Plan nothing for a time."""
        self._paused_until_ms = self._bounds.now_ms() + ms

    def plan(self, manifests: Mapping[TopicPartition, Manifest]) -> MergePlan:
        """As in Mergers."""
        if self._bounds.now_ms() < self._paused_until_ms or not self._bounds.has_room():
            return ()
        if not self._queue:
            self._queue.extend(manifests)
        found: list[Replacement] = []
        runs_left, bytes_left, looked_at = PLAN_RUNS_MAX, self._rules.object_bytes, 0
        for _ in range(min(PARTITIONS_MAX, len(self._queue))):
            manifest = manifests.get(self._queue[0])
            count, one = (0, None) if manifest is None else self._look(self._queue[0], manifest)
            looked_at += count
            if one is not None:
                runs_left, bytes_left = runs_left - len(one.runs), bytes_left - one.batch_bytes
                if found and (runs_left < 0 or bytes_left < 0):
                    break
                found.append(one)
            self._queue.popleft()
            if looked_at >= LOOKED_AT_MAX:
                break
        return tuple(sorted(found, key=lambda one: one.part))

    def _look(self, key: TopicPartition, manifest: Manifest) -> tuple[int, Replacement | None]:
        """Return how many runs were looked at, and what was found."""
        now_ms, local_start = self._bounds.now_ms(), self._bounds.local_start(key)
        if local_start is None or now_ms < self._put_off.get(key, 0):
            return 0, None
        seen = self._seen.get(key)
        is_same = seen is not None and seen[:2] == (manifest.last_event_id, local_start)
        if seen is not None and is_same and now_ms < seen.ripe_ms:
            return 0, None
        runs = list(islice(manifest.runs_from(self._begin(key, manifest)), LOOKED_AT_MAX))
        large_bytes = self._rules.object_bytes // 2
        rows = list(_rows(runs, local_start, large_bytes))
        is_all = len(runs) < LOOKED_AT_MAX
        open_rows, ripe_ms = _open(runs, rows, local_start if is_all else NEVER, large_bytes), NEVER
        for row in reversed(rows):  # what stands first is found last
            found, row_ripe_ms = self._find(row, now_ms)
            if found is not None:
                return len(runs), found
            if row_ripe_ms < NEVER:
                open_rows, ripe_ms = [*open_rows, row[0]], min(ripe_ms, row_ripe_ms)
        if open_rows:
            self._settled[key] = min(open_rows, key=lambda run: run.first_offset)
        if is_all or ripe_ms < NEVER:
            self._seen[key] = _Seen(manifest.last_event_id, local_start, ripe_ms)
        return len(runs), None

    def _begin(self, key: TopicPartition, manifest: Manifest) -> int:
        """Return where to go on: at the beginning, if it was cut or merged since."""
        settled = self._settled.get(key)
        if settled is None or manifest.run_from(settled.first_offset) != settled:
            return 0
        return settled.first_offset

    def _find(self, row: Sequence[Run], now_ms: int) -> tuple[Replacement | None, int]:
        """Return the first runs of a row that are to be one; else when there may be some."""
        full = _full(row, self._rules.object_bytes)
        if full:
            return Replacement(tuple(full)), 0
        ripe_ms = NEVER
        for _, group in groupby(row, key=lambda run: run.entry.generation):
            equals = tuple(group)
            if len(equals) < self._rules.runs_min:
                continue
            old_ms = equals[0].entry.first_timestamp + self._rules.age_ms
            if old_ms <= now_ms:
                return Replacement(equals), 0
            ripe_ms = min(ripe_ms, old_ms)
        return None, ripe_ms


def _rows(runs: Iterable[Run], local_start: int, large_bytes: int) -> Iterator[list[Run]]:
    """Yield small runs that follow each other, none of them on both sides of the local start."""
    row: list[Run] = []
    for run in runs:
        is_small = run.entry.batch_bytes < large_bytes
        is_across = run.first_offset < local_start < run.end_offset
        if row and (run.first_offset == local_start or not is_small or is_across):
            yield row
            row = []
        if is_small and not is_across:
            row.append(run)
    if row:
        yield row


def _full(row: Sequence[Run], object_bytes: int) -> Sequence[Run]:
    """Return the first runs of a row if they are as many as an object takes; else none."""
    size = 0
    for at, run in enumerate(row):
        size += run.entry.batch_bytes
        if size > object_bytes or at == RUNS_MAX:
            return row[:at]
    return ()


def _open(
    runs: Sequence[Run], rows: Sequence[Sequence[Run]], local_start: int, large_bytes: int
) -> list[Run]:
    """Return where small runs begin which may be more next time.

    These are those at the end, and those that end at the local start: as it rises, small ones
    behind it follow them.
    """
    if not runs:
        return []
    at_end = rows[-1][0] if rows and rows[-1][-1] is runs[-1] else runs[-1]
    split = next((run for run in runs if run.end_offset > local_start), None)
    if split is None or split.entry.batch_bytes >= large_bytes:
        return [at_end]
    across = [split] if split.first_offset < local_start else []
    below = [row[0] for row in rows if row[-1].end_offset == split.first_offset]
    return [at_end, *across, *below]
