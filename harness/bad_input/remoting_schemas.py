"""What requests of RocketMQ's remoting clients consist of: fields, bodies, and the largest of each.

Every request code that a node serves is here, which a test compares with its dispatcher. A field
has values that are legal; the largest request has the longest or the highest of each, and the
largest body that its layout permits.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from time import time
from typing import Any, Final, NamedTuple

from penstock.base.ids import ReplicaSetId
from penstock.remoting.dispatch import BODY_BYTES_MAX
from penstock.remoting.handlers.locks import QUEUES_MAX
from penstock.remoting.heartbeat import GROUPS_MAX
from penstock.remoting.recall.handle import Handle, handle_text
from penstock.remoting.wire.batch_body import MESSAGES_MAX, BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command, Serialisation
from penstock.remoting.wire.frame import encode_frame

TOPIC, SET = "remoting-attacked", "set-1"
"""A topic that is there while frames are sent, and the replica set of its queues."""
GROUP, CLIENT = "attackers", "10.0.0.1@7"
INT32_MAX, INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
C = RequestCode
Body = Callable[[], bytes]


class Schema(NamedTuple):
    """The request of one code."""

    fields: Mapping[str, tuple[str, ...]]
    """Legal values of each, the last one the largest."""
    body: Body = bytes
    largest: Body = bytes


def _json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _numbers(*small: int, most: int = INT64_MAX) -> tuple[str, ...]:
    return tuple(map(str, (*small, most)))


_TEXT = {"topic": (TOPIC,), "consumerGroup": (GROUP,)}
_QUEUE = {"topic": (TOPIC,), "queueId": ("0",), "bname": (SET,)}
_OF_GROUP = _QUEUE | {"consumerGroup": (GROUP,)}
_RECEIPT = {"extraInfo": (f"0 1 60000 7 0 {SET} 0 0",), "offset": _numbers(0)}
_PROPERTIES = ("", "TAGS\1a\2", "".join(f"p{one}\1v\2" for one in range(4_000)))
_SEND = {
    "a": ("p",),
    "b": (TOPIC,),
    "e": ("0",),
    "f": ("0",),
    "g": _numbers(0, most=1 << 42),
    "h": _numbers(0, most=INT32_MAX),
    "i": _PROPERTIES,
    "j": ("0",),
    "m": ("false",),
    "n": (SET,),
}
_LONG_SEND = {
    "producerGroup": ("p",),
    "topic": (TOPIC,),
    "queueId": ("0",),
    "sysFlag": ("0",),
    "bornTimestamp": _numbers(0, most=1 << 42),
    "flag": ("0",),
    "properties": _PROPERTIES,
    "bname": (SET,),
}
_PULL = _OF_GROUP | {
    "queueOffset": _numbers(0),
    "maxMsgNums": _numbers(1, 32, most=INT32_MAX),
    "sysFlag": ("4", "7", "6"),
    "commitOffset": _numbers(0),
    "suspendTimeoutMillis": ("0", "1", "100"),
    "subscription": ("*", "||".join(f"tag{one}" for one in range(1_000))),
}
_POP = _OF_GROUP | {
    "queueId": ("0", "-1"),
    "maxMsgNums": ("1", "32"),
    "invisibleTime": _numbers(1, 10_000),
    "pollTime": ("0", "1", "100"),
    "bornTime": _numbers(0),
    "initMode": ("0", "1"),
    "exp": ("*", "a||b"),
    "expType": ("TAG",),
}


def _message() -> bytes:
    return b"body"


def _largest_message() -> bytes:
    return bytes(1_000_000)


def _batch() -> bytes:
    return encode_batch([BatchedMessage(0, b"body", "TAGS\1a\2")] * 2)


def _largest_batch() -> bytes:
    return encode_batch([BatchedMessage(0, b"x", "")] * MESSAGES_MAX)


def _beat(groups: int = 1, topics: int = 1) -> bytes:
    topic = {"topic": TOPIC, "subString": "*", "expressionType": "TAG", "subVersion": 1}
    consumers = [
        {"groupName": f"{GROUP}-{one}", "subscriptionDataSet": [topic] * topics}
        for one in range(groups)
    ]
    return _json(clientID=CLIENT, consumerDataSet=consumers, producerDataSet=[{"groupName": "p"}])


def _locks(queues: int = 1) -> bytes:
    asked = [{"topic": TOPIC, "brokerName": SET, "queueId": one} for one in range(queues)]
    return _json(consumerGroup=f"{GROUP}-0", clientId=CLIENT, mqSet=asked)


def _acks(hand_outs: int = 1) -> bytes:
    one = {"c": GROUP, "t": TOPIC, "q": 0, "so": 0, "rq": 1, "pt": 1, "it": 1, "b": "/w=="}
    return _json(brokerName=SET, acks=[one] * hand_outs)


def _handle(message_id: str) -> str:
    """A message that nobody has sent, tomorrow."""
    tomorrow_ms = (int(time()) + 86_400) * 1_000
    return handle_text(Handle(TOPIC, ReplicaSetId(1), tomorrow_ms, message_id))


def _assignment() -> bytes:
    return _json(topic=TOPIC, consumerGroup=GROUP, clientId=CLIENT, messageModel="BROADCASTING")


def _check(expression: str = "a = 1") -> bytes:
    return _json(
        subscriptionData={"topic": TOPIC, "subString": expression, "expressionType": "SQL92"}
    )


_NAMED, _MISSING = {"topic": (TOPIC,)}, {"topic": ("missing",)}
_OF_OPERATORS: Final[Mapping[RequestCode, Schema]] = {
    C.QUERY_MESSAGE: Schema(
        _NAMED
        | {
            "key": ("k", "k" * (32 << 10)),
            "maxNum": _numbers(0, most=64),
            "beginTimestamp": _numbers(0),
            "endTimestamp": _numbers(0, most=(1 << 62) - 1),
        }
    ),
    C.VIEW_MESSAGE_BY_ID: Schema(_NAMED | {"offset": _numbers(0, most=(1 << 62) - 1)}),
    C.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Schema({}),
    C.GET_TOPIC_STATS_INFO: Schema(_NAMED),
    C.GET_TOPIC_CONFIG: Schema(_NAMED),
    C.GET_BROKER_RUNTIME_INFO: Schema({}),
    C.GET_BROKER_CONFIG: Schema({}),
    C.GET_NAMESRV_CONFIG: Schema({}),
    C.UPDATE_BROKER_CONFIG: Schema({}, lambda: b"# nothing\n", lambda: b"#" * (BODY_BYTES_MAX - 1)),
    C.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Schema({}),
    C.GET_BROKER_CONSUME_STATS: Schema({"isOrder": ("true", "false")}),
    C.GET_CONSUMER_RUNNING_INFO: Schema(
        {"consumerGroup": (GROUP,), "clientId": ("nobody",), "jstackEnable": ("true", "false")}
    ),
    C.GET_ALL_PRODUCER_INFO: Schema({}),
    C.GET_CONSUMER_CONNECTION_LIST: Schema({"consumerGroup": (f"{GROUP}-0",)}),
    C.GET_PRODUCER_CONNECTION_LIST: Schema({"producerGroup": ("p",)}),
    C.QUERY_TOPIC_CONSUME_BY_WHO: Schema(_NAMED),
    C.GET_SUBSCRIPTIONGROUP_CONFIG: Schema({"group": (GROUP,)}),
    C.GET_CONSUME_STATS: Schema({"consumerGroup": (GROUP,)} | _NAMED),
    C.UPDATE_AND_CREATE_TOPIC: Schema(
        _NAMED
        | {
            "readQueueNums": ("4",),
            "writeQueueNums": ("4",),
            "perm": ("6",),
            "topicSysFlag": ("0",),
            "order": ("false",),
        }
    ),
    C.DELETE_TOPIC_IN_BROKER: Schema(_MISSING),
    C.DELETE_TOPIC_IN_NAMESRV: Schema(_MISSING),
    C.DELETE_KV_CONFIG: Schema({"namespace": ("ORDER_TOPIC_CONFIG",), "key": ("missing",)}),
    C.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Schema({}, lambda: _json(groupName=GROUP)),
    C.DELETE_SUBSCRIPTIONGROUP: Schema({"groupName": ("missing",)}),
    C.INVOKE_BROKER_TO_RESET_OFFSET: Schema(
        _NAMED | {"group": (GROUP,), "timestamp": _numbers(0), "isForce": ("true",)}
    ),
}


SCHEMAS: Final[Mapping[RequestCode, Schema]] = {
    C.SEND_MESSAGE: Schema(_LONG_SEND, _message, _largest_message),
    C.SEND_MESSAGE_V2: Schema(_SEND, _message, _largest_message),
    C.SEND_BATCH_MESSAGE: Schema(_SEND | {"i": ("",)}, _batch, _largest_batch),
    C.PULL_MESSAGE: Schema(_PULL),
    C.LITE_PULL_MESSAGE: Schema(_PULL),
    C.QUERY_CONSUMER_OFFSET: Schema(_OF_GROUP),
    C.UPDATE_CONSUMER_OFFSET: Schema(_OF_GROUP | {"commitOffset": _numbers(0)}),
    C.SEARCH_OFFSET_BY_TIMESTAMP: Schema(_QUEUE | {"timestamp": _numbers(0)}),
    C.GET_MAX_OFFSET: Schema(_QUEUE),
    C.GET_MIN_OFFSET: Schema(_QUEUE),
    C.HEART_BEAT: Schema({}, _beat, lambda: _beat(GROUPS_MAX - 1, 10)),
    C.UNREGISTER_CLIENT: Schema(
        {"clientID": (CLIENT,), "consumerGroup": (f"{GROUP}-0",), "producerGroup": ("p",)}
    ),
    C.CONSUMER_SEND_MSG_BACK: Schema(
        {
            "group": (GROUP,),
            "originTopic": (TOPIC,),
            "originMsgId": ("x",),
            "offset": _numbers(0, most=(1 << 62) - 1),
            "delayLevel": ("0", "1", "18"),
            "maxReconsumeTimes": _numbers(-1, 16, most=INT32_MAX),
        }
    ),
    C.GET_CONSUMER_LIST_BY_GROUP: Schema({"consumerGroup": (f"{GROUP}-0",)}),
    C.LOCK_BATCH_MQ: Schema({}, _locks, lambda: _locks(QUEUES_MAX)),
    C.UNLOCK_BATCH_MQ: Schema({}, _locks, lambda: _locks(QUEUES_MAX)),
    C.CHECK_CLIENT_CONFIG: Schema(
        {}, _check, lambda: _check(" OR ".join(f"a{one} = 'x'" for one in range(480)))
    ),
    C.GET_ROUTEINFO_BY_TOPIC: Schema({"topic": (TOPIC,)}),
    C.GET_BROKER_CLUSTER_INFO: Schema({}),
    C.END_TRANSACTION: Schema(
        {
            "producerGroup": ("p",),
            "topic": (TOPIC,),
            "commitOrRollback": ("0", "8", "12"),
            "commitLogOffset": _numbers(0, most=(1 << 62) - 1),
            "tranStateTableOffset": _numbers(0, most=(1 << 40) - 1),
            "msgId": ("x",),
        }
    ),
    C.RECALL_MESSAGE: Schema(
        _NAMED | {"producerGroup": ("p",), "recallHandle": (_handle("x"), _handle("y" * 255))}
    ),
    C.POP_MESSAGE: Schema(_POP),
    C.NOTIFICATION: Schema(_POP),
    C.POLLING_INFO: Schema(_TEXT),
    C.ACK_MESSAGE: Schema(_OF_GROUP | _RECEIPT),
    C.BATCH_ACK_MESSAGE: Schema({}, _acks, lambda: _acks(200)),
    C.CHANGE_MESSAGE_INVISIBLETIME: Schema(
        _OF_GROUP | _RECEIPT | {"invisibleTime": _numbers(0, 10_000)}
    ),
    C.QUERY_ASSIGNMENT: Schema({}, _assignment, _assignment),
    C.SET_MESSAGE_REQUEST_MODE: Schema(
        {}, lambda: _json(topic=TOPIC, consumerGroup=GROUP, mode="PULL")
    ),
    **_OF_OPERATORS,
}


def largest_request(code: RequestCode, opaque: int = 0) -> bytes:
    """Return the largest legal request of a code, as a frame."""
    schema = SCHEMAS[code]
    body = schema.largest()
    is_sent = code in {C.SEND_MESSAGE, C.SEND_MESSAGE_V2, C.SEND_BATCH_MESSAGE}
    assert is_sent or len(body) <= BODY_BYTES_MAX, (code, len(body))
    fields = {name: values[-1] for name, values in schema.fields.items()}
    return encode_frame(Command(code, fields, body, opaque=opaque))


def legal_request(code: RequestCode, opaque: int, serialisation: Serialisation) -> Command:
    """Return a small legal request of a code."""
    schema = SCHEMAS[code]
    fields = {name: values[0] for name, values in schema.fields.items()}
    return Command(code, fields, schema.body(), opaque=opaque, serialisation=serialisation)


def bombs() -> list[bytes]:
    """Return frames whose bodies unpack to much more than they have bytes."""
    fields = {name: values[0] for name, values in SCHEMAS[C.SEND_MESSAGE_V2].fields.items()}
    bomb, small = zlib.compress(bytes(16 << 20)), zlib.compress(bytes(1_000_000))
    batch = encode_batch([BatchedMessage(0, small, "")] * 500)
    return [
        encode_frame(Command(C.SEND_MESSAGE_V2, fields | {"f": "1"}, bomb)),
        encode_frame(Command(C.SEND_BATCH_MESSAGE, fields | {"f": "1"}, batch)),
    ]
