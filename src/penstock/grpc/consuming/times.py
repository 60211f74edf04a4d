"""Durations that clients tell.

Source: apache.rocketmq.v2 (google.protobuf.Duration), RocketMQ's proxy
`GrpcValidator.validateInvisibleTime`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code

if TYPE_CHECKING:
    from penstock.grpc.client import GrpcClient
    from penstock.grpc.proto.messages import Duration

_NANOS_IN_MS: Final = 1_000_000
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last that a Timestamp may be, in the year 9999: clients refuse an answer with a later one,
and a topic may permit Kafka's producers any time."""


def ms_of(told: Duration) -> int:
    """Return a duration in ms, towards zero."""
    return told.seconds * 1_000 + int(told.nanos / _NANOS_IN_MS)


def invisible_ms(client: GrpcClient, told: Duration | None, least_ms: int) -> int:
    """Return for how long a message is to be invisible. Raises Refused."""
    ms = 0 if told is None else ms_of(told)
    most_ms = client.broker.shares.config.lock_max_ms
    if not least_ms <= ms <= most_ms:
        reason = f"a message is invisible for {least_ms // 1_000} s to {most_ms // 1_000} s"
        raise Refused(Code.ILLEGAL_INVISIBLE_TIME, reason)
    return ms
