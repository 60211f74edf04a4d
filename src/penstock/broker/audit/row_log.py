"""Writes rows to an internal topic of theirs, without blocking the loop.

    wait(row) ─► rows wait, up to a bound; what is beyond is counted as dropped
    write()   ─► at most ROWS_TOGETHER as a batch to a partition led here ─► confirmed

One batch is under way at a time. A batch that was not confirmed is written again, so that rows may
be there twice: the record's key names the row. A node that leads no partition of the topic waits
until it does. What waits is lost with a process that is killed.

Source: docs/requirements.md K-58; bounds are ours.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.coordinator.unwritten import Unwritten
from penstock.replica.replica_set import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from penstock.broker.broker import Broker
    from penstock.broker.coordinators.internal_topic import InternalTopic
    from penstock.broker.coordinators.journal import InternalTopicJournal

R = TypeVar("R")
ROWS_TOGETHER: Final = 200
"""Rows of a batch: two milliseconds of the loop."""
BATCH_BYTES: Final = 48 << 10
"""Of keys and values of a batch with more than one row."""


class RowTopic:
    """Where rows go: the topic, which is made when the first one waits, and its journal."""

    def __init__(
        self,
        journal: InternalTopicJournal,
        topic: InternalTopic,
        spawn: Callable[[str, Coroutine[Any, Any, None]], None],
    ) -> None:
        """`spawn(name, coroutine)` runs the creation of the topic under supervision."""
        self.journal, self._topic, self._spawn = journal, topic, spawn
        self._turn = 0
        self._is_creating = False

    @property
    def exists(self) -> bool:
        """Whether the topic is there."""
        return self._topic.exists

    def create(self) -> None:
        """Begin to make the topic, unless that was begun."""
        if not self._is_creating:
            self._is_creating = True
            self._spawn(f"topic {self.journal.topic}", self._create())

    async def _create(self) -> None:
        try:
            await self._topic.ensure()
        finally:
            self._is_creating = False

    def next_led(self) -> int | None:
        """Return a partition that is led here, another one each time; None if there is none."""
        hosted = self.journal.partitions
        for _ in hosted:
            self._turn = (self._turn + 1) % len(hosted)
            found = hosted[self._turn]
            if found is not None and found.topic.internal and found.member.role is Role.MASTER:
                return self._turn
        return None


class RowLog(Generic[R]):
    """See the module; one for each topic of a node."""

    def __init__(
        self,
        broker: Broker,
        topic: RowTopic,
        encode: Callable[[R], bytes],
        most: int,
        names: Callable[[R], bytes] | None = None,
    ) -> None:
        """`encode` returns the bytes of a row when it is written; `most` rows wait.

        `names` returns names by which the index of messages is to find a row.
        """
        self._names = names
        self._broker, self._topic, self._encode, self._most = broker, topic, encode, most
        self._began_ms = broker.clock.wall_ms()
        self._waiting: deque[tuple[int, R]] = deque()
        self._number = 0
        self._is_writing = False
        self.written = 0
        """Rows confirmed since the start."""
        self.dropped = 0
        """Rows that found no room since the start."""
        self.on_written: Callable[[list[tuple[bytes, bytes]]], None] = _nothing
        """Called with the records of a batch that is confirmed."""

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""
        return self._topic.exists and len(self) > 0 and self._topic.next_led() is None

    def wait(self, *rows: R) -> bool:
        """Take rows; return whether there is room for them: all have it, or none."""
        if len(self._waiting) + len(rows) > self._most:
            self.dropped += len(rows)
            return False
        self._waiting.extend(enumerate(rows, self._number))
        self._number += len(rows)
        return True

    def write(self) -> None:
        """Write what waits longest, unless a batch is under way."""
        if not self._waiting or self._is_writing:
            return
        if not self._topic.exists:
            self._topic.create()
            return
        partition = self._topic.next_led()
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
                self.on_written(records)

        self._topic.journal.append(partition, records, done)

    def _first_records(self) -> list[tuple[bytes, bytes]]:
        """Return the records of the rows that wait longest: one at least, and a batch at most."""
        node, size = self._broker.broker_id, 0
        records: list[tuple[bytes, bytes]] = []
        for number, one in islice(self._waiting, ROWS_TOGETHER):
            name, row = f"{node}:{self._began_ms}:{number}".encode(), self._encode(one)
            if self._names is not None:
                name = self._names(one) + b" " + name
            size += len(name) + len(row)
            if records and size > BATCH_BYTES:
                break
            records.append((name, row))
        return records


class Rows:
    """What the owner of a row log tells of it; the owner makes `_rows`."""

    _rows: RowLog[Any]

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self._rows)

    @property
    def is_stuck(self) -> bool:
        """Whether rows wait and no partition for them is led here."""
        return self._rows.is_stuck

    @property
    def written(self) -> int:
        """Rows confirmed since the start."""
        return self._rows.written

    @property
    def dropped(self) -> int:
        """Rows that found no room since the start."""
        return self._rows.dropped


def _nothing(records: list[tuple[bytes, bytes]]) -> None:
    del records
