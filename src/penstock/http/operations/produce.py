"""Produce: messages of one request, to queues of one topic.

    equal keys      one queue, chosen by the key's hash; in order
    no key          one queue for all of the request, another one with the next request
    a delay         by itself, to the queue that it would have had

Several messages of a queue go in batches, each after the one before is confirmed; queues go beside
one another. A batch that fails is sent again for RETRY_S, one without keys to other queues in turn:
so a message may be there twice, with the same id. Each message has its own outcome.

Source: RocketMQ `DefaultMQProducerImpl`; ours. Keys are hashed as Kafka's producers hash them
(client/partitioner.py), over queues instead of partitions.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any, Final

from penstock.client.partitioner import partition_for_key
from penstock.http.bodies import Produce, read_body
from penstock.http.call import Call
from penstock.http.front import Front
from penstock.http.limits import RETRY_S
from penstock.http.problems import Problem, of_upstream, unavailable
from penstock.http.upstream.errors import UpstreamError
from penstock.http.upstream.messages import Outgoing, outgoing
from penstock.http.upstream.nodes import Asked, Nodes, checked
from penstock.http.upstream.routes import QueueName
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode
from penstock.remoting.wire.command import Command

BATCH_MESSAGES_MAX: Final = 200
BATCH_BYTES_MAX: Final = 256 << 10
QUEUES_AT_ONCE: Final = 16
_PRODUCER: Final = "penstock-http"

Outcome = dict[str, Any]


async def produce(front: Front, call: Call, topic: str) -> None:
    """Answer once every message is confirmed, or is not. Raises Problem, UpstreamError."""
    assert call.token is not None, "the router has checked it"
    body = await call.body()
    wish = read_body(body, Produce)
    messages = [outgoing(new, place) for place, new in enumerate(wish.messages)]
    with front.used(call.token) as identity:
        outcomes = await _Producing(front, identity.nodes, topic, messages).run()
    failed = [one for one in outcomes if "problem" in one]
    front.stats.messages["produced"] += len(outcomes) - len(failed)
    front.stats.messages["not produced"] += len(failed)
    await call.answer({"messages": outcomes}, status_of(outcomes))


def status_of(outcomes: Sequence[Outcome]) -> int:
    """Return 200 if all went well, 207 if some did, else the status of the first."""
    problems = [one["problem"] for one in outcomes if "problem" in one]
    if not problems:
        return HTTPStatus.OK
    if len(problems) < len(outcomes):
        return HTTPStatus.MULTI_STATUS
    return int(problems[0]["status"])


class _Producing:
    """The messages of one request."""

    def __init__(
        self, front: Front, nodes: Nodes, topic: str, messages: Sequence[Outgoing]
    ) -> None:
        self._front = front
        self._nodes = nodes
        self._topic = topic
        self._messages = messages
        self._outcomes: list[Outcome] = [{"id": one.id} for one in messages]
        self._at_once = asyncio.Semaphore(QUEUES_AT_ONCE)
        self._turn = next_turn()

    async def run(self) -> list[Outcome]:
        """Send all, and return what became of each, in order. Raises UpstreamError."""

        async def attempt() -> tuple[QueueName, ...]:
            return (await self._nodes.route(self._topic)).queues

        queues = await self._nodes.retrying(self._topic, RETRY_S, attempt)
        if not queues:
            detail = f"topic {self._topic} has no queue now"
            raise unavailable("try-again", detail, "send it again a little later")
        lanes: dict[int, list[int]] = {}
        for place, message in enumerate(self._messages):
            lanes.setdefault(self._lane(message, len(queues)), []).append(place)
        async with asyncio.TaskGroup() as group:
            for lane, places in lanes.items():
                group.create_task(self._send_lane(queues, lane, places))
        return self._outcomes

    def _lane(self, message: Outgoing, count: int) -> int:
        if message.key is None:
            return self._turn % count
        return partition_for_key(message.key.encode(), count)

    async def _send_lane(
        self, queues: Sequence[QueueName], lane: int, places: Sequence[int]
    ) -> None:
        """Send the messages of one queue.

        Those behind one that may succeed a little later are not sent: they would be before it.
        """
        has_stopped = False
        async with self._at_once:
            for chunk in self._chunks(places):
                if not has_stopped:
                    problem = await self._send(queues, lane, chunk)
                    is_final = problem is None or problem.status < HTTPStatus.INTERNAL_SERVER_ERROR
                    has_stopped = not is_final
                    continue
                detail = "not sent, since one before it has failed"
                told = unavailable("not-sent", detail, "send it again, after that one")
                self._note_failed(chunk, told)

    def _chunks(self, places: Sequence[int]) -> Iterator[list[int]]:
        """Divide messages into those that are sent together."""
        chunk: list[int] = []
        size = 0
        for place in places:
            message = self._messages[place]
            is_full = len(chunk) >= BATCH_MESSAGES_MAX or size + message.size > BATCH_BYTES_MAX
            if chunk and (message.is_delayed or is_full):
                yield chunk
                chunk, size = [], 0
            chunk.append(place)
            size += message.size
            if message.is_delayed:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    async def _send(
        self, queues: Sequence[QueueName], lane: int, chunk: Sequence[int]
    ) -> Problem | None:
        """Send messages together; return why they are not confirmed, if so."""
        has_keys = any(self._messages[place].key is not None for place in chunk)
        tried = -1

        async def attempt() -> tuple[QueueName, Command]:
            nonlocal tried
            tried += 0 if has_keys else 1
            queue = queues[(lane + max(tried, 0)) % len(queues)]
            asked = self._asked(queue, chunk)
            return queue, checked(await self._nodes.ask(self._topic, queue.broker, asked))

        try:
            queue, answer = await self._nodes.retrying(self._topic, RETRY_S, attempt)
        except UpstreamError as error:
            problem = of_upstream(error)
            self._note_failed(chunk, problem)
            return problem
        self._note_sent(queue, answer, chunk)
        return None

    def _asked(self, queue: QueueName, chunk: Sequence[int]) -> Asked:
        messages = [self._messages[place] for place in chunk]
        is_batch = len(messages) > 1
        fields = {
            "a": _PRODUCER,
            "b": self._topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue.queue_id),
            "f": "0",
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": "" if is_batch else messages[0].properties,
            "j": "0",
            "k": "false",
            "m": str(is_batch).lower(),
            "n": queue.broker,
        }
        if not is_batch:
            return Asked(RequestCode.SEND_MESSAGE_V2, fields, messages[0].body)
        body = encode_batch([BatchedMessage(0, one.body, one.properties) for one in messages])
        return Asked(RequestCode.SEND_BATCH_MESSAGE, fields, body)

    def _note_sent(self, queue: QueueName, answer: Command, chunk: Sequence[int]) -> None:
        first = int(answer.fields.get("queueOffset", "-1"))
        for number, place in enumerate(chunk):
            outcome = self._outcomes[place]
            if self._messages[place].is_delayed:
                outcome["delayed"] = True
            else:
                outcome["queue"] = f"{queue.broker}/{queue.queue_id}"
                outcome["offset"] = first + number

    def _note_failed(self, chunk: Sequence[int], problem: Problem) -> None:
        for place in chunk:
            self._outcomes[place]["problem"] = problem.document()


def next_turn() -> int:
    """Return another number each time, so that requests without keys spread over the queues."""
    _turns[0] += 1
    return _turns[0]


_turns = [0]
