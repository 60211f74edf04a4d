"""The least value of each block of a column, so that few small values are found among very many.

    column      [ 64 values ][ 64 values ] ...        a block of level 1: the least of 64 values
    level 1     [ 64 blocks               ] ...       a block of level 2: the least of 64 blocks

A column only grows at its end. Looking for values below a limit descends into those blocks only
that have one: for each that is found, one block of each level is looked at, however many there are.

Source: range-minimum trees; Kafka has none, `TransactionIndex` is read from its beginning.
"""

from array import array
from collections.abc import Sequence

FAN_OUT_BITS = 6
FAN_OUT = 1 << FAN_OUT_BITS
LEVELS = 4
"""The blocks of the highest one have 16 million values."""


class Least:
    """The blocks of one column."""

    __slots__ = ("_levels",)

    def __init__(self, column: Sequence[int] = ()) -> None:
        self._levels = [array("q") for _ in range(LEVELS)]
        self.extend(column, 0)

    def extend(self, column: Sequence[int], start: int) -> None:
        """Note what the column has from `start` on, which was its end."""
        below = column
        for level in self._levels:
            start >>= FAN_OUT_BITS
            del level[start:]
            firsts = range(start << FAN_OUT_BITS, len(below), FAN_OUT)
            level.extend([min(below[at : at + FAN_OUT]) for at in firsts])
            below = level

    def add(self, at: int, value: int) -> None:
        """Note the value that the column got at its end, which was `at`."""
        for level in self._levels:
            at >>= FAN_OUT_BITS
            if at == len(level):
                level.append(value)
            elif value < level[at]:
                level[at] = value

    def below(
        self, column: Sequence[int], start: int, stop: int, limit: int, most: int
    ) -> list[int] | None:
        """Return where in [start, stop) the column is below `limit`, in order.

        None if there may be more than `most` such places. Costs a few microseconds for each block
        that has one.
        """
        if start >= stop:
            return []
        shift = FAN_OUT_BITS * LEVELS
        found: Sequence[int] = range(start >> shift, ((stop - 1) >> shift) + 1)
        for level in reversed(self._levels):
            found = [at for at in found if level[at] < limit]
            if len(found) > most + 2:  # the first one and the last one may have it elsewhere
                return None
            shift -= FAN_OUT_BITS
            first, last = start >> shift, (stop - 1) >> shift
            found = [
                one
                for at in found
                for one in range(
                    max(at << FAN_OUT_BITS, first), min((at + 1) << FAN_OUT_BITS, last + 1)
                )
            ]
        places = [at for at in found if column[at] < limit]
        return None if len(places) > most else places
