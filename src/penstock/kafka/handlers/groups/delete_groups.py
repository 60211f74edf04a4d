"""DeleteGroups 0-2: deletes empty groups with their positions. Answered when that is durable."""

from collections.abc import Mapping

from penstock.broker.access import Operation
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import told_group_error
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.DELETE_GROUPS
VERSIONS = range(3)
SLICED_BY = (("groups_names",),)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Pass on the groups that the client may delete and that no other broker can coordinate."""
    error_of = {
        group_id: told_group_error(context, group_id, Operation.DELETE)
        for group_id in request.body.groups_names
    }

    def answer(results: Mapping[str, ErrorCode]) -> None:
        refused = {group_id: error for group_id, error in error_of.items() if error}
        reply(
            {
                "results": [
                    {"group_id": group_id, "error_code": error}
                    for group_id, error in {**results, **refused}.items()
                ]
            }
        )

    context.broker.groups.delete_groups(
        [group_id for group_id, error in error_of.items() if not error], answer
    )
