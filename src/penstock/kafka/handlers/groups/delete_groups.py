"""DeleteGroups 0-2: empty groups go with their positions. Answered when that is durable."""

from collections.abc import Mapping

from penstock.broker.groups.lease import knows_group
from penstock.kafka.context import RequestContext
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DELETE_GROUPS
VERSIONS = range(3)
SLICED_BY = (("groups_names",),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass on those that nobody else can coordinate by now; one result per group."""
    is_ours = {
        group_id: knows_group(context.broker, group_id) for group_id in request.body.groups_names
    }
    refused = [group_id for group_id, is_known in is_ours.items() if not is_known]

    def answer(results: Mapping[str, ErrorCode]) -> None:
        results = {**results, **dict.fromkeys(refused, ErrorCode.NOT_COORDINATOR)}
        reply(
            {
                "results": [
                    {"group_id": group_id, "error_code": error}
                    for group_id, error in results.items()
                ]
            }
        )

    context.broker.groups.delete_groups(
        [group_id for group_id, is_known in is_ours.items() if is_known], answer
    )
