"""Which cores this process may use."""

import os


def usable_cores() -> list[int]:
    """Return their numbers, ascending: those of its affinity, or all where systems have none."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
