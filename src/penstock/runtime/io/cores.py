"""The CPU cores that this process may use."""

import os


def usable_cores() -> list[int]:
    """Return their numbers, ascending: the affinity's, or all on systems without affinity."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
