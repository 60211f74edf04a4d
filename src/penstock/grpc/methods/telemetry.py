"""Telemetry: the stream on which a client tells its settings, and gets the server's.

A client waits for these before it sends anything. It stays open; when it ends the client is gone.
Producers that have told topics are asked here what has become of transactions
(producing/asking.py), and answer by EndTransaction. What else clients say here answers what this
server does not ask.

Source: RocketMQ's proxy `ClientActivity`, `GrpcClientSettingsManager` (3 attempts, pauses of 10 ms
to 1 s that double, bodies of 4 MiB).
"""

from dataclasses import replace
from typing import Final

from penstock.grpc.call import Call, Method
from penstock.grpc.consuming.settings import consumer_settings
from penstock.grpc.errors import CallFault, Refused
from penstock.grpc.gate import check_group, group_name, topic_name
from penstock.grpc.incoming import BODY_BYTES_MAX
from penstock.grpc.methods.heartbeat import CONSUMERS, NOT_SERVED, PRODUCERS
from penstock.grpc.proto.messages import (
    Duration,
    ExponentialBackoff,
    Metric,
    Publishing,
    RetryPolicy,
    Settings,
    Status,
    Subscription,
    TelemetryCommand,
)
from penstock.grpc.statuses import ClientType, Code, GrpcStatus
from penstock.protobuf.codec import decode

_BACKOFF: Final = RetryPolicy(
    max_attempts=3,
    exponential_backoff=ExponentialBackoff(
        initial=Duration(nanos=10_000_000), max=Duration(seconds=1), multiplier=2.0
    ),
)
_OK: Final = Status(code=Code.OK, message="OK")


def _handle(call: Call, message: bytes) -> None:
    if not call.head.client_id:
        raise Refused(Code.CLIENT_ID_REQUIRED, "x-mq-client-id is missing")
    settings = decode(TelemetryCommand, message).settings
    if settings is None:
        return
    if settings.client_type in CONSUMERS:
        told = _of_consumer(call, settings)
    elif settings.client_type in PRODUCERS:
        told = _of_producer(call, settings)
    else:
        raise CallFault(GrpcStatus.UNIMPLEMENTED, NOT_SERVED)
    call.client.front.settled[call] = None
    call.say(TelemetryCommand(status=_OK, settings=told))


def _of_consumer(call: Call, told: Settings) -> Settings:
    client = call.client
    group = group_name(client, (told.subscription or Subscription()).group)
    check_group(client, group)
    now_ms = client.broker.clock.monotonic_ms()
    client.front.consumers.settle(call.member, group, int(told.client_type or 0), call, now_ms)
    return consumer_settings(client.broker, group, told)


def _of_producer(call: Call, told: Settings) -> Settings:
    client, publishing = call.client, told.publishing or Publishing()
    topics = [topic_name(one) for one in publishing.topics]
    now_ms = client.broker.clock.monotonic_ms()
    client.front.producers.settle(call.member, topics, call, now_ms, user=client.user)
    return replace(
        told,
        client_type=ClientType.PRODUCER,
        backoff_policy=_BACKOFF,
        subscription=None,
        publishing=replace(publishing, max_body_size=BODY_BYTES_MAX, validate_message_type=1),
        metric=Metric(),
    )


def _over(call: Call) -> None:
    front = call.client.front
    front.settled.pop(call, None)
    front.consumers.leave(call.member, call)
    front.producers.leave(call.member, call)


METHOD: Final = Method("Telemetry", _handle, stays_open=True, on_over=_over)
