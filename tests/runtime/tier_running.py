"""What masterships that copy into the tier run on: the loop's time, and a log that syncs."""

import asyncio
from collections.abc import Sequence

from penstock.coordinator.journal import JournalDone
from penstock.coordinator.pending import Writer
from penstock.coordinator.records import JournalRecord
from tests.coordinator.held_journal import HeldJournal


class LoopClock:
    """The virtual time."""

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    def monotonic_us(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000_000)


class SyncingJournal(HeldJournal):
    """Confirms what is appended 10 ms later, as long as it is not lost."""

    def append(
        self,
        partition: int,
        records: Sequence[JournalRecord],
        done: JournalDone,
        writer: Writer | None = None,
    ) -> None:
        super().append(partition, records, done, writer)
        if self.refuses is None:
            asyncio.get_running_loop().call_later(0.01, self._confirm_next)

    def _confirm_next(self) -> None:
        if self.under_way:
            self.confirm(1)
