"""Directories that a broker keeps logs in, as fronts tell of them."""

from typing import NamedTuple


class LogDirectory(NamedTuple):
    """A data directory: the file system that it is on, and the replica sets whose logs it holds."""

    path: str
    total_bytes: int
    usable_bytes: int
    """What may still be written; -1, as the total, where the file system does not answer."""
    set_ids: frozenset[int]
