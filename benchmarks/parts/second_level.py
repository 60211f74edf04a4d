"""Nodes whose compacted topics are cleaned, and what their metrics tell of that.

Topics are written while nothing of them is to be cleaned, and become compacted afterwards: what is
measured has a beginning. Level 0 is larger than anything here, so that what is moved is moved to
be cleaned. Only what lies in closed files is moved, which a filler behind it sees to.
"""

import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from benchmarks.parts.nodes import SMALL_SEGMENT_BYTES
from benchmarks.parts.processes import children_of
from harness.node import NodeProcess, SettingsOf

SEGMENT_BYTES: Final = SMALL_SEGMENT_BYTES
FILLER_BYTES: Final = 2 * SEGMENT_BYTES
CLEANING: SettingsOf = {"log": {"segment_bytes": SEGMENT_BYTES, "level0_bytes": 1 << 40}}
UNBOUND: SettingsOf = {"log": {"housekeeper_bytes_per_second": 0, "housekeeper_sync_ms": 0}}
"""A housekeeper that is as fast as it can be."""
LOADED: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1"}
COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
}
"""What a topic is told when its cleaning may begin."""
LOOK_SECONDS: Final = 1.0
"""A look costs the node some milliseconds. When a part was done is told by a file."""
STILL_SECONDS: Final = 3.0
"""What was moved a moment ago is seen as dirty a second later at most."""
PAGE_SECONDS: Final = 60.0


class NotCleaned(Exception):
    """What was to be cleaned is not, after a long time or after a failure."""


class Progress(Protocol):
    """How far a server has cleaned a topic."""

    def look(self) -> float:
        """Look again; return what grows whenever a part was done. Raises NotCleaned."""

    @property
    def is_done(self) -> bool:
        """Whether there was nothing left to do when it was last looked at."""

    @property
    def done_at(self) -> float:
        """When the last part was done, by the clock of files, as `time.time` tells it."""


def wait_clean(progress: Progress, *, seconds: float, on_change: Callable[[], None]) -> None:
    """Return when everything is done and stays so; tell each change. Raises NotCleaned."""
    deadline = time.monotonic() + seconds
    seen, since = 0.0, time.monotonic()
    while True:
        present = progress.look()
        if present != seen:
            seen, since = present, time.monotonic()
            on_change()
        if progress.is_done and time.monotonic() - since >= STILL_SECONDS:
            return
        if time.monotonic() > deadline:
            raise NotCleaned(f"it is not clean after {seconds:.0f} s")
        time.sleep(LOOK_SECONDS)


class NodeProgress:
    """What a node has moved and cleaned since this was made."""

    def __init__(
        self, node: NodeProcess, *, moved_bytes: float = 1, dirty_bytes_max: float = 0
    ) -> None:
        """It is done when so many bytes of records were moved, and no more of these are dirty.

        A partition whose dirty ratio is not reached yet has some.
        """
        self._port = node.metrics_port
        self._data = node.data
        self._wanted = moved_bytes
        self._dirty_bytes_max = dirty_bytes_max
        self._before = self._present = metrics_of(self._port)

    def look(self) -> float:
        """See Progress."""
        self._present = metrics_of(self._port)
        failures = ("penstock_cleaner_failures_total", "penstock_housekeeper_failures_total")
        if any(self.grown(name) for name in failures):
            raise NotCleaned("the housekeeper could not do a part: the node's log says why")
        return self._moved_bytes + self.grown("penstock_cleaner_read_bytes_total")

    @property
    def is_done(self) -> bool:
        """See Progress."""
        has_moved = not self._present["penstock_second_level_backlog_bytes"]
        is_clean = self._present["penstock_cleaner_dirty_bytes"] <= self._dirty_bytes_max
        return has_moved and is_clean and self._moved_bytes >= self._wanted

    @property
    def done_at(self) -> float:
        """See Progress. A manifest is replaced when a file was taken over."""
        manifests = self._data.glob("set-*/second/manifest")
        return max((file.stat().st_mtime for file in manifests), default=0.0)

    @property
    def _moved_bytes(self) -> float:
        return self.grown("penstock_housekeeper_bytes_total")

    def grown(self, name: str) -> float:
        """Return by how much a metric had grown when it was last looked at."""
        return self._present[name] - self._before[name]


def metrics_of(metrics_port: int) -> dict[str, float]:
    """Return all metrics of a node by name; those with labels as their sum."""
    url = f"http://127.0.0.1:{metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=PAGE_SECONDS) as page:
        lines = page.read().decode().splitlines()
    found: dict[str, float] = {}
    for line in lines:
        if line and not line.startswith("#"):
            labelled, _, value = line.rpartition(" ")
            name = labelled.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def processes_of(node: NodeProcess) -> list[int]:
    """Return a node's process and its housekeeper's."""
    return [node.pid, *children_of(node.pid)]
