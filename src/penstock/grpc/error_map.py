"""The one place where errors become codes of answers.

Producers try again after each of them, at another node if there is one, but for TOO_MANY_REQUESTS.

Source: RocketMQ's proxy `ResponseBuilder`, for a missing topic its text, too: clients look for it.
"""

from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker import errors as broker
from penstock.controller import errors as controller
from penstock.grpc import errors as grpc
from penstock.grpc.consuming import consumers
from penstock.grpc.producing import producers
from penstock.grpc.proto.messages import Status
from penstock.grpc.statuses import Code
from penstock.protobuf import errors as protobuf
from penstock.record import errors as record
from penstock.remoting import errors as remoting
from penstock.remoting.recall import errors as recall
from penstock.replication import errors as replication
from penstock.storage import errors as storage

_CODES: Final[dict[type[PlatformError], Code]] = {
    broker.NotAuthorised: Code.FORBIDDEN,
    broker.InternalTopicRefused: Code.FORBIDDEN,
    broker.MutationQuotaExceeded: Code.TOO_MANY_REQUESTS,
    broker.UnknownPartition: Code.TOPIC_NOT_FOUND,
    controller.UnknownTopic: Code.TOPIC_NOT_FOUND,
    controller.InvalidTopicName: Code.ILLEGAL_TOPIC,
    record.RecordError: Code.BAD_REQUEST,
    record.BatchTooLarge: Code.MESSAGE_BODY_TOO_LARGE,
    storage.BatchTooLargeForLog: Code.MESSAGE_BODY_TOO_LARGE,
    remoting.IllegalMessage: Code.BAD_REQUEST,
    recall.BadHandle: Code.BAD_REQUEST,
    recall.TooLate: Code.MESSAGE_NOT_FOUND,
    recall.TooManyRecalls: Code.TOO_MANY_REQUESTS,
    recall.RecallsNotReady: Code.HA_NOT_AVAILABLE,
    remoting.BadReceipt: Code.INVALID_RECEIPT_HANDLE,
    remoting.PopUnavailable: Code.HA_NOT_AVAILABLE,
    remoting.WrongHalf: Code.INVALID_TRANSACTION_ID,
    remoting.MessageGone: Code.INVALID_TRANSACTION_ID,
    remoting.AlreadyDecided: Code.BAD_REQUEST,
    remoting.HalvesNotReady: Code.HA_NOT_AVAILABLE,
    remoting.TooManyHalves: Code.TOO_MANY_REQUESTS,
    consumers.TooManyConsumers: Code.TOO_MANY_REQUESTS,
    producers.TooManyProducers: Code.TOO_MANY_REQUESTS,
    remoting.SendTimedOut: Code.SLAVE_PERSISTENCE_TIMEOUT,
    replication.ReplicationError: Code.HA_NOT_AVAILABLE,
    storage.LogBusy: Code.HA_NOT_AVAILABLE,
    storage.LogFollows: Code.HA_NOT_AVAILABLE,
    protobuf.MalformedMessage: Code.BAD_REQUEST,
}


def status_of(error: PlatformError) -> Status:
    """Return what an answer says of an error of any room."""
    if isinstance(error, grpc.Refused):
        return Status(code=error.code, message=error.reason)
    if isinstance(error, controller.UnknownTopic):
        told = f"CODE: 17  DESC: No topic route info in name server for the topic: {error.name}"
        return Status(code=Code.TOPIC_NOT_FOUND, message=told)
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return Status(code=code, message=str(error) or type(error).__name__)
    return Status(code=Code.INTERNAL_SERVER_ERROR, message=str(error) or type(error).__name__)
