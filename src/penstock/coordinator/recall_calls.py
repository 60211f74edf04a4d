"""What a broker asks the master of a replica set about recalls, for clients who ask it instead.

    RecallRequest ─► RecallResponse   take back a message that waits for its time

RocketMQ's gRPC clients ask the node that they know first, whatever set the message waits in.

Source: docs/adr/0165. The rest of calls is in calls.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallRequest:
    """Take a message back. That its client may do so is known."""

    replica_set_id: int
    until_ms: int
    """When it is to be delivered."""
    topic_id: bytes
    """16 bytes."""
    message_id: str
    correlation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallResponse:
    """`code` is Kafka's, 0 if it is taken back and confirmed."""

    code: int
    reason: str = ""
    correlation: int = 0
