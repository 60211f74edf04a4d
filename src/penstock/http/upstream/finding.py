"""Messages of a topic by id or key, from the masters of all its queues.

    route ─► each address once: a node answers for all that it leads ─► the newest first

What can not be asked, or is behind, is told: the answer may lack what is there.

Source: RocketMQ 5.3.3 `MQAdminImpl.queryMessage`, which asks a node once for each of its sets.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.http.upstream.errors import NodeRefused, UpstreamError
from penstock.http.upstream.nodes import Asked, Nodes
from penstock.http.upstream.routes import Route
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
    brokers = _one_for_each_address(route)
    lacks = [f"{one} has no master now" for one in route.brokers if one not in route.masters]
    asked = Asked(RequestCode.QUERY_MESSAGE, query.fields(), timeout_s=timeout_s)
    answers = await asyncio.gather(*(_ask(nodes, query, one, asked) for one in brokers))
    found: dict[int, Message] = {}
    for answer in answers:
        found.update((one.locator, one) for one in answer.messages)
        lacks += answer.lacks
    newest = sorted(found.values(), key=lambda one: one.store_ms, reverse=True)
    return Answer(newest[: query.most], lacks)


def _one_for_each_address(route: Route) -> list[str]:
    """Return names of replica sets whose masters are all that there are, each once."""
    by_address = {address: broker for broker, address in route.masters.items()}
    return sorted(by_address.values())


async def _ask(nodes: Nodes, query: Query, broker: str, asked: Asked) -> Answer:
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
