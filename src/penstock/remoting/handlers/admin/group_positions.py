"""All positions of a group, from the broker that coordinates it, page by page.

Source: ours; positions.py has single ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.broker.coordinators.positions import GroupPositions, coordinator_of
from penstock.coordinator.calls.asking import CallError
from penstock.coordinator.calls.positions import GroupPositionsRequest, GroupPositionsResponse
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.remoting.errors import PositionRefused
from penstock.remoting.positions import ANSWER_MS

if TYPE_CHECKING:
    from penstock.base.ids import BrokerId
    from penstock.broker.turns import Pace
    from penstock.remoting.front import RemotingFront

POSITIONS_MAX: Final = 20_000
"""Of a group that is told of; they are in memory meanwhile, some 100 bytes each."""

Positions = Mapping[str, Mapping[int, tuple[bytes, int]]]
"""By topic and partition: id of the topic, offset."""


async def positions_of(front: RemotingFront, group: str, pace: Pace) -> Positions:
    """Return the positions of a group; none if it has none, or is unknown.

    Raises PositionRefused, also if the group has too many.
    """
    coordinator = coordinator_of(front.broker, group)
    found: dict[str, dict[int, tuple[bytes, int]]] = {}
    if coordinator is None:
        return found
    asked, count = GroupPositionsRequest(group=group), 0
    while True:
        page = await _page(front, coordinator, asked)
        count += len(page.positions)
        if count > POSITIONS_MAX:
            raise PositionRefused(f"the group has more than {POSITIONS_MAX} positions")
        for one in page.positions:
            await pace.step()
            found.setdefault(one.topic, {})[one.partition] = one.topic_id, one.offset
        if page.is_last or not page.positions:
            return found
        last = page.positions[-1]
        asked = GroupPositionsRequest(
            group=group, after_topic=last.topic, after_partition=last.partition
        )


async def _page(
    front: RemotingFront, coordinator: BrokerId, asked: GroupPositionsRequest
) -> GroupPositionsResponse:
    if coordinator == front.broker.broker_id:
        page = GroupPositions(front.broker).page(asked)
    else:
        try:
            page = await front.calls.ask(coordinator, asked, timeout_ms=ANSWER_MS)
        except CallError as error:
            raise PositionRefused(str(error) or type(error).__name__) from error
    code = known_code(page.code)
    if code is not ErrorCode.NONE:
        raise PositionRefused(code.name)
    return page
