"""What a broker asks the master of a replica set about recalls, for clients who ask it instead.

    RecallRequest ─► RecallResponse   take back a message that waits for its time

RocketMQ's gRPC clients ask the node that they know first, whatever set the message waits in.

Source: docs/adr/0165.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.coordinator.calls.asking import Asks, Told


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResponse(Told):
    """`code` is Kafka's, 0 if it is taken back and confirmed."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest(Asks[RecallResponse]):
    """Take a message back. That its client may do so is known."""

    replica_set_id: int
    until_ms: int
    """When it is to be delivered."""
    topic_id: bytes
    """16 bytes."""
    message_id: str

    def ids(self) -> Iterable[bytes]:
        """As in Message."""
        return (self.topic_id,)
