"""The one place where errors become codes of answers.

Producers send again, to another broker if there is one, after TOPIC_NOT_EXIST,
SERVICE_NOT_AVAILABLE, SYSTEM_ERROR, SYSTEM_BUSY and NO_PERMISSION, and after no other code.

Source: RocketMQ `DefaultMQProducer.retryResponseCodes`, `SendMessageProcessor`.
"""

from typing import Final

from penstock.base.errors import PlatformError
from penstock.broker import errors as broker
from penstock.controller import errors as controller
from penstock.record import errors as record
from penstock.remoting import errors as remoting
from penstock.remoting import members
from penstock.remoting.filters import errors as filters
from penstock.remoting.operating import questions
from penstock.remoting.recall import errors as recall
from penstock.remoting.wire.codes import ResponseCode
from penstock.replication import errors as replication
from penstock.storage import errors as storage

_CODES: Final[dict[type[PlatformError], ResponseCode]] = {
    broker.NotAuthorised: ResponseCode.NO_PERMISSION,
    broker.InternalTopicRefused: ResponseCode.NO_PERMISSION,
    broker.MutationQuotaExceeded: ResponseCode.SYSTEM_BUSY,
    broker.UnknownPartition: ResponseCode.TOPIC_NOT_EXIST,
    broker.TierUnavailable: ResponseCode.SERVICE_NOT_AVAILABLE,
    controller.UnknownTopic: ResponseCode.TOPIC_NOT_EXIST,
    controller.InvalidTopicName: ResponseCode.TOPIC_NOT_EXIST,
    record.RecordError: ResponseCode.MESSAGE_ILLEGAL,
    storage.BatchTooLargeForLog: ResponseCode.MESSAGE_ILLEGAL,
    remoting.IllegalMessage: ResponseCode.MESSAGE_ILLEGAL,
    remoting.InvalidParameter: ResponseCode.INVALID_PARAMETER,
    remoting.HalvesNotReady: ResponseCode.SERVICE_NOT_AVAILABLE,
    remoting.TooManyHalves: ResponseCode.SYSTEM_BUSY,
    recall.RecallRefused: ResponseCode.ILLEGAL_OPERATION,
    recall.TooManyRecalls: ResponseCode.SYSTEM_BUSY,
    recall.RecallsNotReady: ResponseCode.SERVICE_NOT_AVAILABLE,
    remoting.IndexBehind: ResponseCode.SYSTEM_BUSY,
    remoting.BadReceipt: ResponseCode.NO_MESSAGE,
    remoting.PopUnavailable: ResponseCode.SERVICE_NOT_AVAILABLE,
    replication.ReplicationError: ResponseCode.SERVICE_NOT_AVAILABLE,
    storage.LogBusy: ResponseCode.SERVICE_NOT_AVAILABLE,
    storage.LogFollows: ResponseCode.SERVICE_NOT_AVAILABLE,
    questions.TooManyQuestions: ResponseCode.SYSTEM_BUSY,
    questions.ClientSilent: ResponseCode.CONSUME_MSG_TIMEOUT,
    members.TooManyMembers: ResponseCode.SYSTEM_BUSY,
    filters.SubscriptionMissing: ResponseCode.SUBSCRIPTION_NOT_EXIST,
    filters.SubscriptionOlder: ResponseCode.SUBSCRIPTION_NOT_LATEST,
    filters.FilterMissing: ResponseCode.FILTER_DATA_NOT_EXIST,
}


def code_of(error: PlatformError) -> ResponseCode:
    """Return the code of an answer for an error of any room."""
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    return ResponseCode.SYSTEM_ERROR
