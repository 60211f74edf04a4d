"""The objects that may lie in the store: each has a row from before its upload to its end.

    reserve ─► RESERVED ─ commit ─► LIVE ─ its last run goes ─► DOOMED ─ grace ─► deleted ─► gone
                  └─ a newer tenure, or the deadline ─► ABORTED ─► deleted now,
                                          and again after the deadline and the skew ─► gone

A row goes with a delete that was begun when no put of its object can be under way any more: one
that lands behind the delete would lie there for ever, and nobody would know its name.

Source: docs/adr/0117. Redpanda leaves such orphans (#9072); Kafka lost count of them (KAFKA-16511).
"""

from collections.abc import Mapping
from enum import Enum
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.base.invariant import invariant
from penstock.tier.metadata.noted import Noted
from penstock.tier.metadata.times import TierTimes
from penstock.tier.names import ObjectName

ROUND_OBJECTS_MAX = 8
"""Objects of a set that are under way at once, with ids in a row.

Bounds what is built, and what a crash leaves behind.
"""


class State(Enum):
    """How far an object is."""

    RESERVED = "reserved"
    LIVE = "live"
    DOOMED = "doomed"
    ABORTED = "aborted"


class ObjectRow(NamedTuple):
    """What is known of an object. Times are those of the service, ms."""

    name: ObjectName
    state: State
    deadline_ms: int
    """No put is begun, and none is going on at the writer, from then on."""
    object_bytes: int = 0
    live_runs: int = 0
    due_ms: int = -1
    """When the store is to be told to delete it; -1: not at all."""


class Due(NamedTuple):
    """An object that the store is to delete."""

    name: ObjectName
    due_ms: int


class Objects:
    """The rows, and in which order something is to be done for them."""

    def __init__(self, times: TierTimes, next_id: int = 1) -> None:
        self._times = times
        self.next_id = next_id
        self.rows: Noted[int, ObjectRow] = Noted()
        self._deadlines: list[tuple[int, int]] = []
        self._due: list[tuple[int, int]] = []

    def reserve(self, prototype: ObjectName, count: int, now_ms: int) -> tuple[int, ...]:
        """Return new ids; `prototype` has the rest of their names."""
        ids = tuple(range(self.next_id, self.next_id + count))
        self.next_id += count
        deadline = now_ms + self._times.upload_ms
        for object_id in ids:
            name = prototype._replace(object_id=object_id)
            self.rows[object_id] = ObjectRow(name, State.RESERVED, deadline)
            heappush(self._deadlines, (deadline, object_id))
        return ids

    def is_reserved(self, name: ObjectName) -> bool:
        """Whether an object may be committed under this name."""
        row = self.rows.get(name.object_id)
        return row is not None and row.state is State.RESERVED and row.name == name

    def commit(self, name: ObjectName, object_bytes: int, runs: int) -> None:
        """Make a reserved object live."""
        row = self.rows[name.object_id]
        invariant(row.state is State.RESERVED, "a commit of what is not reserved", row=row)
        invariant(runs > 0, "a live object without a run", row=row)
        self.rows[name.object_id] = row._replace(
            state=State.LIVE, object_bytes=object_bytes, live_runs=runs
        )

    def release(self, object_id: int, now_ms: int) -> None:
        """Take note that a run of a live object is gone: with the last one it is doomed."""
        row = self.rows[object_id]
        invariant(row.live_runs > 0, "a run of an object that has none", row=row)
        row = row._replace(live_runs=row.live_runs - 1)
        self.rows[object_id] = row
        if not row.live_runs:
            due = max(now_ms + self._times.grace_ms, self._quiet_ms(row))
            self._set_due(object_id, row._replace(state=State.DOOMED), due)

    def expire(self, now_ms: int) -> None:
        """Abort what was not committed by its deadline."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            self._abort(heappop(self._deadlines)[1], now_ms)

    def abort_of_set(self, replica_set_id: int, now_ms: int) -> None:
        """Abort what a set has reserved: its tenure ends."""
        for _, object_id in sorted(self._deadlines):
            row = self.rows.get(object_id)
            if row is not None and row.name.replica_set_id == replica_set_id:
                self._abort(object_id, now_ms)

    def adopt(self, name: ObjectName, now_ms: int) -> bool:
        """Give an object a row that lies in the store without one; it is deleted.

        Returns False: another object has its id.
        """
        row = self.rows.get(name.object_id)
        if row is None:
            self.next_id = max(self.next_id, name.object_id + 1)
            self.rows[name.object_id] = ObjectRow(name, State.RESERVED, now_ms)
            self._abort(name.object_id, now_ms)
        return row is None or row.name == name

    def restore(self, row: ObjectRow) -> None:
        """Put in an object that was kept, or whose metadata was lost."""
        self.rows[row.name.object_id] = row
        self.next_id = max(self.next_id, row.name.object_id + 1)
        self._wait_for(row)

    def put_back(self, before: Mapping[int, ObjectRow | None], next_id: int) -> None:
        """Make rows as they were."""
        self.rows.put_back(before)
        self.next_id = next_id
        for row in before.values():
            if row is not None:
                self._wait_for(row)

    def _wait_for(self, row: ObjectRow) -> None:
        """Do again at its times what is to be done for a row."""
        if row.state is State.RESERVED:
            heappush(self._deadlines, (row.deadline_ms, row.name.object_id))
        if row.due_ms >= 0:
            heappush(self._due, (row.due_ms, row.name.object_id))

    def due(self, now_ms: int, count_max: int) -> list[Due]:
        """Return what the store is to delete now, oldest first. The same until it was swept."""
        found: list[tuple[int, int]] = []
        while self._due and self._due[0][0] <= now_ms and len(found) < count_max:
            due_ms, object_id = heappop(self._due)
            row = self.rows.get(object_id)
            is_again = found[-1:] == [(due_ms, object_id)]
            if row is not None and row.due_ms == due_ms and not is_again:
                found.append((due_ms, object_id))
        for one in found:
            heappush(self._due, one)
        return [Due(self.rows[object_id].name, due_ms) for due_ms, object_id in found]

    def swept(self, object_id: int, due_ms: int) -> None:
        """Take note that the store has deleted what was due at `due_ms`."""
        row = self.rows.get(object_id)
        if row is None or row.due_ms != due_ms:
            return
        if due_ms >= self._quiet_ms(row):
            del self.rows[object_id]
        else:
            self._set_due(object_id, row, self._quiet_ms(row))

    def _abort(self, object_id: int, now_ms: int) -> None:
        row = self.rows.get(object_id)
        if row is not None and row.state is State.RESERVED:
            self._set_due(object_id, row._replace(state=State.ABORTED), now_ms)

    def _set_due(self, object_id: int, row: ObjectRow, due_ms: int) -> None:
        self.rows[object_id] = row._replace(due_ms=due_ms)
        heappush(self._due, (due_ms, object_id))

    def _quiet_ms(self, row: ObjectRow) -> int:
        """From when on no put of the object is under way."""
        return row.deadline_ms + self._times.skew_ms
