"""ListGroups 0-5: the groups this broker coordinates; version 4 filters by state, 5 by type."""

from penstock.broker.broker import Broker
from penstock.broker.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.LIST_GROUPS
VERSIONS = range(6)


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Answer at once."""
    found = broker.groups.list_groups(
        states=getattr(request.body, "states_filter", ()),
        types=getattr(request.body, "types_filter", ()),
    )
    reply(
        {
            "error_code": found.error,
            "groups": [
                {
                    "group_id": group.group_id,
                    "protocol_type": group.protocol_type,
                    "group_state": group.state,
                    "group_type": group.group_type,
                }
                for group in found.groups
            ],
        }
    )
