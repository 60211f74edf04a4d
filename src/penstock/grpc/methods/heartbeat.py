"""Heartbeat and NotifyClientTermination: a client that is there, and one that ends.

A producer is heard, so that it is asked about its transactions (producing/producers.py). A consumer
is heard, so that what it has is kept for it (consuming/renewing.py); one that ends gives it back.

Source: RocketMQ's proxy `ClientActivity`: a consumer tells its settings first.
"""

from typing import Final

from penstock.grpc.call import Call, Method
from penstock.grpc.errors import Refused
from penstock.grpc.gate import check_group, group_name
from penstock.grpc.proto.messages import Answer, HeartbeatRequest, Status
from penstock.grpc.statuses import ClientType, Code
from penstock.protobuf.codec import decode

_OK: Final = Answer(status=Status(code=Code.OK, message="OK"))
PRODUCERS: Final = frozenset({ClientType.UNSPECIFIED, ClientType.PRODUCER})
CONSUMERS: Final = frozenset({ClientType.PUSH_CONSUMER, ClientType.SIMPLE_CONSUMER})
NOT_SERVED: Final = "clients of this type are not served: producers, simple and push consumers are"


def _beat(call: Call, message: bytes) -> None:
    client, member = call.client, call.member
    if not call.head.client_id:
        raise Refused(Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing")
    request = decode(HeartbeatRequest, message)
    if request.client_type in CONSUMERS:
        group = group_name(client, request.group)
        check_group(client, group)
        if not client.front.consumers.is_known(member, group):
            told = "no stream of settings is open of this consumer"
            raise Refused(Code.UNRECOGNIZED_CLIENT_TYPE, told)
        client.front.consumers.hear(member, client.broker.clock.monotonic_ms())
    elif request.client_type in PRODUCERS:
        client.front.producers.hear(member, client.broker.clock.monotonic_ms())
    else:
        raise Refused(Code.UNSUPPORTED, NOT_SERVED)
    call.reply(_OK)


def _end(call: Call, message: bytes) -> None:
    request, client, member = decode(HeartbeatRequest, message), call.client, call.member
    if request.group is not None and request.group.name:
        group = group_name(client, request.group)
        check_group(client, group)
        if client.front.consumers.is_known(member, group):
            client.front.consumers.forget(member)
            client.front.renewals.release(member)
            client.front.attempts.leave(member)
    call.reply(_OK)


HEARTBEAT: Final = Method("Heartbeat", _beat)
TERMINATION: Final = Method("NotifyClientTermination", _end)
