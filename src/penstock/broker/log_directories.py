"""The directories in which a broker keeps logs, as fronts describe them."""

from typing import NamedTuple

from penstock.base.ids import ReplicaSetId


class LogDirectory(NamedTuple):
    """A data directory: its file system, and the replica sets whose logs it holds."""

    path: str
    total_bytes: int
    usable_bytes: int
    """Bytes that may still be written; -1, like the total, if the file system does not answer."""
    set_ids: frozenset[ReplicaSetId]
