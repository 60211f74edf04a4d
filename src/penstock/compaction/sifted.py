"""What both twins of the key map say of a batch.

Source: ours; see `key_map.py`.
"""

from collections.abc import Sequence
from typing import NamedTuple

INT64_MAX = (1 << 63) - 1
INT64_MIN = -INT64_MAX - 1

Span = tuple[int, int]


class Sifted(NamedTuple):
    """Which records of a block stay."""

    kept: int
    tombstones: int
    """Of those that stay, how many have no value."""
    newest_delta: int
    """Largest timestamp delta of those that stay; INT64_MIN if none does."""
    spans: Sequence[Span]
    """Bytes [start, end) of the block in which they stand; neighbours are one span."""
