"""Takes the rows of the audit to its internal topic, without blocking the loop.

    fold over ─► rows wait, up to WAITING_MAX; what is beyond is counted as dropped
    each tick ─► at most ROWS_TOGETHER as a batch to a partition led here ─► confirmed
    denial    ─► of the first DENIALS_MAX of a fold a row at once; all others are folded
    permitted ─► folded
    stop      ─► the fold ends; what waits is written while partitions are still led here

One batch is under way at a time. A batch that was not confirmed is written again, so that rows may
be there twice: the record's key names the row (docs/formats/audit.md). A node that leads no
partition of the topic waits until it does. What was folded or waits is lost with a process that is
killed.

Source: row K-58 of the specification (denied always, permitted on request); bounds are ours.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.audit.compiled import Counts
from penstock.audit.fold import Fold
from penstock.audit.row import ALLOWED, DENIED, TEXT_KEPT_MAX, RowKey, Who, encode_row
from penstock.coordinator.unwritten import Unwritten
from penstock.replica.replica_set import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from penstock.broker.access import Operation, Requester, Resource
    from penstock.broker.broker import Broker
    from penstock.broker.coordinators.internal_topic import InternalTopic
    from penstock.broker.coordinators.journal import InternalTopicJournal

WAITING_MAX: Final = 30_000
"""Rows that wait to be written: three full folds."""
ROWS_TOGETHER: Final = 200
"""Rows of a batch: two milliseconds of the loop."""
BATCH_BYTES: Final = 48 << 10
"""Of keys and values of a batch with more than one row."""
DENIALS_MAX: Final = 100
"""Denials of a fold that are rows at once."""


class _Waiting(NamedTuple):
    number: int
    began_ms: int
    ended_ms: int
    key: RowKey
    counts: Counts


class AuditLog:
    """See the module; one for each node where the audit is on."""

    def __init__(
        self,
        broker: Broker,
        journal: InternalTopicJournal,
        topic: InternalTopic,
        spawn: Callable[[str, Coroutine[Any, Any, None]], None],
    ) -> None:
        """`spawn(name, coroutine)` runs the creation of the topic under supervision."""
        self._broker, self._journal, self._topic, self._spawn = broker, journal, topic, spawn
        self._began_ms = broker.clock.wall_ms()
        self.fold = Fold(self._began_ms, broker.config.audit_fold_ms)
        """Where requests are counted."""
        self._waiting: deque[_Waiting] = deque()
        self._number = self._denials = self._turn = 0
        self._is_creating = self._is_writing = False
        self.written = 0
        """Rows confirmed since the start."""
        self.dropped = 0
        """Rows that found no room since the start."""

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""
        return self._topic.exists and len(self) > 0 and self._next_led() is None

    def expire(self, now_ms: int) -> None:
        """Take what a fold that is over has left, and write some of what waits."""
        del now_ms
        if self.fold.is_over(self._broker.clock.wall_ms()):
            self._take()
        self._write()

    def end(self) -> None:
        """Take what the present fold has, as the process stops; each tick writes some of it.

        Once `len` is 0, all of it is confirmed.
        """
        self._take()
        self._write()

    def _take(self) -> None:
        began_ms, ended_ms, rows = self.fold.take(self._broker.clock.wall_ms())
        self._denials = 0
        for key, counts in rows.items():
            self._wait(began_ms, ended_ms, key, counts)

    def denied(self, who: Requester, operation: Operation, resource: Resource, name: str) -> None:
        """Take a denial: a row at once, or one more in the row of this fold."""
        key = _decision(DENIED, who, operation, resource, name)
        if self._denials >= DENIALS_MAX:
            self.fold.row(key).errors += 1
            return
        self._denials += 1
        counts = Counts()
        counts.errors = 1
        self._wait(self.fold.began_ms, self.fold.ends_ms, key, counts)
        self._write()

    def allowed(self, who: Requester, operation: Operation, resource: Resource, name: str) -> None:
        """Count that a client used a permission, in the row of this fold."""
        self.fold.row(_decision(ALLOWED, who, operation, resource, name)).requests += 1

    def _wait(self, began_ms: int, ended_ms: int, key: RowKey, counts: Counts) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.dropped += 1
            return
        self._waiting.append(_Waiting(self._number, began_ms, ended_ms, key, counts))
        self._number += 1

    def _write(self) -> None:
        """Write what waits longest, unless a batch is under way."""
        if not self._waiting or self._is_writing:
            return
        if not self._topic.exists:
            if not self._is_creating:
                self._is_creating = True
                self._spawn("audit topic", self._create())
            return
        partition = self._next_led()
        if partition is None:
            return
        records = self._first_records()
        self._is_writing = True

        def done(error: Unwritten | None) -> None:
            if error is Unwritten.LATE:
                return
            self._is_writing = False
            if error is None:
                self.written += len(records)
                for _ in records:
                    self._waiting.popleft()

        self._journal.append(partition, records, done)

    def _first_records(self) -> list[tuple[bytes, bytes]]:
        """Return the records of the rows that wait longest: one at least, and a batch at most."""
        node, size = self._broker.broker_id, 0
        records: list[tuple[bytes, bytes]] = []
        for number, began_ms, ended_ms, key, counts in islice(self._waiting, ROWS_TOGETHER):
            name = f"{node}:{self._began_ms}:{number}".encode()
            row = encode_row(node, began_ms, ended_ms, key, counts)
            size += len(name) + len(row)
            if records and size > BATCH_BYTES:
                break
            records.append((name, row))
        return records

    def _next_led(self) -> int | None:
        """Return a partition that is led here, another one each time; None if there is none."""
        hosted = self._journal.partitions
        for _ in hosted:
            self._turn = (self._turn + 1) % len(hosted)
            found = hosted[self._turn]
            if found is not None and found.topic.internal and found.member.role is Role.MASTER:
                return self._turn
        return None

    async def _create(self) -> None:
        try:
            await self._topic.ensure()
        finally:
            self._is_creating = False


def _decision(
    word: str, who: Requester, operation: Operation, resource: Resource, name: str
) -> RowKey:
    """Return the key of decisions of a kind; the name of the resource stands for the topic."""
    what = f"{word} {operation.name.lower()} {resource.name.lower()}"
    return RowKey(_who(who), what, name[:TEXT_KEPT_MAX])


def _who(who: Requester) -> Who:
    client_id = getattr(who, "client_id", None) or ""
    name, version = getattr(who, "software", ("", ""))
    return Who(who.principal[:TEXT_KEPT_MAX], client_id[:TEXT_KEPT_MAX], name, version, who.host)
