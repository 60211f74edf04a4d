"""Messages of apache.rocketmq.v2 that this front reads or writes, with the fields that it uses.

Source: apache/rocketmq-apis, `definition.proto` and `service.proto`. What a client sends beside
these fields is skipped.
"""

from collections.abc import Sequence

from penstock.protobuf.codec import Kind, field, message


@message
class Status:
    """What became of a request."""

    code: int = field(1, Kind.INT, default=0)
    message: str = field(2, Kind.TEXT, default="")


@message
class Answer:
    """What every answer of the service begins with, and some have nothing else."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)


@message
class Duration:
    """A time that passes; a timestamp has the same fields, from 1970 on."""

    seconds: int = field(1, Kind.INT, default=0)
    nanos: int = field(2, Kind.INT, default=0)


@message
class Resource:
    """A topic or a group."""

    resource_namespace: str = field(1, Kind.TEXT, default="")
    name: str = field(2, Kind.TEXT, default="")


@message
class Address:
    """A host and a port."""

    host: str = field(1, Kind.TEXT, default="")
    port: int = field(2, Kind.INT, default=0)


@message
class Endpoints:
    """Where somebody is reached."""

    scheme: int = field(1, Kind.INT, default=0)
    addresses: Sequence[Address] = field(2, Kind.MESSAGE, Address, default=())


@message
class Broker:
    """Who has a queue. Clients use those with the id 0, which are masters."""

    name: str = field(1, Kind.TEXT, default="")
    id: int = field(2, Kind.INT, default=0)
    endpoints: Endpoints | None = field(3, Kind.MESSAGE, Endpoints, default=None)


@message
class MessageQueue:
    """A partition of a topic."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    id: int = field(2, Kind.INT, default=0)
    permission: int = field(3, Kind.INT, default=0)
    broker: Broker | None = field(4, Kind.MESSAGE, Broker, default=None)
    accept_message_types: Sequence[int] = field(5, Kind.INT, default=())


@message
class QueryRouteRequest:
    """Which queues a topic has."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)


@message
class QueryRouteResponse:
    """Those queues."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    message_queues: Sequence[MessageQueue] = field(2, Kind.MESSAGE, MessageQueue, default=())


@message
class Digest:
    """A checksum of a body."""

    type: int = field(1, Kind.INT, default=0)
    checksum: str = field(2, Kind.TEXT, default="")


@message
class SystemProperties:
    """What clients tell of a message beside its body and what users add."""

    tag: str | None = field(1, Kind.TEXT, default=None)
    keys: Sequence[str] = field(2, Kind.TEXT, default=())
    message_id: str = field(3, Kind.TEXT, default="")
    body_digest: Digest | None = field(4, Kind.MESSAGE, Digest, default=None)
    body_encoding: int = field(5, Kind.INT, default=0)
    message_type: int = field(6, Kind.INT, default=0)
    born_timestamp: Duration | None = field(7, Kind.MESSAGE, Duration, default=None)
    born_host: str = field(8, Kind.TEXT, default="")
    delivery_timestamp: Duration | None = field(11, Kind.MESSAGE, Duration, default=None)
    queue_id: int = field(13, Kind.INT, default=0)
    message_group: str | None = field(17, Kind.TEXT, default=None)
    trace_context: str | None = field(18, Kind.TEXT, default=None)
    orphaned_transaction_recovery_duration: Duration | None = field(
        19, Kind.MESSAGE, Duration, default=None
    )
    lite_topic: str | None = field(21, Kind.TEXT, default=None)
    priority: int | None = field(22, Kind.INT, default=None)


@message
class Property:
    """A property that a user gives to a message."""

    key: str = field(1, Kind.TEXT, default="")
    value: str = field(2, Kind.TEXT, default="")


