"""The disk space that nodes need before any record is written.

A log allocates its first file and the next one, and leaves `log.reserve_bytes` free.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.storage.config import LogConfig

FILES_AHEAD = 2
METADATA_BYTES = 8 << 20
"""For the metadata log, snapshots and a node's own log lines."""


def needed_bytes(config: LogConfig, *, sets: int) -> int:
    """Return the bytes that a node with `sets` empty logs writes to its disk."""
    first = min(config.first_segment_bytes, config.segment_bytes)
    return sets * FILES_AHEAD * first + METADATA_BYTES


def check_room(nodes: Iterable[tuple[Path, LogConfig]], *, sets: int) -> None:
    """Check that the disk has space for new nodes; a node that has logs already needs no more.

    Raises ConfigError with the needed and the free bytes.
    """
    fresh = [(path, config) for path, config in nodes if not any(path.glob("set-*"))]
    if not fresh:
        return
    needed = sum(needed_bytes(config, sets=sets) for _, config in fresh)
    needed += max(config.reserve_bytes for _, config in fresh)
    place = fresh[0][0]
    free = shutil.disk_usage(place).free
    if free < needed:
        raise ConfigError(
            f"{place} has {mb(free)} free and {new_nodes(len(fresh))} {mb(needed)}: free some, "
            "name another place with --data, or set log.first_segment_bytes lower"
        )


def new_nodes(count: int) -> str:
    """Return subject and verb of a message about the space needed."""
    return "a new node needs" if count == 1 else f"{count} new nodes need"


def mb(count: int) -> str:
    """Return bytes as text in megabytes."""
    return f"{count / 1e6:,.0f} MB"
