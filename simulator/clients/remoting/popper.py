"""A client that pops: it acknowledges, one by one or together, asks for more time, or forgets.

    acknowledge    at once, or too late; alone, or in a batch
    change         more time under a new receipt, which is acknowledged, or not; or none: at once
    forget         the message comes to somebody else when its time is over
    vanish         with all that it has

Source: RocketMQ 5.3.3 `DefaultMQPushConsumerImpl`, `MQClientAPIImpl.processPopResponse`.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from penstock.remoting.pop.receipts import Receipt, write_receipt
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages
from simulator.clients.feeder import PARTITIONS
from simulator.clients.remoting.client import RemotingClient, place_of, value_of
from simulator.clients.wire import ANSWER_SECONDS, LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.shares import Handed, Kind, Settled, ShareNotes
from simulator.history.shares import Place as SharePlace

GROUP = "poppers"
IDLE_SECONDS = (0.005, 0.1)
INVISIBLE_MS = (300, 3_000)
POLL_MS = (0, 600)
MESSAGES_MAX = (1, 32)
WAYS = ("ack", "batch", "late", "more", "release", "forget")
WEIGHTS = (10, 10, 1, 3, 1, 2)
VANISHES_SHARE, BEATS_SHARE, LOST_TIME_SHARE, PEEKS_SHARE = 0.03, 0.3, 0.3, 0.1


class Had(NamedTuple):
    """A message in the hands of this client."""

    place: SharePlace
    value: str
    receipt: Receipt


@dataclass(slots=True, kw_only=True)
class Popper(RemotingClient):
    """See the module."""

    topic: str
    notes: ShareNotes
    binary_share: float = 0.0
    """A binary header has no room for the codes of pops."""

    async def run(self) -> None:
        """Pop until the run is over; once nothing is written any more, acknowledge everything."""
        while not self.world.is_over:
            try:
                await self._turn()
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            if not self.world.is_stopping and self.random.random() < VANISHES_SHARE:
                self.hang_up()
            await self.idle(IDLE_SECONDS)
        self.hang_up()

    async def _turn(self) -> None:
        self.look_again(self.topic, PARTITIONS)
        broker = (await self.any_queue(self.topic)).broker
        if self.random.random() < BEATS_SHARE:
            await self._beat(broker)
        if self.random.random() < PEEKS_SHARE:
            await self.ask(self.topic, broker, RequestCode.NOTIFICATION, self._fields(0))
        had = await self._pop(broker)
        if not had or (not self.world.is_stopping and self.random.random() < VANISHES_SHARE):
            return
        together: list[Had] = []
        for one in had:
            (way,) = self.random.choices(WAYS, WEIGHTS)
            if way == "batch" or self.world.is_stopping:
                together.append(one)
            else:
                await self._one(way, one)
        if together:
            await self._ack_all(broker, together)

    async def _beat(self, broker: str) -> None:
        group = {"groupName": GROUP, "subscriptionDataSet": [{"topic": self.topic}]}
        body = msgspec.json.encode({"clientID": self.name, "consumerDataSet": [group]})
        await self.ask(self.topic, broker, RequestCode.HEART_BEAT, {}, body)

    def _fields(self, poll_ms: int) -> dict[str, object]:
        return {
            "consumerGroup": GROUP,
            "topic": self.topic,
            "queueId": -1,
            "maxMsgNums": self.random.randint(*MESSAGES_MAX),
            "invisibleTime": self.random.randint(*INVISIBLE_MS),
            "pollTime": poll_ms,
            "bornTime": 0,
            "initMode": 0,
            "order": "false",
        }

    async def _pop(self, broker: str) -> list[Had]:
        """Return what was popped. Raises LinkFailed."""
        poll_ms, asked_ns = self.random.randint(*POLL_MS), now_ns()
        fields = {**self._fields(poll_ms), "bname": broker}
        link = await self.master(self.topic, broker)
        wait_s = ANSWER_SECONDS + poll_ms / 1_000
        answer = await link.call(RequestCode.POP_MESSAGE, fields, wait_s=wait_s)
        if answer.code in {ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL}:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise LinkFailed(f"pop: {ResponseCode(answer.code).name}: {answer.remark}")
        return self._handed(broker, answer, asked_ns, link.host)

    def _handed(self, broker: str, answer: Command, asked_ns: int, told_by: str) -> list[Had]:
        start = int(answer.fields["startOffsetInfo"].split()[2])
        pop_ms, invisible_ms, number = (
            int(answer.fields[name]) for name in ("popTime", "invisibleTime", "reviveQid")
        )
        found = []
        for one in decode_messages(memoryview(answer.body)):
            place = place_of(one.locator)
            assert place is not None, one.locator
            value, deliveries = value_of(one), one.reconsume_times + 1
            handed = Handed(self.name, place, value, deliveries, asked_ns, now_ns(), told_by)
            self.notes.handed.append(handed)
            receipt = Receipt(
                start, pop_ms, invisible_ms, number, broker, one.queue_id, one.queue_offset
            )
            found.append(Had(place, value, receipt))
        return found

    async def _one(self, way: str, one: Had) -> None:
        if way == "late":
            await self.idle((0.2, one.receipt.invisible_ms / 1_000 + 0.3))
        if way in {"ack", "late"}:
            await self._ack(one)
        elif way == "release":
            await self._change(one, 0)
        elif way == "more":
            changed = await self._change(one, self.random.randint(*INVISIBLE_MS))
            if changed is not None and self.random.random() >= LOST_TIME_SHARE:
                await self._ack(changed)

    def _named(self, one: Had) -> dict[str, object]:
        receipt = one.receipt
        return {
            "consumerGroup": GROUP,
            "topic": self.topic,
            "queueId": receipt.queue_id,
            "offset": receipt.offset,
            "extraInfo": write_receipt(receipt),
        }

    async def _ack(self, one: Had) -> None:
        await self._settle(
            one.receipt.broker_name, [one], RequestCode.ACK_MESSAGE, self._named(one)
        )

    async def _ack_all(self, broker: str, had: Sequence[Had]) -> None:
        """Acknowledge what one answer has, which is of one queue."""
        first = had[0].receipt
        bits = sum(1 << one.receipt.offset - first.start for one in had)
        raw = bits.to_bytes(bits.bit_length() // 8 + 1, "little")
        ack = {"c": GROUP, "t": self.topic, "r": "0", "q": first.queue_id, "so": first.start}
        ack |= {"rq": first.number, "pt": first.pop_ms, "it": first.invisible_ms}
        body = {"brokerName": broker, "acks": [ack | {"b": b64encode(raw).decode()}]}
        code = RequestCode.BATCH_ACK_MESSAGE
        await self._settle(broker, had, code, {}, msgspec.json.encode(body))

    async def _settle(
        self,
        broker: str,
        had: Sequence[Had],
        code: int,
        fields: dict[str, object],
        body: bytes = b"",
    ) -> None:
        at, asked_ns, count = len(self.notes.settled), now_ns(), len(had)
        self.notes.settled += [
            Settled(self.name, one.place, Kind.ACCEPT, asked_ns, None) for one in had
        ]
        answer = await self.ask(self.topic, broker, code, fields, body)
        # Of a batch that is refused, some may have been taken: nothing is known of it.
        is_taken = answer.code == ResponseCode.SUCCESS
        is_known = is_taken or (count == 1 and answer.code == ResponseCode.NO_MESSAGE)
        told_ns = now_ns() if is_known else None
        for number in range(at, at + count):
            settled = self.notes.settled[number]
            self.notes.settled[number] = settled._replace(told_ns=told_ns, is_taken=is_taken)

    async def _change(self, one: Had, invisible_ms: int) -> Had | None:
        fields = self._named(one) | {"invisibleTime": invisible_ms}
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        answer = await self.ask(self.topic, one.receipt.broker_name, code, fields)
        if answer.code != ResponseCode.SUCCESS:
            return None
        numbers = (int(answer.fields[name]) for name in ("popTime", "invisibleTime", "reviveQid"))
        pop_ms, told_ms, number = numbers
        receipt = one.receipt._replace(
            start=one.receipt.offset, pop_ms=pop_ms, invisible_ms=told_ms, number=number
        )
        return one._replace(receipt=receipt)
