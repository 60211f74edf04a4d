"""DeleteGroups 0-2: empty groups go with their positions. Answered when that is durable."""

from collections.abc import Mapping

from penstock.broker.broker import Broker
from penstock.broker.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DELETE_GROUPS
VERSIONS = range(3)
SLICED_BY = (("groups_names",),)


def handle(broker: Broker, request: Request, reply: Reply) -> None:
    """Pass the ids on; one result per group."""

    def answer(results: Mapping[str, ErrorCode]) -> None:
        reply(
            {
                "results": [
                    {"group_id": group_id, "error_code": error}
                    for group_id, error in results.items()
                ]
            }
        )

    broker.groups.delete_groups(request.body.groups_names, answer)
