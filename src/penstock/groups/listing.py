"""ListGroups: groups of every kind, by state and type. Reads only.

Source: Kafka, GroupMetadata.overview; KIP-518 (states filter), KIP-848 (types filter).
"""

from collections.abc import Iterable

from penstock.groups.classic.group import Group, GroupState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from penstock.groups.group import BaseGroup
from penstock.groups.messages import GroupListing
from penstock.groups.share.group import ShareGroup, ShareGroupState

CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE = "classic", "consumer", "share"
CONSUMER_PROTOCOL_TYPE = "consumer"
TYPES = (CLASSIC_TYPE, CONSUMER_TYPE, SHARE_TYPE)
STATES = tuple(
    {state.value: None for state in (*GroupState, *ConsumerGroupState, *ShareGroupState)}
)
"""The names of all states that a group may be in."""


def list_groups(
    groups: Iterable[BaseGroup], *, states: Iterable[str] = (), types: Iterable[str] = ()
) -> tuple[GroupListing, ...]:
    """Return the groups in one of the states and types; no filter means all. Case is ignored."""
    wanted_states = frozenset(state.lower() for state in states)
    wanted_types = frozenset(kind.lower() for kind in types)
    return tuple(
        line
        for line in map(_line, groups)
        if not wanted_states or line.state.lower() in wanted_states
        if not wanted_types or line.group_type in wanted_types
    )


def _line(group: BaseGroup) -> GroupListing:
    if isinstance(group, ConsumerGroup):
        return GroupListing(
            group.group_id, CONSUMER_PROTOCOL_TYPE, group.state.value, CONSUMER_TYPE
        )
    if isinstance(group, ShareGroup):
        return GroupListing(group.group_id, SHARE_TYPE, group.state.value, SHARE_TYPE)
    assert isinstance(group, Group), group
    return GroupListing(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
