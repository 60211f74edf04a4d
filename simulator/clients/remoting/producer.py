"""A remoting producer: single messages, batches, one-way, delayed, timed. Each value is sent once.

Every second one of those with a time is recalled after a while: before its time, or too late.

Whatever has no answer, or one that refuses, may be there or not.

Source: RocketMQ `DefaultMQProducerImpl`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.remoting.later.delayed import DELAYS_MS
from penstock.remoting.wire.batch_body import BatchedMessage, encode_batch
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from simulator.clients.remoting.client import (
    Queue,
    RemotingClient,
    places_told,
    properties_of,
    send_fields,
)
from simulator.clients.wire import LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.remoting.events import Sent

IDLE_SECONDS = (0.04, 0.25)
KINDS = ("single", "old", "batch", "one-way", "delayed", "timed")
WEIGHTS = (8, 2, 3, 2, 3, 2)
LEVELS = (1, 1, 2)
"""1 s and 5 s: what waits comes within the run."""
TIMES_MS = (900, 7_500)
"""Through several levels, likewise."""
RECALL_SECONDS = (0.05, 3.0)
TOGETHER_MAX = 4
_LONG = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "n": "bname",
}


@dataclass(slots=True, kw_only=True)
class RemotingProducer(RemotingClient):
    """See the module."""

    topic: str
    sends: list[Sent] = field(default_factory=list)
    _count: int = 0

    async def run(self) -> None:
        """Send until asked to stop."""
        while not self.world.is_stopping and not self.world.is_over:
            (kind,) = self.random.choices(KINDS, WEIGHTS)
            try:
                await self._send(kind)
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _send(self, kind: str) -> None:
        queue = await self.any_queue(self.topic)
        link = await self.master(self.topic, queue.broker)
        count = self.random.randint(2, TOGETHER_MAX) if kind == "batch" else 1
        values = [self._next() for _ in range(count)]
        more, delay_ms = self._later(kind)
        at, asked_ns = len(self.sends), now_ns()
        self.sends += [Sent(value, asked_ns, delay_ms) for value in values]
        code, fields, body = self._request(kind, queue, values, more)
        if kind == "one-way":
            link.throw(code, fields, body)
            return
        answer = await link.call(code, fields, body)
        if answer.code != ResponseCode.SUCCESS:
            raise LinkFailed(f"{ResponseCode(answer.code).name}: {answer.remark}")
        self._note(at, count, answer)
        handle = answer.fields.get("recallHandle")
        if handle is not None and self.random.random() < 1 / 2:
            await self._recall(at, queue, handle)

    async def _recall(self, at: int, queue: Queue, handle: str) -> None:
        await self.idle(RECALL_SECONDS)
        link = await self.master(self.topic, queue.broker)
        fields = {"producerGroup": self.name, "topic": self.topic, "recallHandle": handle}
        self.sends[at] = self.sends[at]._replace(may_be_recalled=True)
        answer = await link.call(RequestCode.RECALL_MESSAGE, fields, b"")
        if answer.code == ResponseCode.SUCCESS:
            self.sends[at] = self.sends[at]._replace(is_recalled=True)
        elif answer.code == ResponseCode.ILLEGAL_OPERATION:
            self.sends[at] = self.sends[at]._replace(may_be_recalled=False)

    def _next(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count}"

    def _later(self, kind: str) -> tuple[dict[str, str], int]:
        """Return what asks for a later delivery, and how much later that is."""
        if kind == "delayed":
            level = self.random.choice(LEVELS)
            return {"DELAY": str(level)}, DELAYS_MS[level - 1]
        if kind == "timed":
            delay_ms = self.random.randint(*TIMES_MS)
            return {"TIMER_DELAY_MS": str(delay_ms)}, delay_ms
        return {}, 0

    def _request(
        self, kind: str, queue: Queue, values: Sequence[str], more: dict[str, str]
    ) -> tuple[int, dict[str, object], bytes]:
        if kind == "batch":
            batch = [BatchedMessage(0, one.encode(), properties_of(one)) for one in values]
            fields = send_fields(self.name, self.topic, queue, "", m="true")
            return RequestCode.SEND_BATCH_MESSAGE, fields, encode_batch(batch)
        properties, body = properties_of(values[0], more), values[0].encode()
        fields = send_fields(self.name, self.topic, queue, properties)
        if kind == "old":
            named = {_LONG[short]: value for short, value in fields.items() if short in _LONG}
            return RequestCode.SEND_MESSAGE, named, body
        return RequestCode.SEND_MESSAGE_V2, fields, body

    def _note(self, at: int, count: int, answer: Command) -> None:
        places = places_told(answer)
        for number in range(count):
            sent = self.sends[at + number]
            self.sends[at + number] = sent._replace(is_taken=True, place=places[number])
