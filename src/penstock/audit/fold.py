"""Folds what clients do into rows, one for each key and fold, with a bound on the rows.

    event ─► row(key) ─► sums of this fold ─► take() when it is over ─► written
                 ├─► its principal has had its share: the row of that principal's others
                 └─► ROWS_MAX rows are there: the one row of all others; `beyond` counts either

A principal may have SHARE times as many rows as are free. Alone it has three quarters of them; and
however many client ids it invents, others find room beside it, and who it is stays known.

A fold ends when its rows are taken, which is due at the next multiple of the length, on all nodes;
the next one begins at that moment, so that a row is complete and an event lies within the times of
its row. Who adds often keeps its rows until `generation` changes.

Source: docs/requirements.md G-24 (rows in near real time), with a bound of ours; for the share
Choudhury and Hahne 1998 (dynamic thresholds). ADR 0202.
"""

from collections import Counter
from typing import Final, NamedTuple

from penstock.audit.compiled import Counts
from penstock.audit.row import OTHERS, RowKey, others_of

ROWS_MAX: Final = 10_000
"""Rows of a fold beside the one of all others: some 5 MB."""
SHARE: Final = 3
"""Rows of one principal for each that is free."""
LENGTH_MS: Final = 60_000


class Taken(NamedTuple):
    """The rows of a fold, which lasted from `began_ms` to `ended_ms` (exclusive) of wall time."""

    began_ms: int
    ended_ms: int
    rows: dict[RowKey, Counts]


class Fold:
    """See the module; one for each node."""

    __slots__ = ("_counts", "_length_ms", "_most", "_rows", "began_ms", "beyond", "generation")

    def __init__(self, wall_ms: int, length_ms: int = LENGTH_MS, most: int = ROWS_MAX) -> None:
        """`wall_ms`: the wall time now; `most`: rows of a fold."""
        assert length_ms > 0, length_ms
        self._most = most
        self._rows: dict[RowKey, Counts] = {}
        self._counts: Counter[str] = Counter()
        """Rows of each principal."""
        self._length_ms = length_ms
        self.began_ms = wall_ms
        """Wall time at which this fold began."""
        self.generation = 0
        """Changes when the rows are taken."""
        self.beyond = 0
        """Times since the start that a row was looked for, and one of others was found."""

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, key: RowKey) -> Counts:
        """Return the sums to which events are added, until `generation` changes."""
        found = self._rows.get(key)
        return self._new_row(key) if found is None else found

    def _new_row(self, key: RowKey) -> Counts:
        rows, principal = self._rows, key.who.principal
        free = self._most - len(rows) + (OTHERS in rows)
        if self._counts[principal] >= SHARE * free:
            self.beyond += 1
            key = others_of(principal)
            if key not in rows and free <= 0:
                key = OTHERS
            if key in rows:
                return rows[key]
        self._counts[principal] += key is not OTHERS
        new = rows[key] = Counts()
        return new

    @property
    def ends_ms(self) -> int:
        """Wall time at which this fold is to end."""
        return self.began_ms - self.began_ms % self._length_ms + self._length_ms

    def is_over(self, wall_ms: int) -> bool:
        """Whether this fold is over, or the wall clock went back behind it."""
        return not self.began_ms <= wall_ms < self.ends_ms

    def take(self, wall_ms: int) -> Taken:
        """Return the rows of this fold, and begin the next one at `wall_ms`."""
        taken = Taken(self.began_ms, max(wall_ms, self.began_ms + 1), self._rows)
        self._rows = {}
        self._counts.clear()
        self.generation += 1
        self.began_ms = wall_ms
        return taken
