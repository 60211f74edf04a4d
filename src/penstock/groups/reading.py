"""What is asked of groups and changes nothing: states, members, committed positions.

Single owner, as in coordinator.py: all calls come from one thread.

Source: Kafka, GroupCoordinator.scala (handleDescribeGroup, handleListGroups, handleFetchOffsets).
"""

from collections.abc import Iterable

from penstock.base.ids import NO_MEMBER_EPOCH, MemberEpoch
from penstock.groups.classic import inspection
from penstock.groups.classic.group import Group, GroupState
from penstock.groups.consumer import membership
from penstock.groups.consumer.group import ConsumerGroup
from penstock.groups.listing import list_groups
from penstock.groups.messages import FetchReply, GroupDescription, ListReply
from penstock.groups.offsets import commits
from penstock.groups.records import TopicKey
from penstock.groups.streams.group import StreamsGroup
from penstock.groups.table import GroupTable
from penstock.protocol.error_codes import ErrorCode


class GroupReading:
    """Answers from the groups that are loaded here."""

    def __init__(self, table: GroupTable) -> None:
        self._table = table

    def fetch_offsets(
        self,
        group_id: str,
        keys: Iterable[TopicKey] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: MemberEpoch = NO_MEMBER_EPOCH,
    ) -> FetchReply:
        """Return committed offsets of the given partitions; None means all.

        A member of a consumer group names itself with its epoch, and is refused in another one.
        """
        error = self._table.refusal(group_id, is_empty_id_allowed=True)
        if error is not None:
            return FetchReply(error=error, offsets={})
        group = self._table.groups.get(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            error = membership.fetch_refusal(group, member_id, member_epoch)
            if error is not None:
                return FetchReply(error=error, offsets={})
        offsets = commits.fetch(group, keys, require_stable=require_stable)
        return FetchReply(error=ErrorCode.NONE, offsets=offsets)

    def committed_keys(self, group_id: str) -> list[TopicKey]:
        """Return the partitions with positions of a group, in no order; none if it is unknown."""
        group = self._table.groups.get(group_id)
        return [] if group is None else list(group.offsets.values)

    def committed_count(self, group_id: str) -> int:
        """Return the number of a group's positions."""
        group = self._table.groups.get(group_id)
        return 0 if group is None else len(group.offsets.values)

    def describe(self, group_id: str) -> GroupDescription:
        """Return a group's state; GROUP_ID_NOT_FOUND with state Dead when there is none."""
        error = self._table.refusal(group_id, is_empty_id_allowed=True)
        if error is not None:
            return GroupDescription(error=error, group_id=group_id)
        group = self._table.groups.get(group_id)
        if isinstance(group, Group):
            return inspection.describe(group)
        missing, dead = ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD.value
        return GroupDescription(error=missing, group_id=group_id, state=dead)

    def member_count(self, group_id: str) -> int:
        """Return how many members a group has; 0 if it is unknown here."""
        group = self._table.groups.get(group_id)
        return 0 if group is None else group.member_count

    def group_ids(self) -> list[str]:
        """Return the ids of all groups that are loaded, oldest first."""
        return list(self._table.groups)

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        ids: Iterable[str] | None = None,
    ) -> ListReply:
        """Return the groups that match, restricted to `ids` if given.

        Groups still being loaded are missing, with an error; unknown ids are left out without one.
        """
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self._table.is_loading else ErrorCode.NONE
        groups = self._table.groups
        named = sorted(groups) if ids is None else ids
        there = [groups[group_id] for group_id in named if group_id in groups]
        return ListReply(error=error, groups=list_groups(there, states=states, types=types))
