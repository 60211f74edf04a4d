"""Default for the memory that clients may pin: a share of this machine's memory.

The limit of a control group counts as the machine's memory: above it the system ends the process.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.net.limits import MIB, NetLimits

PART = 8
SHARE_BYTES_MIN = 64 * MIB
SHARE_BYTES_MAX = 256 * MIB
"""Upper bound of the default: copying large amounts of unsent bytes costs the loop."""
SET_BYTES_MIN = 4 * MIB
"""Lower bound: with less not even the requests of a few clients fit."""
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def pinned_bytes_max(limits: NetLimits) -> int:
    """Return the bytes that clients may pin: the setting, or the share if it is 0."""
    given = limits.unfinished_bytes_max
    return max(given, SET_BYTES_MIN) if given else share_of(machine_bytes())


def share_of(memory_bytes: int, *, nodes: int = 1) -> int:
    """Return the share of each of `nodes` nodes in so much memory, within its bounds.

    Together they have what one node would have, but each has its own upper bound.
    """
    together = max(memory_bytes // PART, SHARE_BYTES_MIN)
    return min(max(together // nodes, SET_BYTES_MIN), SHARE_BYTES_MAX)


def machine_bytes(limit_files: Sequence[str] = LIMIT_FILES) -> int:
    """Return the memory of the machine, or of the control group if that is less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *filter(None, map(_limit_in, limit_files))])


def _limit_in(file: str) -> int | None:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return None  # another version of control groups, or none
    return int(text) if text.isdecimal() else None