@message
class Message:
    """A message."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    user_properties: Sequence[Property] = field(2, Kind.MESSAGE, Property, default=())
    system_properties: SystemProperties | None = field(
        3, Kind.MESSAGE, SystemProperties, default=None
    )
    body: bytes = field(4, Kind.BYTES, default=b"")


@message
class SendMessageRequest:
    """Messages for one topic; clients send one."""

    messages: Sequence[Message] = field(1, Kind.MESSAGE, Message, default=())


@message
class SendResultEntry:
    """What became of one message."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    message_id: str = field(2, Kind.TEXT, default="")
    transaction_id: str = field(3, Kind.TEXT, default="")
    offset: int = field(4, Kind.INT, default=0)
    recall_handle: str = field(5, Kind.TEXT, default="")


@message
class SendMessageResponse:
    """What became of all of them."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    entries: Sequence[SendResultEntry] = field(2, Kind.MESSAGE, SendResultEntry, default=())


@message
class HeartbeatRequest:
    """A client that is still there."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    client_type: int = field(2, Kind.INT, default=0)


@message
class ExponentialBackoff:
    """Pauses that grow."""

    initial: Duration | None = field(1, Kind.MESSAGE, Duration, default=None)
    max: Duration | None = field(2, Kind.MESSAGE, Duration, default=None)
    multiplier: float = field(3, Kind.FLOAT, default=0.0)


@message
class CustomizedBackoff:
    """Pauses that are told one by one; the last one holds from there on."""

    next: Sequence[Duration] = field(1, Kind.MESSAGE, Duration, default=())


@message
class RetryPolicy:
    """How often a client tries, and when."""

    max_attempts: int = field(1, Kind.INT, default=0)
    exponential_backoff: ExponentialBackoff | None = field(
        2, Kind.MESSAGE, ExponentialBackoff, default=None
    )
    customized_backoff: CustomizedBackoff | None = field(
        3, Kind.MESSAGE, CustomizedBackoff, default=None
    )


@message
class Publishing:
    """Settings of a producer."""

    topics: Sequence[Resource] = field(1, Kind.MESSAGE, Resource, default=())
    max_body_size: int = field(2, Kind.INT, default=0)
    validate_message_type: int = field(3, Kind.INT, default=0)


@message
class FilterExpression:
    """Which messages of a topic a consumer wants: by tags, 1, or by SQL-92, 2."""

    type: int = field(1, Kind.INT, default=0)
    expression: str = field(2, Kind.TEXT, default="")


@message
class SubscriptionEntry:
    """What a consumer wants of a topic."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    expression: FilterExpression | None = field(2, Kind.MESSAGE, FilterExpression, default=None)


@message
class Subscription:
    """Settings of a consumer."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    subscriptions: Sequence[SubscriptionEntry] = field(
        2, Kind.MESSAGE, SubscriptionEntry, default=()
    )
    fifo: int | None = field(3, Kind.INT, default=None)
    receive_batch_size: int | None = field(4, Kind.INT, default=None)
    long_polling_timeout: Duration | None = field(5, Kind.MESSAGE, Duration, default=None)


@message
class Metric:
    """Whether a client is to send measurements."""

    on: int = field(1, Kind.INT, default=0)


@message
class Settings:
    """What client and server tell each other of how they work."""

    client_type: int | None = field(1, Kind.INT, default=None)
    access_point: Endpoints | None = field(2, Kind.MESSAGE, Endpoints, default=None)
    backoff_policy: RetryPolicy | None = field(3, Kind.MESSAGE, RetryPolicy, default=None)
    request_timeout: Duration | None = field(4, Kind.MESSAGE, Duration, default=None)
    publishing: Publishing | None = field(5, Kind.MESSAGE, Publishing, default=None)
    subscription: Subscription | None = field(6, Kind.MESSAGE, Subscription, default=None)
    metric: Metric | None = field(8, Kind.MESSAGE, Metric, default=None)


@message
class EndTransactionRequest:
    """What has become of a transaction: committed, 1, or rolled back, 2."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    message_id: str = field(2, Kind.TEXT, default="")
    transaction_id: str = field(3, Kind.TEXT, default="")
    resolution: int = field(4, Kind.INT, default=0)
    source: int = field(5, Kind.INT, default=0)


@message
class RecallMessageRequest:
    """Takes a message back that waits for its time."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    recall_handle: str = field(2, Kind.TEXT, default="")


