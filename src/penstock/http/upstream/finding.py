"""Messages of a topic by id or key, from the masters of all its queues.

    route ─► the master of each replica set ─► the newest first

What can not be asked, or is behind, is told: the answer may lack what is there.

Source: RocketMQ 5.3.3 `MQAdminImpl.queryMessage`, which does not say which set it means.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.http.upstream.errors import NodeRefused, UpstreamError
from penstock.http.upstream.nodes import Asked, Nodes
from penstock.remoting.errors import MalformedBody
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.message import Message, decode_messages

_ALWAYS: Final = (1 << 63) - 1


class Query(NamedTuple):
    """What is looked for; times are those of records, in ms, both inclusive."""

    topic: str
    name: str
    is_id: bool = False
    """Whether the name is an id; else it is a key, or an id."""
    most: int = 64
    first_ms: int = 0
    last_ms: int = _ALWAYS

    def fields(self) -> Mapping[str, str]:
        """Return the fields of the request."""
        return {
            "topic": self.topic,
            "key": self.name,
            "maxNum": str(self.most),
            "beginTimestamp": str(self.first_ms),
            "endTimestamp": str(self.last_ms),
            "_UNIQUE_KEY_QUERY": str(self.is_id).lower(),
        }


class Answer(NamedTuple):
    """What was found, the newest first, and why there may be more."""

    messages: list[Message]
    lacks: list[str]


async def find_messages(nodes: Nodes, query: Query, timeout_s: float) -> Answer:
    """Return the messages. Raises UpstreamError: no such topic, or no node answers."""
    route = await nodes.route(query.topic)
    asked = (_ask(nodes, query, one, timeout_s) for one in route.brokers)
    answers = await asyncio.gather(*asked)
    found = [one for answer in answers for one in answer.messages]
    found.sort(key=lambda one: one.store_ms, reverse=True)
    return Answer(found[: query.most], [lack for answer in answers for lack in answer.lacks])


async def _ask(nodes: Nodes, query: Query, broker: str, timeout_s: float) -> Answer:
    """Ask the master of a replica set."""
    fields = {**query.fields(), "bname": broker}
    asked = Asked(RequestCode.QUERY_MESSAGE, fields, timeout_s=timeout_s)
    try:
        answer = await nodes.ask(query.topic, broker, asked)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return Answer([], [])
        if answer.code not in {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY}:
            raise NodeRefused(answer.code, answer.remark)
        messages = decode_messages(memoryview(answer.body))
    except MalformedBody as error:
        return Answer([], [f"{broker}: {error}"])
    except UpstreamError as error:
        return Answer([], [f"{broker}: {error}"])
    return Answer(messages, [f"{broker}: {answer.remark}"] if answer.remark else [])
