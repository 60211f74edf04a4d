"""Folds what clients do into rows of a minute, with a bound on the rows.

    event ─► row(key) ─► sums of this minute ─► take() when the minute is over ─► written
                 └─► ROWS_MAX rows are there: the one row of all others, and `beyond` counts

A request finds its row by one look-up in a dict. The minute of an event is that in which it is
folded, so that a row is complete when it is taken.

Source: row G-24 of the specification (rows in near real time), with a bound of ours.
"""

from typing import Final

from penstock.audit.row import OTHERS, Counts, RowKey

ROWS_MAX: Final = 10_000
"""Rows of a minute beside the one of all others: some 5 MB."""
MINUTE_MS: Final = 60_000


class Fold:
    """See the module; one for each node."""

    __slots__ = ("_most", "_rows", "beyond", "minute_ms")

    def __init__(self, wall_ms: int, most: int = ROWS_MAX) -> None:
        """`wall_ms`: the wall time now; `most`: rows of a minute."""
        self._most = most
        self._rows: dict[RowKey, Counts] = {}
        self.minute_ms = wall_ms - wall_ms % MINUTE_MS
        """Wall time at which this minute began."""
        self.beyond = 0
        """Times since the start that an event found no row of its own."""

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, key: RowKey) -> Counts:
        """Return the sums of this minute to which an event is added; they are not to be kept."""
        found = self._rows.get(key)
        return self._new_row(key) if found is None else found

    def _new_row(self, key: RowKey) -> Counts:
        rows = self._rows
        if len(rows) - (OTHERS in rows) >= self._most:
            self.beyond += 1
            key = OTHERS
            if key in rows:
                return rows[key]
        new = rows[key] = Counts()
        return new

    def is_over(self, wall_ms: int) -> bool:
        """Whether this minute is over, or the wall clock went back behind it."""
        return not self.minute_ms <= wall_ms < self.minute_ms + MINUTE_MS

    def take(self, wall_ms: int) -> dict[RowKey, Counts]:
        """Return the rows of this minute and begin the one of `wall_ms`."""
        taken, self._rows = self._rows, {}
        self.minute_ms = wall_ms - wall_ms % MINUTE_MS
        return taken
