"""Types of the compiled twin."""

from collections.abc import Sequence

from penstock.storage.read.regions import Region

def choose(
    positions: Sequence[int], sizes: Sequence[int], entry: int, max_bytes: int, limit: int
) -> tuple[list[Region], int, int]: ...
