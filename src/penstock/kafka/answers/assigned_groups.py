"""What descriptions of groups have in common whose members the coordinator assigns.

Source: ConsumerGroupDescribeResponse.json, ShareGroupDescribeResponse.json,
StreamsGroupDescribeResponse.json.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from penstock.base.ids import MemberEpoch
from penstock.broker.turns import SLICE, Pace
from penstock.kafka.request import Request
from penstock.protocol.error_codes import ErrorCode

Fields = dict[str, object]


class Description(Protocol):
    """A group of any such kind, or why there is none."""

    @property
    def error(self) -> ErrorCode: ...
    @property
    def message(self) -> str | None: ...
    @property
    def group_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def epoch(self) -> MemberEpoch: ...
    @property
    def target_epoch(self) -> MemberEpoch: ...


async def each_group(
    request: Request, tell: Callable[[str, Pace], Awaitable[Fields]]
) -> Mapping[str, object]:
    """Answer with each group once, in portions; `tell` returns the fields of one."""
    pace = Pace(request.turns)
    told: list[Fields] = []
    for group_id in request.body.group_ids:
        if request.is_first(group_id):
            await pace.step(SLICE)
            told.append(await tell(group_id, pace))
    return {"groups": told}


def group_fields(group: Description, operations: int, members: list[Fields]) -> Fields:
    """Return the fields of a group that all kinds have."""
    return {
        "error_code": group.error,
        "error_message": group.message,
        "group_id": group.group_id,
        "group_state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "members": members,
        "authorized_operations": operations,
    }
