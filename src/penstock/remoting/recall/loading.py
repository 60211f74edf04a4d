"""A new master reads what is recalled, from the log start to the end.

Memory: one read of a quarter MiB at a time, and the state. Turns: a read's worth of records.

Source: ours, docs/adr/0165; halves/loading.py, which does the same for half messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import PlatformError
from penstock.record.build import Record
from penstock.record.read import iter_records
from penstock.remoting.halves.loading import READ_BYTES, read_at, take_batches
from penstock.remoting.recall.record import event_of
from penstock.remoting.recall.state import RecallState
from penstock.replication.errors import NotMaster

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.fetch.partition_read import PartitionRead
    from penstock.broker.partitions import HostedPartition

OnLoaded = Callable[["RecallState | PlatformError"], None]
"""Called once, with the state, or with why it is to be tried again."""


class Loading:
    """See the module; used once. `is_current` says whether the mastership goes on."""

    def __init__(
        self,
        broker: Broker,
        hosted: HostedPartition,
        is_current: Callable[[], bool],
        on_loaded: OnLoaded,
    ) -> None:
        self._broker = broker
        self._hosted = hosted
        self._is_current = is_current
        self._on_loaded = on_loaded
        self._state = RecallState()
        self._next = hosted.log.log_start_offset

    def go_on(self) -> None:
        """Read what comes next."""
        if not self._is_current():
            self._on_loaded(NotMaster("another mastership has begun"))
        elif self._next < self._hosted.log.log_end_offset:
            read_at(self._broker, self._hosted, self._next, READ_BYTES, self._on_read)
        else:
            self._on_loaded(self._state)

    def _on_read(self, read: PartitionRead) -> None:
        try:
            self._next = take_batches(read, self._next, self._apply)
        except PlatformError as error:
            self._on_loaded(error)
            return
        self._broker.scheduler.call_soon(self.go_on)

    def _apply(self, batch: memoryview) -> None:
        for one in iter_records(batch):
            event = event_of(Record(one.key, one.value, one.headers, one.timestamp_ms))
            if event is not None and one.offset >= self._next:
                self._state.apply(event, one.offset)
