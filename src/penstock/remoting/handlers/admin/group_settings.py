"""What RocketMQ's tools set for a consumer group, and what of it has a counterpart here.

    retryMaxTimes     one less than the group's key `rmq.pop.deliveries.max`: of pops. Consumers
                      that pull say themselves how often they want a message (maxReconsumeTimes)
    consumeBroadcastEnable, consumeFromMinEnable    taken, without an effect
    all others        as RocketMQ has them unless they are set; another value is refused

Source: RocketMQ 5.3.3 `SubscriptionGroupConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.configs.group_keys import GROUP_CONFIGS, POP_DELIVERIES

if TYPE_CHECKING:
    from penstock.remoting.request import RemotingContext

USUAL: Final[Mapping[str, object]] = {
    "attributes": {},
    "brokerId": 0,
    "consumeBroadcastEnable": True,
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "consumeMessageOrderly": False,
    "consumeTimeoutMinute": 15,
    "groupRetryPolicy": {"type": "CUSTOMIZED"},
    "groupSysFlag": 0,
    "notifyConsumerIdsChangedEnable": True,
    "retryQueueNums": 1,
    "whichBrokerWhenConsumeSlowly": 1,
}


WITHOUT_EFFECT: Final = frozenset({"consumeBroadcastEnable", "consumeFromMinEnable"})
"""Taken whatever they are: mqadmin turns both off unless it is told otherwise. Groups may consume
as they want, and begin where their clients say."""


def told_settings(context: RemotingContext, group: str) -> Mapping[str, object]:
    """Return what is set for a group, known or not."""
    kept = context.broker.share_places.group_keys(group).get(POP_DELIVERIES)
    deliveries = int(GROUP_CONFIGS[POP_DELIVERIES].default if kept is None else kept)
    return {**USUAL, "groupName": group, "retryMaxTimes": deliveries - 1}
