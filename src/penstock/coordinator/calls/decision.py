"""What a broker asks the master of a replica set about a half message, for a producer who asks it.

    DecisionRequest ─► DecisionResponse   commit a half message, or roll it back

A producer of RocketMQ's gRPC clients tells its decision to the node that took the half message, or
to the node that it knows first: either may lead the set no more.

Source: docs/adr/0204.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.coordinator.calls.asking import Asks, Told


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionResponse(Told):
    """`code` is Kafka's, 0 if the decision is confirmed."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest(Asks[DecisionResponse]):
    """Decide a half message. That its client may write to the topic is known."""

    partition: int
    """Of the internal topic of half messages."""
    offset: int
    """Where the half message was put first, in that partition."""
    is_commit: bool
    topic_id: bytes
    """16 bytes; of the topic that it is to be of."""
    message_id: str

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)
