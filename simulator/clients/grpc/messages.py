"""What only clients read, and what differs from how the front declares it.

Source: apache/rocketmq-apis, `definition.proto` and `service.proto`.
"""

from collections.abc import Sequence

from penstock.grpc.proto.messages import Digest, Duration, Property, Resource, Status
from penstock.protobuf.codec import Kind, field, message


@message
class DeliveredProperties:
    """What a consumer is told of a message beside its body and what users added."""

    message_id: str = field(3, Kind.TEXT, default="")
    body_digest: Digest | None = field(4, Kind.MESSAGE, Digest, default=None)
    message_type: int = field(6, Kind.INT, default=0)
    receipt_handle: str = field(12, Kind.TEXT, default="")
    queue_id: int = field(13, Kind.INT, default=0)
    queue_offset: int = field(14, Kind.INT, default=0)
    delivery_attempt: int = field(16, Kind.INT, default=0)
    message_group: str = field(17, Kind.TEXT, default="")


@message
class Delivered:
    """A message as a consumer gets it."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    user_properties: Sequence[Property] = field(2, Kind.MESSAGE, Property, default=())
    system_properties: DeliveredProperties | None = field(
        3, Kind.MESSAGE, DeliveredProperties, default=None
    )
    body: bytes = field(4, Kind.BYTES, default=b"")


@message
class Received:
    """One of: how it went; a message; when it was delivered."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    message: Delivered | None = field(2, Kind.MESSAGE, Delivered, default=None)
    delivery_timestamp: Duration | None = field(3, Kind.MESSAGE, Duration, default=None)
