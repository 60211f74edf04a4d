"""ListGroups 0-5: the groups this broker coordinates; version 4 filters by state, 5 by type.

With permission to describe the cluster all of them are listed, otherwise those that may be
described.

There may be 100,000: they are processed in slices, even for a short request.
"""

from collections.abc import Sequence

from penstock.broker.access import Operation, Resource
from penstock.broker.turns import SLICE, Pace
from penstock.groups.listing import STATES, TYPES
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import may
from penstock.kafka.request import Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode

KEY = ApiKey.LIST_GROUPS
VERSIONS = range(6)
IS_LONG = True

_DESCRIBE = Operation.DESCRIBE
_STATES = frozenset(state.lower() for state in STATES)
_TYPES = frozenset(TYPES)
_NONE_OF_OURS = frozenset(["none of ours"])
Fields = dict[str, object]


async def handle(context: RequestContext, request: Request) -> Fields:
    """Answer with the groups that exist while it iterates over them."""
    pace = Pace(request.turns)
    states = await _known(getattr(request.body, "states_filter", ()), _STATES, pace)
    types = await _known(getattr(request.body, "types_filter", ()), _TYPES, pace)
    error, listed = ErrorCode.NONE, list[Fields]()
    reading = context.broker.groups.reading
    ids, sees_all = reading.group_ids(), may(context, _DESCRIBE, Resource.CLUSTER)
    for at in range(0, max(1, len(ids)), SLICE):
        await pace.step(SLICE)
        found = reading.list_groups(states=states, types=types, ids=ids[at : at + SLICE])
        error = error or found.error
        listed += [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.group_type,
            }
            for group in found.groups
            if sees_all or may(context, _DESCRIBE, Resource.GROUP, group.group_id)
        ]
    return {"error_code": error, "groups": listed}


async def _known(names: Sequence[str], known: frozenset[str], pace: Pace) -> frozenset[str]:
    """Return the known names in a filter; if it has only others, one that matches nothing."""
    found: set[str] = set()
    for name in names:
        await pace.step()
        found |= known & {name.lower()}
    return frozenset(found) or (_NONE_OF_OURS if names else frozenset())
