"""Logs whose last job of the housekeeper failed: told once, and tried again, later each time.

Source: docs/adr/0104.
"""

from collections.abc import Container
from dataclasses import dataclass

from penstock.base.ids import ReplicaSetId
from penstock.base.ports import Clock

RETRY_MS = 1_000
RETRY_MS_MAX = 300_000
"""A full or failing disk is tried every five minutes; what it costs is a part of a file."""


@dataclass(slots=True)
class _Failing:
    count: int = 0
    not_before_ms: int = 0


class FailingLogs:
    """Those of one kind of job, by replica set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failing: dict[ReplicaSetId, _Failing] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._failing)

    def __contains__(self, replica_set_id: ReplicaSetId) -> bool:
        """Whether the last job of a set's log failed."""
        return replica_set_id in self._failing

    def is_waiting(self, replica_set_id: ReplicaSetId) -> bool:
        """Whether the next attempt is not to be made yet."""
        failing = self._failing.get(replica_set_id)
        return failing is not None and self._clock.monotonic_ms() < failing.not_before_ms

    def failed(self, replica_set_id: ReplicaSetId) -> bool:
        """Note a failure; return whether it is the first one in a row."""
        failing = self._failing.setdefault(replica_set_id, _Failing())
        failing.count += 1
        wait_ms = min(RETRY_MS << min(failing.count - 1, 16), RETRY_MS_MAX)
        failing.not_before_ms = self._clock.monotonic_ms() + wait_ms
        return failing.count == 1

    def succeeded(self, replica_set_id: ReplicaSetId) -> bool:
        """Note a success; return whether the log was failing."""
        return self._failing.pop(replica_set_id, None) is not None

    def keep(self, replica_set_ids: Container[ReplicaSetId]) -> None:
        """Forget the logs of all other sets."""
        for gone in [key for key in self._failing if key not in replica_set_ids]:
            del self._failing[gone]
