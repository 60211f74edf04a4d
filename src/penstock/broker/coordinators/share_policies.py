"""What groups ask of their shares: share groups of Kafka, and what RocketMQ's clients pop.

    GROUP             a share group: five deliveries, no dead letters
    rmq.pop.GROUP     what clients of the remoting front pop as GROUP: 17 deliveries, then a copy
                      among its dead letters

The name tells the kind, since a group of RocketMQ has positions as well, of what it pulls, and a
group of Kafka never is of two kinds. Tools see what is popped as a share group of that name.

Source: RocketMQ 5.3.3 `SubscriptionGroupConfig.retryMaxTimes` (16 after the first),
`BrokerConfig.popInflightMessageThreshold` (10,000 of a queue).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from penstock.configs.group_keys import POP_DELIVERIES, POP_ORDERED
from penstock.shares.config import ShareConfig, SharePolicy
from penstock.shares.state import ShareKey

POP_PREFIX: Final = "rmq.pop."
POP_DELIVERIES_MAX: Final = 17
IN_FLIGHT_MAX: Final = 10_000
MEMBER_IN_FLIGHT_MAX: Final = 2_000
"""A member that hangs, or fails with all it gets, leaves the rest to others."""

GroupKeys = Callable[[str], Mapping[str, str]]


class SharePolicies:
    """Of one broker."""

    __slots__ = ("_group_keys", "_of_kafka")

    def __init__(self, config: ShareConfig, group_keys: GroupKeys) -> None:
        """`group_keys` returns what is set for a group."""
        self._group_keys = group_keys
        self._of_kafka = SharePolicy(
            deliveries_max=config.deliveries_max,
            in_flight_max=config.record_locks_max,
            member_in_flight_max=config.record_locks_max,
        )

    def of(self, key: ShareKey) -> SharePolicy:
        """Return what the group of a share asks for now."""
        group = popping_group(key.group)
        if group is None:
            return self._of_kafka
        return _of_pop(deliveries_of_pop(self._group_keys(group)))


def deliveries_of_pop(keys: Mapping[str, str]) -> int:
    """Return how often a message is popped before it is given up; `keys` are those of the group."""
    kept = keys.get(POP_DELIVERIES)
    return POP_DELIVERIES_MAX if kept is None else int(kept)


def keeps_order(keys: Mapping[str, str]) -> bool:
    """Whether a group pops messages of a message group one after another; `keys` are its own."""
    return keys.get(POP_ORDERED) == "true"


def share_group(group: str) -> str:
    """Return the name under which a group's popping is kept."""
    return POP_PREFIX + group


def popping_group(share_group: str) -> str | None:
    """Return the group that pops under this name; None for a share group of Kafka."""
    return share_group.removeprefix(POP_PREFIX) if share_group.startswith(POP_PREFIX) else None


@lru_cache(maxsize=256)
def _of_pop(deliveries_max: int) -> SharePolicy:
    return SharePolicy(
        deliveries_max=deliveries_max,
        has_dead_letters=True,
        in_flight_max=IN_FLIGHT_MAX,
        member_in_flight_max=MEMBER_IN_FLIGHT_MAX,
    )
