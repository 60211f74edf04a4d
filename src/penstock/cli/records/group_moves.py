"""The committed positions of a group, for `penstock consume --group`: read, and commit new ones.

The command does not join the group: it reads every partition that it is asked for, and only while
the group has no members. Positions are committed behind the printed records.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.cli.connect import CommandFailed

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster

Partition = tuple[str, int]
COMMIT_SECONDS = 5.0


class GroupMoves:
    """Moves one group. It has connections of its own, since the stream may be cut at any time."""

    def __init__(self, cluster: "Cluster", group: str) -> None:
        self._settings = cluster.settings
        self._group = group
        self._committed: dict[Partition, int] = {}
        self._next_at = time.monotonic() + COMMIT_SECONDS

    def starts(self, otherwise: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the group's positions, and those of `otherwise` for partitions without one.

        Raises CommandFailed while the group has members.
        """
        from penstock.client.cluster import Cluster
        from penstock.client.groups import Groups

        with Cluster(self._settings) as cluster:
            groups = Groups(cluster)
            if members := groups.describe(self._group).members:
                raise CommandFailed(
                    f"group {self._group} has {len(members)} members, which read already: stop "
                    "them, or read without --group"
                )
            found = groups.offsets(self._group)
        self._committed = {one: at.offset for one, at in found.items()}
        return {one: self._committed.get(one, at) for one, at in otherwise.items()}

    def is_due(self) -> bool:
        """Whether a commit is due."""
        return time.monotonic() >= self._next_at

    def commit(self, positions: Mapping[Partition, int]) -> None:
        """Commit these positions, if they differ from the group's. Raises ClientError."""
        from penstock.client.cluster import Cluster
        from penstock.client.groups import Groups

        self._next_at = time.monotonic() + COMMIT_SECONDS
        moved = {one: at for one, at in positions.items() if self._committed.get(one) != at}
        if moved:
            with Cluster(self._settings) as cluster:
                Groups(cluster).commit(self._group, moved)
            self._committed |= moved
