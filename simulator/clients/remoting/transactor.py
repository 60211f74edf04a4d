"""A producer of transactions: half messages, decisions, answers to checks; at times it vanishes.

    commit, rollback   decided at once, at times twice
    asked              decided when a broker asks
    both               two decisions that contradict each other, at the same time
    silent             never: "unknown" to every check, or no answer

All are of one producer group, so that one answers for another that has vanished, as with RocketMQ.

Source: RocketMQ `DefaultMQProducerImpl.sendMessageInTransaction`, `checkTransactionState`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.remoting.ids import read_offset_id
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.message import decode_messages
from simulator.clients.remoting.client import (
    Queue,
    RemotingClient,
    properties_of,
    send_fields,
    value_of,
)
from simulator.clients.remoting.link import RemotingLink
from simulator.clients.wire import LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.remoting.events import Decision, HalfSent

GROUP = "payers"
NAMED, NAMED_OF_GRPC = "payer", "grpc-payer"
"""How names begin, and values: what is discarded is in one topic."""
IDLE_SECONDS = (0.05, 0.4)
BEAT_SECONDS = (0.2, 0.5)
FATES = ("commit", "rollback", "asked", "both", "silent")
WEIGHTS = (8, 4, 4, 2, 1)
ONE_WAY_SHARE, AGAIN_SHARE, VANISHES_SHARE, UNANSWERED_SHARE = 0.4, 0.15, 0.04, 0.3
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PREPARED = 4


@dataclass(slots=True, kw_only=True)
class TransactionNotes:
    """What the producers of the group have said."""

    halves: list[HalfSent] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    fates: dict[str, str] = field(default_factory=dict)
    """By value."""
    checks: int = 0


@dataclass(slots=True, kw_only=True)
class Transactor(RemotingClient):
    """See the module."""

    topic: str
    notes: TransactionNotes
    _count: int = 0

    async def run(self) -> None:
        """Send and decide until asked to stop; `answer` goes on."""
        while not self.world.is_stopping and not self.world.is_over:
            try:
                await self._one()
            except LinkFailed as error:
                self.failed(error)
                await pause(self.random)
            if self.random.random() < VANISHES_SHARE:
                self.hang_up()
            await self.idle(IDLE_SECONDS)

    async def answer(self) -> None:
        """Say to all masters who it is, so that they ask it, until the run is over."""
        beat = {"clientID": self.name, "producerDataSet": [{"groupName": GROUP}]}
        body = msgspec.json.encode(beat)
        while not self.world.is_over:
            try:
                for broker in sorted((await self.route(self.topic)).masters):
                    link = await self.master(self.topic, broker)
                    await link.call(RequestCode.HEART_BEAT, {}, body)
                # Whoever was master takes heartbeats, too: only a route tells of another one.
                self._routes.pop(self.topic, None)
            except LinkFailed as error:
                self.failed(error)
            await self.idle(BEAT_SECONDS)
        self.hang_up()

    async def _one(self) -> None:
        queue = await self.any_queue(self.topic)
        link = await self.master(self.topic, queue.broker)
        self._count += 1
        value = f"{self.name}-{self._count}"
        (fate,) = self.random.choices(FATES, WEIGHTS)
        self.notes.fates[value] = fate
        at = len(self.notes.halves)
        self.notes.halves.append(HalfSent(value, now_ns()))
        properties = properties_of(value, {"TRAN_MSG": "true", "PGROUP": GROUP})
        fields = send_fields(GROUP, self.topic, queue, properties, f=PREPARED)
        answer = await link.call(RequestCode.SEND_MESSAGE_V2, fields, value.encode())
        if answer.code != ResponseCode.SUCCESS:
            raise LinkFailed(f"{ResponseCode(answer.code).name}: {answer.remark}")
        self.notes.halves[at] = self.notes.halves[at]._replace(is_taken=True)
        await self._decide(fate, value, queue, answer)

    async def _decide(self, fate: str, value: str, queue: Queue, answer: Command) -> None:
        named = {
            "topic": self.topic,
            "producerGroup": GROUP,
            "tranStateTableOffset": answer.fields["queueOffset"],
            "commitLogOffset": read_offset_id(answer.fields["msgId"])[1],
            "msgId": f"ID-{value}",
            "transactionId": answer.fields["transactionId"],
            "fromTransactionCheck": "false",
            "bname": queue.broker,
        }
        hows = {"commit": [COMMIT], "rollback": [ROLLBACK], "both": [COMMIT, ROLLBACK]}.get(
            fate, []
        )
        self.random.shuffle(hows)
        link = await self.master(self.topic, queue.broker)
        if len(hows) == 1 and self.random.random() < ONE_WAY_SHARE:
            self._throw(link, value, hows[0], named)
        else:
            await asyncio.gather(*(self._end(link, value, how, named) for how in hows))
        if hows and self.random.random() < AGAIN_SHARE:
            await pause(self.random)
            link = await self.master(self.topic, queue.broker)
            await self._end(link, value, self.random.choice(hows), named)

    async def _end(
        self, link: RemotingLink, value: str, how: int, named: Mapping[str, object]
    ) -> None:
        """Decide, and note what the answer is. An answer that is lost is noted as none."""
        at = self._note(value, how)
        try:
            answer = await link.call(
                RequestCode.END_TRANSACTION, {**named, "commitOrRollback": how}
            )
        except LinkFailed as error:
            self.failed(error)
            return
        if answer.code == ResponseCode.SUCCESS:
            self.notes.decisions[at] = self.notes.decisions[at]._replace(is_taken=True)

    def _throw(self, link: RemotingLink, value: str, how: int, named: Mapping[str, object]) -> None:
        self._note(value, how)
        link.throw(RequestCode.END_TRANSACTION, {**named, "commitOrRollback": how})

    def _note(self, value: str, how: int) -> int:
        self.notes.decisions.append(Decision(value, how == COMMIT, now_ns()))
        return len(self.notes.decisions) - 1

    def on_request(self, link: RemotingLink, command: Command) -> None:
        """Answer for a half message of the group."""
        if command.code != RequestCode.CHECK_TRANSACTION_STATE:
            return
        self.notes.checks += 1
        (message,) = decode_messages(memoryview(command.body))
        value = value_of(message)
        fate = self.notes.fates[value]
        if fate == "silent" and self.random.random() < UNANSWERED_SHARE:
            return
        named = {**command.fields, "producerGroup": GROUP, "fromTransactionCheck": "true"}
        if fate == "silent":
            link.throw(RequestCode.END_TRANSACTION, {**named, "commitOrRollback": UNKNOWN})
        else:
            self._throw(link, value, ROLLBACK if fate == "rollback" else COMMIT, named)
