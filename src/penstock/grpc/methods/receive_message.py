"""ReceiveMessage: messages for a consumer, from any queue of the topic that this node leads.

    a status, the messages, when they were delivered    each is a message of the stream
    nothing within the time                             MESSAGE_NOT_FOUND
    too many wait, and there is nothing now             TOO_MANY_REQUESTS

The queue that a client names is not looked at, but for its topic: a client of several queues asks
each in turn, and would else wait at an empty one. It waits as long as it says, 20 s at most, and
ends half a second before the deadline of its call.

A group that keeps the order of message groups has one message of each out at a time. Who asks again
with the attempt id of an answer that it did not get gets the same one (consuming/attempts.py).

Who wants its messages renewed gets them for a minute, and for longer while it lives
(consuming/renewing.py); others say for how long, 10 s to the bound of shares.

Source: RocketMQ's proxy `ReceiveMessageActivity`, `ReceiveMessageResponseStreamWriter`. Departures:
a wait of less than 5 s is as short as that; a queue that a group does not know is received from its
beginning while it has all of few messages (remoting/pop/beginning.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.coordinators.share_policies import keeps_order, share_group
from penstock.broker.metering import Kind
from penstock.grpc.call import Call, Method
from penstock.grpc.consuming.attempts import ID_CHARS_MAX, Attempt, Kept
from penstock.grpc.consuming.delivered import Told, encoded_messages
from penstock.grpc.consuming.popper import CallPopper
from penstock.grpc.consuming.renewing import RENEWED_MS
from penstock.grpc.consuming.serving import serve
from penstock.grpc.consuming.settings import BATCH_MAX, POLL_MS_MAX
from penstock.grpc.consuming.times import invisible_ms, ms_of
from penstock.grpc.errors import Refused
from penstock.grpc.gate import group_name, popped_topic, topic_name
from penstock.grpc.proto.messages import (
    Duration,
    FilterExpression,
    MessageQueue,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from penstock.grpc.statuses import Code
from penstock.protobuf.codec import decode, encode
from penstock.remoting.errors import MalformedBody
from penstock.remoting.pop.beginning import Begins
from penstock.remoting.pop.popping import Asked, Part, Popping
from penstock.remoting.pop.pops import WAITING_MAX
from penstock.remoting.subscription import read_filter
from penstock.replication.errors import NotMaster
from penstock.shares.state import ShareKey

if TYPE_CHECKING:
    from penstock.broker.partitions import HostedPartition, HostedTopic
    from penstock.grpc.client import GrpcClient
    from penstock.remoting.filters.verdicts import MessageFilter

INVISIBLE_MS_MIN: Final = 10_000
QUEUES_MAX: Final = 200
"""Queues that one call looks at; another call looks at those behind them."""
_BEFORE_DEADLINE_MS: Final = 500
_KINDS: Final = {0: "TAG", 1: "TAG", 2: "SQL92"}
_OK: Final = encode(ReceiveMessageResponse(status=Status(code=Code.OK, message="OK")))


def _handle(call: Call, message: bytes) -> None:
    request = decode(ReceiveMessageRequest, message)
    client = call.client
    group = group_name(client, request.group)
    name = topic_name((request.message_queue or MessageQueue()).topic)
    topic = popped_topic(client, group, name)
    wait_ms = _wait_ms(call, request)
    is_full = bool(wait_ms) and client.front.desk.pops.waiting >= WAITING_MAX
    asked = Asked(
        group=group,
        member=call.head.client_id or client.host,
        topic=name,
        topic_id=bytes(topic.topic_id),
        messages_max=min(max(request.batch_size, 1), BATCH_MAX),
        invisible_ms=_invisible_ms(client, request),
        wait_ms=0 if is_full else wait_ms,
        begins=Begins.WHILE_YOUNG,
        filter=_filter(client, request.filter_expression or FilterExpression()),
    )
    attempt = _attempt(call, request, asked)
    kept = None if attempt is None else client.front.attempts.again(attempt, _now_ms(client))
    if kept is not None:
        _say(call, kept.hosted, kept.messages)
        return
    parts = _parts(client, topic, group)
    client.front.consumers.hear(call.member, _now_ms(client))
    how = _How(attempt, is_full=is_full, is_renewed=bool(request.auto_renew))
    serve(call, "receive", _receive(call, asked, parts, how))


def _now_ms(client: GrpcClient) -> int:
    return client.broker.clock.monotonic_ms()


def _attempt(call: Call, request: ReceiveMessageRequest, asked: Asked) -> Attempt | None:
    """Return what the call is an attempt of; None where its group keeps no order."""
    attempt_id = request.attempt_id
    if not attempt_id or not keeps_order(call.client.broker.share_places.group_keys(asked.group)):
        return None
    if len(attempt_id) > ID_CHARS_MAX:
        raise Refused(Code.BAD_REQUEST, f"an attempt id has {ID_CHARS_MAX} characters at most")
    return Attempt(call.member, asked.group, asked.topic, attempt_id)


class _How(NamedTuple):
    """What is to be done beside handing out."""

    attempt: Attempt | None
    is_full: bool
    """Whether too many wait, so that this one does not."""
    is_renewed: bool


def _wait_ms(call: Call, request: ReceiveMessageRequest) -> int:
    """Return how long to wait. Raises Refused where the call has no time for an answer."""
    left_ms = call.head.timeout_ms
    wait_ms = POLL_MS_MAX if request.long_polling_timeout is None else -1
    if request.long_polling_timeout is not None:
        wait_ms = min(max(ms_of(request.long_polling_timeout), 0), POLL_MS_MAX)
    if left_ms is None:
        return wait_ms
    if left_ms <= _BEFORE_DEADLINE_MS and wait_ms:
        told = "the deadline of the call leaves no time to wait for messages"
        raise Refused(Code.ILLEGAL_POLLING_TIME, told)
    return min(wait_ms, max(left_ms - _BEFORE_DEADLINE_MS, 0))


def _invisible_ms(client: GrpcClient, request: ReceiveMessageRequest) -> int:
    if request.auto_renew:
        return RENEWED_MS
    return invisible_ms(client, request.invisible_duration, INVISIBLE_MS_MIN)


def _filter(client: GrpcClient, told: FilterExpression) -> MessageFilter:
    kind = _KINDS.get(told.type)
    if kind is None:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, "a filter is by tags or by SQL-92")
    try:
        return read_filter(told.expression, kind, client.front.compiled)
    except MalformedBody as error:
        raise Refused(Code.ILLEGAL_FILTER_EXPRESSION, str(error)) from error


def _parts(client: GrpcClient, topic: HostedTopic, group: str) -> Sequence[Part]:
    """Return the queues to look at, another one first each time. Raises NotMaster."""
    placed, members = topic.placed, client.broker.members
    led = {set_id for set_id, member in members.items() if member.is_master}
    begin = client.front.desk.pops.turn(len(placed))
    topic_id, name = bytes(topic.topic_id), share_group(group)
    parts: list[Part] = []
    for partition in (*range(begin, len(placed)), *range(begin)):
        if placed[partition] not in led:
            continue
        hosted = topic.find(partition)
        if hosted is not None:
            parts.append(Part(hosted, ShareKey(name, topic_id, partition), partition))
            if len(parts) == QUEUES_MAX:
                break
    if not parts:
        raise NotMaster(f"no partition of {topic.name} is led here: ask for its route again")
    return parts


async def _receive(call: Call, asked: Asked, parts: Sequence[Part], how: _How) -> None:
    front, popper = call.client.front, CallPopper(call)
    try:
        popped = await Popping(front.desk, popper, asked, parts).run()
    finally:
        popper.close()
    if popped is None and how.is_full:
        raise Refused(Code.TOO_MANY_REQUESTS, "too many calls wait for messages")
    if popped is None:
        raise Refused(Code.MESSAGE_NOT_FOUND, "there is no message")
    popped.note(front.desk, asked.group)
    if how.is_renewed:
        front.renewals.add(call.member, popped)
    told = Told(asked.topic, front.own_host(), asked.invisible_ms)
    messages, part = encoded_messages(popped, told), popped.part
    if how.attempt is not None:
        until_ms = _now_ms(call.client) + asked.invisible_ms
        kept = Kept(part.hosted, (part.key, popped.nonce), messages, until_ms)
        front.attempts.keep(how.attempt, kept)
    _say(call, part.hosted, messages)


def _say(call: Call, hosted: HostedPartition, messages: Sequence[bytes]) -> None:
    now_ms = call.client.broker.clock.wall_ms()
    at = Duration(seconds=now_ms // 1_000, nanos=now_ms % 1_000 * 1_000_000)
    delivered = encode(ReceiveMessageResponse(delivery_timestamp=at))
    call.about(hosted, records=len(messages), payload=sum(map(len, messages)))
    call.say_all([_OK, *messages, delivered])
    call.end()


METHOD: Final = Method("ReceiveMessage", _handle, Kind.READ)
