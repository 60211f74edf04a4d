"""Which queues a member has that asks the broker instead of dividing them itself.

    POP     every set of the topic, with queue -1: any of its queues. So nobody waits for a member
            that hangs with queues of its own
    PULL    its share of the queues, by the strategy that it names; RocketMQ's two

Members and queues are in order, so that every node answers the same.

Source: RocketMQ 5.3.3 `QueryAssignmentProcessor`, `AllocateMessageQueueAveragely`,
`AllocateMessageQueueAveragelyByCircle`. Departure: in POP each member has all queues, also where
a number of members was set that share a queue (popShareQueueNum).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Strategy = Callable[[int, int, Sequence[T]], Sequence[T]]
ANY_QUEUE: Final = -1


def averagely(place: int, count: int, queues: Sequence[T]) -> Sequence[T]:
    """Return the queues of the member at a place of so many: neighbours, the first have more."""
    each, more = divmod(len(queues), count)
    begin = place * each + min(place, more)
    return queues[begin : begin + each + (place < more)]


def by_circle(place: int, count: int, queues: Sequence[T]) -> Sequence[T]:
    """Return every so manieth queue, from the member's place on."""
    return queues[place::count]


STRATEGIES: Final[Mapping[str, Strategy[tuple[str, int]]]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": by_circle,
}


def queues_of_member(
    client_id: str, client_ids: Sequence[str], strategy: str, queues: Sequence[tuple[str, int]]
) -> Sequence[tuple[str, int]] | None:
    """Return a member's queues, by broker name and queue id; None for a strategy that is unknown.

    Who is no member has none.
    """
    divide = STRATEGIES.get(strategy)
    if divide is None:
        return None
    members = sorted(client_ids)
    if client_id not in members:
        return ()
    return divide(members.index(client_id), len(members), sorted(queues))
