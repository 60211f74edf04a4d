"""How much clients may pin where the settings do not say it: a share of this machine's memory.

A control group's limit counts as the machine's memory: beyond it the system ends the process.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from penstock.net.limits import MIB, NetLimits

PART = 8
SHARE_BYTES_MIN = 64 * MIB
SHARE_BYTES_MAX = 256 * MIB
"""More is not given by itself: what many clients let lie costs the loop a copy of each byte."""
SET_BYTES_MIN = 4 * MIB
"""Below it not even the requests of a few clients would find room."""
LIMIT_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def pinned_bytes_max(limits: NetLimits) -> int:
    """Return what clients may pin: as the settings say, or the share where they say 0."""
    given = limits.unfinished_bytes_max
    return max(given, SET_BYTES_MIN) if given else share_of(machine_bytes())


def share_of(memory_bytes: int, *, nodes: int = 1) -> int:
    """Return the share of each of so many nodes in so much memory, within its bounds.

    Several nodes have together what one would have, but each has its upper bound to itself.
    """
    together = max(memory_bytes // PART, SHARE_BYTES_MIN)
    return min(max(together // nodes, SET_BYTES_MIN), SHARE_BYTES_MAX)


def machine_bytes(limit_files: Sequence[str] = LIMIT_FILES) -> int:
    """Return the memory of the machine, or of the control group where that is less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *filter(None, map(_limit_in, limit_files))])


def _limit_in(file: str) -> int | None:
    try:
        text = Path(file).read_text(encoding="ascii").strip()
    except OSError:
        return None  # another version of control groups, or none
    return int(text) if text.isdecimal() else None
