"""The partitions of a topic, each with the replica set that hosts it.

A topic may have 10,000 of them, and every process has its image: kept are the ids of the sets, and
the object of a partition is made for whoever asks for it.

Source: our own; KRaft's TopicImage keeps a PartitionRegistration for each.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from penstock.base.ids import PartitionId, ReplicaSetId


class PartitionImage(NamedTuple):
    """A partition and the replica set that hosts it."""

    partition: PartitionId
    replica_set_id: ReplicaSetId


class PartitionImages(Sequence[PartitionImage]):
    """Partition 0 and those behind it; immutable. `set_ids[n]` is the replica set of partition n.

    Whoever goes through many of them reads `set_ids`.
    """

    __slots__ = ("set_ids",)

    def __init__(self, set_ids: tuple[ReplicaSetId, ...]) -> None:
        self.set_ids = set_ids

    def __len__(self) -> int:
        return len(self.set_ids)

    @overload
    def __getitem__(self, at: int) -> PartitionImage: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[PartitionImage, ...]: ...
    def __getitem__(self, at: int | slice) -> PartitionImage | tuple[PartitionImage, ...]:
        numbers = range(len(self.set_ids))
        if isinstance(at, slice):
            return tuple(self[number] for number in numbers[at])
        return PartitionImage(PartitionId(numbers[at]), self.set_ids[at])

    def __iter__(self) -> Iterator[PartitionImage]:
        for number, set_id in enumerate(self.set_ids):
            yield PartitionImage(PartitionId(number), set_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionImages) and self.set_ids == other.set_ids

    def __hash__(self) -> int:
        return hash(self.set_ids)

    def __repr__(self) -> str:
        return f"PartitionImages({self.set_ids})"
