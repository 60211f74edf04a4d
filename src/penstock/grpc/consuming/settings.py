"""Settings of consumers: what a node tells them of how they are to work.

    batch of 32, long polls of 20 s, attempts as the group has deliveries
    whether order by message group is kept, as the group is set
    pauses before the next attempt: RocketMQ's eighteen, 1 s to 2 h

Source: RocketMQ's proxy `GrpcClientSettingsManager.mergeSubscriptionData`,
`CustomizedRetryPolicy`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.broker.coordinators.share_policies import deliveries_of_pop, keeps_order
from penstock.grpc.proto.messages import (
    CustomizedBackoff,
    Duration,
    Metric,
    RetryPolicy,
    Settings,
    Subscription,
)

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

BATCH_MAX: Final = 32
"""RocketMQ's bound of a pop."""
POLL_MS_MAX: Final = 20_000
_MINUTE: Final = 60
_PAUSES: Final = (1, 5, 10, 30, *(_MINUTE * one for one in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)))
_LONG_PAUSES: Final = tuple(_MINUTE * one for one in (20, 30, 60, 120))
_BACKOFF: Final = CustomizedBackoff(
    next=tuple(Duration(seconds=one) for one in (*_PAUSES, *_LONG_PAUSES))
)


def consumer_settings(broker: Broker, group: str, told: Settings) -> Settings:
    """Return the settings of a consumer of a group, which has told its own."""
    own = told.subscription or Subscription()
    keys = broker.share_places.group_keys(group)
    deliveries_max = deliveries_of_pop(keys)
    subscription = replace(
        own,
        fifo=int(keeps_order(keys)),
        receive_batch_size=BATCH_MAX,
        long_polling_timeout=Duration(seconds=POLL_MS_MAX // 1_000),
    )
    return replace(
        told,
        backoff_policy=RetryPolicy(max_attempts=deliveries_max, customized_backoff=_BACKOFF),
        publishing=None,
        subscription=subscription,
        metric=Metric(),
    )
