"""Asking for groups whose members the coordinator assigns, of whatever kind.

Source: ConsumerGroupDescribe, ShareGroupDescribe, StreamsGroupDescribe (KIP-848, 932, 1071).
"""

from typing import Any

from penstock.client.cluster import check_code
from penstock.client.connection import Connection
from penstock.client.errors import UnsupportedByBroker
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
