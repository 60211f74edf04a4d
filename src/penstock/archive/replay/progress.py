"""How far a replay is: for each partition of the archive the next offset to be written.

They stand as text in positions of a group of the replay, of the partitions of its target, and are
committed in the transactions that write the records. So they count if, and only if, the records do.

    1 <16 hexadecimal digits> 0:4711 3:42       version, what is replayed, partition:offset ...

Partition p of the archive stands with partition p mod n of the target, which has n as the replay
begins. Its first transaction writes all of them, as n may have been another one; where one stands
twice the highest offset counts.

Source: docs/adr/0164; KIP-98 for positions in transactions.
"""

import re
from collections.abc import Mapping, Sequence

from penstock.archive.entries import digest
from penstock.archive.errors import ReplayStopped
from penstock.client.cluster import Cluster
from penstock.client.delivery import OpenTransaction
from penstock.client.ending import commit_positions
from penstock.client.groups import Groups

VERSION = "1"
PLAN_DIGITS = 16
_TEXT = re.compile(r"1 ([0-9a-f]{16})((?: \d+:\d+)*)")


def plan_digest(facts: Sequence[str]) -> str:
    """Return the digits that tell one replay from another under the same id."""
    return digest("\n".join(facts).encode())[:PLAN_DIGITS]


class Progress:
    """The positions of one replay."""

    def __init__(self, cluster: Cluster, group: str, topic: str, plan: str) -> None:
        self._cluster, self._group, self._topic, self._plan = cluster, group, topic, plan
        self._count = 0
        """Partitions of the target; 0 until all positions were written."""

    def read(self) -> dict[int, int]:
        """Return the next offset of each partition that was begun.

        Raises ReplayStopped for those of another replay, ClientErrors.
        """
        found: dict[int, int] = {}
        for (topic, _), committed in Groups(self._cluster).offsets(self._group).items():
            if topic != self._topic:
                continue
            for partition, offset in self._parse(committed.metadata).items():
                found[partition] = max(offset, found.get(partition, 0))
        return found

    def write(self, transaction: OpenTransaction, positions: Mapping[int, int], at: int) -> None:
        """Write, in a transaction, how far partition `at` has come. Raises ClientErrors.

        What the group's positions are by number is of no use: the text is what is read.
        """
        shards = [at % self._count] if self._count else range(self._partition_count())
        self._count = self._count or len(shards)
        entries = {
            (self._topic, one): (positions[at], self._text(positions, one)) for one in shards
        }
        commit_positions(self._cluster, transaction, self._group, entries)

    def _partition_count(self) -> int:
        return len(self._cluster.topic(self._topic).partitions)

    def _text(self, positions: Mapping[int, int], shard: int) -> str:
        parts = [
            f"{one}:{to}" for one, to in sorted(positions.items()) if one % self._count == shard
        ]
        return " ".join([VERSION, self._plan, *parts])

    def _parse(self, text: str) -> dict[int, int]:
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ReplayStopped(
                f"group {self._group} has positions that no replay has written: give another --id"
            )
        if match[1] != self._plan:
            raise ReplayStopped(
                f"a replay of this id was begun with another archive, --from, --until or"
                f" --same-partitions (group {self._group}): give the same, or another --id"
            )
        pairs = (part.split(":") for part in match[2].split())
        return {int(partition): int(offset) for partition, offset in pairs}
