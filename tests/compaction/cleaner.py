"""Runs passes over a log in memory, as a process with files would."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.compaction.clean import CleaningPass, CleaningRules, LiveProducer, PassReport
from penstock.compaction.fill import Dirty, fill_key_map
from penstock.compaction.key_map import COMPILED_KEY_MAP, KeyMap, PythonKeyMap, slots_in
from penstock.compaction.sifted import INT64_MAX
from penstock.compaction.transactions import PassTransactions
from penstock.extents.layout import Aborted
from penstock.record.batch import BatchHeader, read_header
from tests.compaction.histories import Log

MAPS = [PythonKeyMap] + ([COMPILED_KEY_MAP] if COMPILED_KEY_MAP else [])
RETENTION_MS = 1_000
SALT = bytes(range(16))


@dataclass(slots=True)
class Cleaned:
    """A partition in two parts: batches below `end` were cleaned, those of the log follow."""

    log: Log
    batches: list[bytes] = field(default_factory=list)
    end: int = 0
    aborted: Aborted = field(default_factory=Aborted)
    """Of the part that was cleaned: one for each abort marker that is left in it."""
    report: PassReport = field(default_factory=PassReport)

    def all_batches(self) -> list[bytes]:
        return self.batches + self.dirty()

    def dirty(self) -> list[bytes]:
        bases = [int.from_bytes(batch[:8], "big") for batch in self.log.batches]
        return [b for b, base in zip(self.log.batches, bases, strict=True) if base >= self.end]

    def all_aborted(self, below: int = INT64_MAX) -> Aborted:
        """Of both parts, in the order of the markers, with those that begin below an offset."""
        rest = [row for row in self.log.aborted if row.marker_offset >= self.end]
        rows = [*zip(*self.aborted, strict=True), *rest]
        rows = [row for row in rows if row[1] < below]
        return Aborted(*zip(*rows, strict=True)) if rows else Aborted()

    def clean(
        self,
        *,
        bound: int,
        now: int,
        key_map: KeyMap | None = None,
        live: Mapping[int, LiveProducer] | None = None,
        newest_ms: int = INT64_MAX,
    ) -> None:
        """One pass; `bound` is not above the last stable offset."""
        assert bound <= self.log.stable
        key_map = key_map or MAPS[-1](slots_in(24 * 1000), SALT)
        aborted = self.all_aborted(bound)
        transactions = PassTransactions(aborted)
        dirty = Dirty(self.end, bound, newest_ms)
        end = fill_key_map(key_map, views(self.dirty()), dirty, transactions)
        rules = CleaningRules(
            end_offset=end, now_ms=now, delete_retention_ms=RETENTION_MS, live=live or {}
        )
        one = CleaningPass(key_map, rules, transactions)
        self.batches = [bytes(batch) for _, batch in one.clean(views(self.all_batches()))]
        left = one.aborted_left(aborted)
        rows = [row for row in zip(*left, strict=True) if row[2] < end]
        self.aborted = Aborted(*zip(*rows, strict=True)) if rows else Aborted()
        self.end, self.report = end, one.report


def views(batches: Sequence[bytes]) -> list[tuple[BatchHeader, memoryview]]:
    whole = [memoryview(batch) for batch in batches]
    return [(read_header(batch), batch) for batch in whole]
