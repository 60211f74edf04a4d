"""GET_CONSUMER_RUNNING_INFO: what a consumer says of itself, asked for by somebody else.

    operator ─► node that the consumer sends heartbeats to ─► consumer ─► its answer, as it is

The consumer's client writes the answer: its properties, subscriptions, queues with what is cached
of them, rates, and with `jstackEnable` the stacks of its threads.

    no such member of the group here      SYSTEM_ERROR
    no answer in 10 s                     CONSUME_MSG_TIMEOUT
    its connection has ended              SYSTEM_ERROR
    too many are asked at once            SYSTEM_BUSY

Source: RocketMQ 5.3.3 `AdminBrokerProcessor.callConsumer`, `Broker2Client.callClient` (10 s).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.access import Operation, Resource
from penstock.remoting.fields import text
from penstock.remoting.gate import check
from penstock.remoting.pop.serving import serve
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command

if TYPE_CHECKING:
    from penstock.net.connection import Connection
    from penstock.remoting.request import RemotingContext, Reply

CODES: Final = (RequestCode.GET_CONSUMER_RUNNING_INFO,)
_FIELDS: Final = ("consumerGroup", "clientId", "jstackEnable")
"""That are passed on; others are about who asks."""


def handle(context: RemotingContext, command: Command, reply: Reply) -> None:
    """Answer when the consumer has. Raises what is told to the client."""
    group, client_id = text(command, "consumerGroup"), text(command, "clientId")
    check(context, Operation.DESCRIBE, Resource.GROUP, group)
    found = _connection_of(context, group, client_id)
    if found is None:
        told = f"The Consumer <{group}> <{client_id}> not online"
        reply(code=ResponseCode.SYSTEM_ERROR, remark=told)
        return
    fields = {name: command.fields[name] for name in _FIELDS if name in command.fields}
    question = Command(code=command.code, fields=fields)
    serve(context, "question to a consumer", reply, _ask(context, found, question, reply))


def _connection_of(context: RemotingContext, group: str, client_id: str) -> Connection | None:
    for known, connection, _ in context.front.members.members(group):
        if known == client_id:
            return connection
    return None


async def _ask(
    context: RemotingContext, connection: Connection, question: Command, reply: Reply
) -> None:
    answer = await context.front.questions.ask(connection, question, context.user)
    reply(answer.fields, code=answer.code, body=answer.body, remark=answer.remark)