@message
class RecallMessageResponse:
    """The id of the message, if it is taken back."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    message_id: str = field(2, Kind.TEXT, default="")


@message
class RecoverOrphanedTransactionCommand:
    """A transaction whose producer has not said what has become of it."""

    message: Message | None = field(1, Kind.MESSAGE, Message, default=None)
    transaction_id: str = field(2, Kind.TEXT, default="")


@message
class TelemetryCommand:
    """What either side says on the stream that stays open."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    settings: Settings | None = field(2, Kind.MESSAGE, Settings, default=None)
    recover_orphaned_transaction_command: RecoverOrphanedTransactionCommand | None = field(
        5, Kind.MESSAGE, RecoverOrphanedTransactionCommand, default=None
    )


@message
class ReceiveMessageRequest:
    """Messages for a consumer, at once or as soon as there are some."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    message_queue: MessageQueue | None = field(2, Kind.MESSAGE, MessageQueue, default=None)
    filter_expression: FilterExpression | None = field(
        3, Kind.MESSAGE, FilterExpression, default=None
    )
    batch_size: int = field(4, Kind.INT, default=0)
    invisible_duration: Duration | None = field(5, Kind.MESSAGE, Duration, default=None)
    auto_renew: int = field(6, Kind.INT, default=0)
    long_polling_timeout: Duration | None = field(7, Kind.MESSAGE, Duration, default=None)
    attempt_id: str | None = field(8, Kind.TEXT, default=None)


@message
class ReceiveMessageResponse:
    """One of: how it went; a message, which delivered.py encodes; when it was delivered."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    delivery_timestamp: Duration | None = field(3, Kind.MESSAGE, Duration, default=None)


@message
class AckMessageEntry:
    """A message that is processed."""

    message_id: str = field(1, Kind.TEXT, default="")
    receipt_handle: str = field(2, Kind.TEXT, default="")


@message
class AckMessageRequest:
    """Messages of one topic that are processed."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    topic: Resource | None = field(2, Kind.MESSAGE, Resource, default=None)
    entries: Sequence[AckMessageEntry] = field(3, Kind.MESSAGE, AckMessageEntry, default=())


@message
class AckMessageResultEntry:
    """What became of one acknowledgement."""

    message_id: str = field(1, Kind.TEXT, default="")
    receipt_handle: str = field(2, Kind.TEXT, default="")
    status: Status | None = field(3, Kind.MESSAGE, Status, default=None)


@message
class AckMessageResponse:
    """What became of all of them."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    entries: Sequence[AckMessageResultEntry] = field(
        2, Kind.MESSAGE, AckMessageResultEntry, default=()
    )


@message
class ChangeInvisibleDurationRequest:
    """How long from now on nobody else is to get a message."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    topic: Resource | None = field(2, Kind.MESSAGE, Resource, default=None)
    receipt_handle: str = field(3, Kind.TEXT, default="")
    invisible_duration: Duration | None = field(4, Kind.MESSAGE, Duration, default=None)
    message_id: str = field(5, Kind.TEXT, default="")


@message
class ChangeInvisibleDurationResponse:
    """The receipt of the message from now on."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    receipt_handle: str = field(2, Kind.TEXT, default="")


@message
class ForwardMessageToDeadLetterQueueRequest:
    """A message that its consumer gives up."""

    group: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    topic: Resource | None = field(2, Kind.MESSAGE, Resource, default=None)
    receipt_handle: str = field(3, Kind.TEXT, default="")
    message_id: str = field(4, Kind.TEXT, default="")


@message
class QueryAssignmentRequest:
    """From where a push consumer is to receive."""

    topic: Resource | None = field(1, Kind.MESSAGE, Resource, default=None)
    group: Resource | None = field(2, Kind.MESSAGE, Resource, default=None)


@message
class Assignment:
    """One such place."""

    message_queue: MessageQueue | None = field(1, Kind.MESSAGE, MessageQueue, default=None)


@message
class QueryAssignmentResponse:
    """Those places."""

    status: Status | None = field(1, Kind.MESSAGE, Status, default=None)
    assignments: Sequence[Assignment] = field(2, Kind.MESSAGE, Assignment, default=())
