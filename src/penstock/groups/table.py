"""The groups of a coordinator by id, and which internal partitions it may answer for.

A group in the table belongs to a partition that is owned and completely loaded: groups of a
partition are added, and removed, all at once. For a group that is not in the table the state of its
partition decides the answer: not coordinator, still loading, or no such group.

Source: Kafka, GroupCoordinator.validateGroupStatus (the order of its checks).
"""

from typing import TypeVar

from penstock.base.ports import Clock
from penstock.coordinator.partitioning import partition_of
from penstock.coordinator.partitions import Partitions, PartitionState
from penstock.groups.classic.group import Group
from penstock.groups.config import GroupConfig
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.group import GROUP_OVERHEAD_BYTES, BaseGroup
from penstock.groups.pinned import PinnedBytes
from penstock.groups.share.group import ShareGroup
from penstock.groups.streams.group import StreamsGroup
from penstock.protocol.error_codes import ErrorCode

G = TypeVar("G", Group, ConsumerGroup, ShareGroup, StreamsGroup)


WrittenBy = dict[int, dict[str, None]]
"""By producer id, the ids of groups in which its open transaction has positions."""


class Groups(dict[str, BaseGroup]):
    """The groups of one partition by id."""

    def __init__(self) -> None:
        super().__init__()
        self.writers: WrittenBy = {}
        """Those of the open transactions that were found when loading."""


class Writers:
    """In which groups open transactions have positions, by internal partition.

    It may name groups that are gone, or whose positions were refused, until the transaction ends.
    """

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[int, WrittenBy] = {}

    def open(self, partition: int, found: WrittenBy) -> None:
        """Begin with what was loaded of a partition."""
        self._of[partition] = found

    def close(self, partition: int) -> None:
        """Forget a partition."""
        self._of.pop(partition, None)

    def note(self, partition: int, producer_id: int, group_id: str) -> None:
        """Note that a producer writes positions of a group."""
        self._of.setdefault(partition, {}).setdefault(producer_id, {})[group_id] = None

    def groups_of(self, partition: int, producer_id: int) -> list[str]:
        """Return the ids of the groups that a producer has written positions of."""
        return [*self._of.get(partition, {}).get(producer_id, ())]

    def end(self, partition: int, producer_id: int) -> list[str]:
        """Return the same, and forget them."""
        return [*self._of.get(partition, {}).pop(producer_id, ())]


MEMBERLESS_PART = 2
"""Groups without members may use this fraction (a half) of the memory for groups."""


class GroupTable:
    """Finds, creates and removes groups."""

    __slots__ = (
        "_clock",
        "_config",
        "_of",
        "_partitions",
        "groups",
        "pinned",
        "successors",
        "writers",
    )

    def __init__(self, config: GroupConfig, clock: Clock, partitions: Partitions) -> None:
        self._config = config
        self._clock = clock
        self.groups: dict[str, BaseGroup] = {}
        self._of: dict[int, Groups] = {}
        """The groups by the partition that they hash to."""
        self.successors: dict[str, BaseGroup] = {}
        """Groups that are to take the place of one of another kind once that is durable."""
        self.pinned = PinnedBytes()
        self.writers = Writers()
        self._partitions = partitions

    def use_config(self, config: GroupConfig) -> None:
        """Go by other limits from now on."""
        self._config = config

    def refusal(self, group_id: str, *, is_empty_id_allowed: bool = False) -> ErrorCode | None:
        """Return why this coordinator cannot answer for a group id, or None.

        As in Kafka, the empty id may have offsets, but no members.
        """
        if not group_id and not is_empty_id_allowed:
            return ErrorCode.INVALID_GROUP_ID
        if group_id in self.groups:
            return None
        if len(group_id.encode()) > self._config.group_id_bytes_max:
            return ErrorCode.INVALID_GROUP_ID
        match self._partitions.state(self.partition_of(group_id)):
            case None:
                return ErrorCode.NOT_COORDINATOR
            case PartitionState.LOADING:
                return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            case PartitionState.ACTIVE:
                return None

    def classic(self, group_id: str) -> Group | None:
        """Return a group of the classic protocol; None if there is none, or one of another kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, Group) else None

    def partition_of(self, group_id: str) -> int:
        """Return the internal partition a group belongs to."""
        return partition_of(group_id, self._partitions.count)

    def create(self, group_id: str) -> tuple[Group | None, ErrorCode | None]:
        """Create an empty group, unless there are too many."""
        return self._create(group_id, Group)

    def _create(self, group_id: str, kind: type[G]) -> tuple[G | None, ErrorCode | None]:
        assert group_id not in self.groups, group_id
        if len(self.groups) >= self._config.groups_max:
            return None, ErrorCode.POLICY_VIOLATION
        group = self.new(group_id, kind)
        self.adopt(group)
        return group, None

    def new(self, group_id: str, kind: type[G]) -> G:
        """Return an empty group of a kind that is not in the table yet."""
        return kind(group_id, self.partition_of(group_id), wall_ms=self._clock.wall_ms())

    def create_memberless(self, group_id: str, kind: type[G]) -> tuple[G | None, ErrorCode | None]:
        """Create a group for positions without members; such groups have half of the memory.

        Each costs its client one short request, and stays as long as its positions.
        """
        bound = self._config.members_bytes_max // MEMBERLESS_PART
        if self.pinned.total + GROUP_OVERHEAD_BYTES + len(group_id) > bound:
            return None, ErrorCode.POLICY_VIOLATION
        return self._create(group_id, kind)

    @property
    def is_loading(self) -> bool:
        """Whether groups may be missing because a partition is still being loaded."""
        return self._partitions.is_loading

    @property
    def pinned_bytes(self) -> int:
        """Approximate memory of all groups, members and positions."""
        return self.pinned.total + self.pinned.offsets + self.pinned.in_flight

    @property
    def bounded_bytes(self) -> int:
        """The memory to compare with `members_bytes_max`.

        Positions count only up to their bound: more may have been loaded, which must not keep
        members from joining.
        """
        return self.pinned.total + min(self.pinned.offsets, self._config.offsets_bytes_max)

    def adopt(self, group: BaseGroup) -> None:
        """Add a group that was created."""
        assert group.group_id not in self.groups, group.group_id
        self.groups[group.group_id] = group
        of_partition = self._of.get(group.partition)
        if of_partition is None:
            of_partition = self._of[group.partition] = Groups()
        of_partition[group.group_id] = group
        group.count_in(self.pinned)

    def forget(self, group: BaseGroup) -> None:
        """Remove a group, unless another group has its id by now."""
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            del self._of[group.partition][group.group_id]
            group.count_in(None)

    def groups_of(self, partition: int) -> list[BaseGroup]:
        """Return the groups of a partition, in the order of creation or loading."""
        return [*self._of.get(partition, Groups()).values()]

    def open(self, partition: int, groups: Groups) -> None:
        """Add all loaded groups of a partition at once."""
        assert not self._of.get(partition), partition
        self.groups.update(groups)
        self._of[partition] = groups
        self.writers.open(partition, groups.writers)

    def close(self, partition: int) -> Groups:
        """Remove the groups of a partition and return them, all Dead, their memory still counted.

        Work under way for them stops at that state. This costs 0.1 us for each group.
        """
        gone = self._of.pop(partition, Groups())
        self.writers.close(partition)
        wall_ms = self._clock.wall_ms()
        for group_id, group in gone.items():
            del self.groups[group_id]
            self.successors.pop(group_id, None)
            group.die(wall_ms)
        return gone
