"""Heartbeat and NotifyClientTermination: a client that is there, and one that ends.

Nothing is kept of producers, so there is nothing to be done. Consumers are told that they are not
served.

Source: RocketMQ's proxy `ClientActivity`.
"""

from typing import Final

from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.proto.codec import decode
from penstock.grpc.proto.messages import Answer, HeartbeatRequest, Status
from penstock.grpc.statuses import ClientType, Code

_OK: Final = Answer(status=Status(code=Code.OK, message="OK"))
CONSUMERS: Final = (
    "consumers of gRPC are not supported yet: consume with a remoting client, or Kafka's"
)


def _beat(call: Call, message: bytes) -> None:
    if not call.head.client_id:
        raise Refused(Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing")
    if decode(HeartbeatRequest, message).client_type not in PRODUCERS:
        raise Refused(Code.UNSUPPORTED, CONSUMERS)
    call.reply(_OK)


def _end(call: Call, message: bytes) -> None:
    decode(HeartbeatRequest, message)
    call.reply(_OK)


PRODUCERS: Final = frozenset({ClientType.UNSPECIFIED, ClientType.PRODUCER})
HEARTBEAT: Final = Method("Heartbeat", _beat)
TERMINATION: Final = Method("NotifyClientTermination", _end)
