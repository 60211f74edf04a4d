"""Asking for groups whose members the coordinator assigns, of whatever kind.

Source: ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe (KIP-848, 932, 1071).
"""

from collections.abc import Callable
from typing import Any

from penstock.client.cluster import check_code
from penstock.client.connection import Connection
from penstock.client.errors import UnsupportedByBroker
from penstock.client.views import GroupMember, GroupView
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode


def described(connection: Connection, key: ApiKey, group_id: str) -> Any:
    """Return what a broker says of a group; None if it is of another kind, or unknown.

    Raises BrokerError.
    """
    try:
        answer = connection.call(key, {"group_ids": [group_id]})
    except UnsupportedByBroker:
        return None
    (group,) = answer.groups
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check_code(group.error_code, f"group {group_id}")
    return group


def assigned_group(
    connection: Connection,
    key: ApiKey,
    group_id: str,
    kind: str,
    member_of: Callable[[Any], GroupMember],
) -> GroupView | None:
    """Return a group of this kind; None if it is of another one, or unknown. Raises BrokerError."""
    group = described(connection, key, group_id)
    if group is None:
        return None
    return GroupView(
        group_id=group_id,
        state=group.group_state,
        protocol_type=kind,
        protocol=group.assignor_name,
        group_type=kind,
        members=tuple(map(member_of, group.members)),
    )
