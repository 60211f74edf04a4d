"""A message of the type DELAY: when it is to be there.

    over, or now            it is sent at once
    not too far away        it waits, and comes within a second of its time, never before it
    further away            ILLEGAL_DELIVERY_TIME; `grpc.delay_ms_max` says what that is

Consumers are told the time, by the property that RocketMQ has for it. Such a message has no message
group: it would come in between others of its group.

Source: RocketMQ's proxy `SendMessageActivity.fillDelayMessageProperty` (`maxDelayTimeMills`, 24 h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code
from penstock.remoting.system_names import DELIVER_MS

if TYPE_CHECKING:
    from penstock.grpc.proto.messages import Duration

_SECONDS_MAX: Final = 1 << 40
_NANOS: Final = 1_000_000_000
_NANOS_IN_MS: Final = 1_000_000


def delivery_ms(told: Duration | None, now_ms: int, most_ms: int) -> int:
    """Return when a message is to be there, in ms and not before it is told. Raises Refused."""
    if told is None:
        why = "a delayed message has a delivery timestamp"
        raise Refused(Code.ILLEGAL_DELIVERY_TIME, why)
    if not 0 <= told.seconds < _SECONDS_MAX or not 0 <= told.nanos < _NANOS:
        raise Refused(Code.ILLEGAL_DELIVERY_TIME, "the delivery timestamp is no time")
    ms = told.seconds * 1_000 - (-told.nanos // _NANOS_IN_MS)
    if ms - now_ms > most_ms:
        why = f"a message is delivered within {most_ms / 3_600_000:g} h"
        raise Refused(Code.ILLEGAL_DELIVERY_TIME, why)
    return ms


def delay_properties(until_ms: int) -> dict[str, str]:
    """Return what a delayed message has beside its own properties."""
    return {DELIVER_MS: str(until_ms)}
