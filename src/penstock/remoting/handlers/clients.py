"""HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP: who is a member of which group.

CHECK_CLIENT_CONFIG asks whether a subscription can be served; clients ask for others than by tags.

Source: RocketMQ `ClientManageProcessor`, `ConsumerManageProcessor`.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.remoting.config import LISTENER_NAME
from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import text
from penstock.remoting.gate import check
from penstock.remoting.heartbeat import (
    SLICE_BYTES,
    ConsumerGroup,
    read_checked,
    read_in_slices,
)
from penstock.remoting.pop.serving import ended, serve
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.subscription import read_filter
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

TOGETHER: Final = 200
"""Groups of a heartbeat that are noted in one turn: a third of a millisecond."""
SUBSCRIPTIONS_OF_A_GROUP: Final = 10
"""As many more take as long as a group more."""

CODES: Final = (
    RequestCode.HEART_BEAT,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.CHECK_CLIENT_CONFIG,
)


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer from memory. Raises what is told to the client."""
    match command.code:
        case RequestCode.HEART_BEAT:
            _note(context, command, reply)
            return
        case RequestCode.UNREGISTER_CLIENT:
            group = command.fields.get("consumerGroup", "")
            client_id = text(command, "clientID")
            changed = context.front.members.leave(client_id, group, context.connection)
            producer_group = command.fields.get("producerGroup", "")
            producers, connection = context.front.asker.producers, context.connection
            producers.leave(client_id, producer_group, connection, context.user)
            reply()
        case RequestCode.CHECK_CLIENT_CONFIG:
            _check_subscription(context, command, reply)
            return
        case _:
            group = text(command, "consumerGroup")
            check(context, Operation.READ, Resource.GROUP, group)
            ids = context.front.members.client_ids(group)
            reply(body=encode_json({"consumerIdList": ids}))
            return
    context.front.tell_members(changed)


def _check_subscription(context: RemotingContext, command: Command, reply: Reply) -> None:
    asked = read_checked(command.body)
    try:
        read_filter(asked.sub_string, asked.expression_type or "", context.front.compiled)
    except MalformedBody as error:
        reply(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark=str(error))
        return
    reply()


def _note(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Note who is there, in slices where the heartbeat is long.

    What is read of a long one takes ten times its bytes, so few are worked on at a time.
    """
    if len(command.body) <= SLICE_BYTES:
        for _ in _noting(context, command):
            pass
        reply()
        return
    own = command._replace(body=bytes(command.body))  # the buffer is the next request's

    def begin(over: Callable[[], None]) -> None:
        serve(context, "heartbeat", reply, ended(_note_in_turns(context, own, reply), over))

    context.front.unpacking.ask(context.connection, begin, reply.end)


async def _note_in_turns(context: RemotingContext, command: Command, reply: Reply) -> None:
    broker = context.broker
    turns = broker.stats.turns_of(LISTENER_NAME, RequestCode(command.code).name)
    await broker.turns.run(_noting(context, command), turns.note)
    reply()


def _noting(context: RemotingContext, command: Command) -> Generator[None, None, None]:
    heartbeat = yield from read_in_slices(command.body)
    context.client_id = heartbeat.client_id
    context.language, context.version = command.language, command.version
    for group in heartbeat.consumers:
        check(context, Operation.READ, Resource.GROUP, group.group_name)
    front, connection = context.front, context.connection
    now_ms = context.broker.clock.monotonic_ms()
    if not connection.is_closed:
        front.asker.producers.note(heartbeat, connection, now_ms, context.user)
    at = 0
    # Nobody would take out again who is noted once the connection is closed.
    while at < len(heartbeat.consumers) and not connection.is_closed:
        end = _end_of_slice(heartbeat.consumers, at)
        part = heartbeat._replace(consumers=heartbeat.consumers[at:end])
        front.tell_members(front.members.note(part, connection, now_ms, context.user))
        at = end
        yield


def _end_of_slice(groups: Sequence[ConsumerGroup], at: int) -> int:
    """Return behind which group a slice ends that begins with another one."""
    size = 0
    while at < len(groups) and size < TOGETHER:
        size += 1 + len(groups[at].subscriptions) // SUBSCRIPTIONS_OF_A_GROUP
        at += 1
    return at
