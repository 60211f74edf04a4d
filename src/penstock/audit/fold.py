"""Folds what clients do into rows, one for each key and fold, with a bound on the rows.

    event ─► row(key) ─► sums of this fold ─► take() when it is over ─► written
                 ├─► few places are left: who has many rows gets one for all the rest, by principal
                 └─► ROWS_MAX rows are there: the one row of all others, and `beyond` counts

A client may invent client ids and groups. The last quarter of the places is for principals that
have few rows, so that nobody hides by that what others do.

A fold ends when its rows are taken, which is due at the next multiple of the length, on all nodes;
the next one begins at that moment, so that a row is complete and an event lies within the times of
its row. Who adds often keeps its rows until `generation` changes.

Source: docs/requirements.md G-24 (rows in near real time), with a bound of ours.
"""

from collections import Counter
from typing import Final, NamedTuple

from penstock.audit.compiled import Counts
from penstock.audit.row import OTHERS, RowKey, rest_of

ROWS_MAX: Final = 10_000
"""Rows of a fold beside the one of all others: some 5 MB."""
LENGTH_MS: Final = 60_000
KEPT_SHARE: Final = 4
"""One place in so many is kept for principals that have few rows."""
FEW_SHARE: Final = 40
"""Few are so many of all places: 250 of 10,000."""


class Taken(NamedTuple):
    """The rows of a fold, which lasted from `began_ms` to `ended_ms` (exclusive) of wall time."""

    began_ms: int
    ended_ms: int
    rows: dict[RowKey, Counts]


class Fold:
    """See the module; one for each node."""

    __slots__ = ("_length_ms", "_most", "_of", "_rows", "began_ms", "beyond", "generation")

    def __init__(self, wall_ms: int, length_ms: int = LENGTH_MS, most: int = ROWS_MAX) -> None:
        """`wall_ms`: the wall time now; `most`: rows of a fold."""
        assert length_ms > 0, length_ms
        self._most = most
        self._rows: dict[RowKey, Counts] = {}
        self._of: Counter[str] = Counter()
        """Rows by principal."""
        self._length_ms = length_ms
        self.began_ms = wall_ms
        """Wall time at which this fold began."""
        self.generation = 0
        """Changes when the rows are taken."""
        self.beyond = 0
        """Times since the start that a row was looked for, and one for all the rest was found."""

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, key: RowKey) -> Counts:
        """Return the sums to which events are added, until `generation` changes."""
        found = self._rows.get(key)
        return self._new_row(key) if found is None else found

    def _new_row(self, key: RowKey) -> Counts:
        rows, principal = self._rows, key.who.principal
        left = self._most - len(rows)
        is_kept = left <= self._most // KEPT_SHARE
        if left <= 0 or (is_kept and self._of[principal] >= max(1, self._most // FEW_SHARE)):
            self.beyond += 1
            key = rest_of(principal)
            if key not in rows and left <= 0:
                key = OTHERS
            if key in rows:
                return rows[key]
        self._of[principal] += key != OTHERS
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
        self._of.clear()
        self.generation += 1
        self.began_ms = wall_ms
        return taken
