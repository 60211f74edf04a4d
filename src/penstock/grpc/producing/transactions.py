"""A message of the type TRANSACTION as a half message: what is kept of it, and how it is named.

    group            the topic's name: producers of gRPC have no group of their own
    transaction id   where the half message is: 16 digits, which EndTransaction gives back
    first check      after `orphaned_transaction_recovery_duration`, else as the node is set

It has neither a message group nor a time of its own: it is there when it is committed.

Source: RocketMQ's proxy `SendMessageActivity.buildMessageProperty`. Departure: RocketMQ's
transaction id is the message's, and the proxy that took it remembers where it is; ours names the
place, so that any master of the set can decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.grpc.consuming.times import ms_of
from penstock.grpc.errors import Refused
from penstock.grpc.statuses import Code
from penstock.remoting.halves.record import BY_PLACE, OWN_OFFSET, TRAN_MSG, Half
from penstock.remoting.halves.times import IMMUNITY, KEPT_MS
from penstock.remoting.ids import Located, located

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition
    from penstock.grpc.proto.messages import SystemProperties
    from penstock.remoting.halves.halves import Halves

_GROUP: Final = "PGROUP"
_DIGITS: Final = 16
_HEX: Final = frozenset("0123456789ABCDEF")


def half_properties(topic: str, system: SystemProperties) -> dict[str, str]:
    """Return what a half message has beside its own properties. Raises Refused."""
    told = {TRAN_MSG: BY_PLACE.decode(), _GROUP: topic}
    recovery = system.orphaned_transaction_recovery_duration
    if recovery is not None:
        seconds = -(-ms_of(recovery) // 1_000)
        if not 0 <= seconds <= KEPT_MS // 1_000:
            most = f"0 s to {KEPT_MS // 1_000} s"
            raise Refused(Code.BAD_REQUEST, f"a transaction is asked for after {most}")
        if seconds:
            told[IMMUNITY] = str(seconds)
    return told


def half_of(halves: Halves, hosted: HostedPartition, told: Mapping[str, str]) -> Half:
    """Return a half message, whose due time is counted from now."""
    first_ms = halves.times.first_check_ms(told)
    topic = hosted.topic
    return Half(OWN_OFFSET, first_ms, 0, topic.topic_id, hosted.partition, topic.name)


def read_transaction_id(text: str) -> Located:
    """Return where a half message is. Raises Refused."""
    place = None
    if len(text) == _DIGITS and _HEX.issuperset(text):
        place = located(int(text, 16))
    if place is None or place.is_retry:
        raise Refused(Code.INVALID_TRANSACTION_ID, "it is no transaction id that was told here")
    return place
