"""HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST_BY_GROUP: who is a member of which group.

CHECK_CLIENT_CONFIG asks whether a subscription can be served; clients ask for others than by tags.

Source: RocketMQ `ClientManageProcessor`, `ConsumerManageProcessor`.
"""

from typing import Final

from penstock.broker.access import Operation, Resource
from penstock.remoting.errors import MalformedBody
from penstock.remoting.fields import text
from penstock.remoting.gate import check
from penstock.remoting.heartbeat import read_checked, read_heartbeat
from penstock.remoting.request import RemotingContext, Reply
from penstock.remoting.routes import encode_json
from penstock.remoting.subscription import read_filter
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

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
            changed = _note(context, command)
            reply()
        case RequestCode.UNREGISTER_CLIENT:
            group = command.fields.get("consumerGroup", "")
            client_id = text(command, "clientID")
            changed = context.front.members.leave(client_id, group, context.connection)
            producer_group = command.fields.get("producerGroup", "")
            context.front.asker.producers.leave(client_id, producer_group, context.connection)
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


def _note(context: RemotingContext, command: Command) -> list[str]:
    heartbeat = read_heartbeat(command.body)
    context.client_id = heartbeat.client_id
    context.language, context.version = command.language, command.version
    for group in heartbeat.consumers:
        check(context, Operation.READ, Resource.GROUP, group.group_name)
    now_ms = context.broker.clock.monotonic_ms()
    context.front.asker.producers.note(heartbeat, context.connection, now_ms)
    return context.front.members.note(heartbeat, context.connection, now_ms)
