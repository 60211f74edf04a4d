"""Nodes as the questions need them: all clients come from one address, so its limits are off."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.node import NodeProcess, SettingsOf

_NET = {"connections_per_address_max": 0, "connection_rate_per_address_max": 0}

_RECYCLE = 8
"""Segments kept for use again: what a log in steady state writes over. New files cost the kernel
several times as much, which would be measured instead, and differently at every run."""

PAGE_CACHE: SettingsOf = {
    "log": {"flush_policy": "async", "recycle_count": _RECYCLE},
    "net": _NET,
}
"""Acknowledge what is in the page cache, as the compared systems do unless told otherwise."""

FSYNC: SettingsOf = {
    "log": {"flush_policy": "sync", "recycle_count": _RECYCLE},
    "net": _NET,
}
"""Acknowledge what is on the disk; the default."""

ANY_LOAD: SettingsOf = {
    "net": {"connection_rate_per_address_max": 0, "connections_per_address_max": 0},
    "broker": {"housekeeping_interval_ms": 1000},
    "log": {"recycle_count": 16},
}
"""All load comes from one address. Segments of deleted topics are used again soon, as they are in a
node at its retention limit: on a virtual machine, memory that the guest touches for the first time
in a while costs up to 2 CPU seconds per GB, which is no property of the broker."""


SMALL_SEGMENT_BYTES = 16 << 20
"""Segments of a node with a store: what is below its active one is soon copied."""


def with_a_store(store: Path) -> SettingsOf:
    """Return settings of a node whose topics may be in an object store, which is a directory."""
    log = {"segment_bytes": SMALL_SEGMENT_BYTES, "level0_bytes": 0, "checkpoint_interval_ms": 0}
    return {
        **PAGE_CACHE,
        "log": {**PAGE_CACHE["log"], **log},
        "controller": {"tiered_topics": True},
        "tier": {"url": f"file://{store}", "look_ms": 200},
    }


def merged(*more: SettingsOf) -> SettingsOf:
    """Return ANY_LOAD with more settings; later ones stand over earlier ones."""
    found: dict[str, dict[str, object]] = {}
    for settings in (ANY_LOAD, *more):
        for section, values in settings.items():
            found.setdefault(section, {}).update(values)
    return {section: found[section] for section in sorted(found)}


@contextlib.contextmanager
def temporary_node(settings: SettingsOf) -> Iterator[NodeProcess]:
    """Yield a running node with an empty data directory that is removed afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        NodeProcess(Path(directory), settings=merged(settings)) as node,
    ):
        yield node
