"""A gRPC producer of transactions: half messages, decisions, answers to checks; it may vanish.

What it does with a half message, and what it notes, is as with the remoting ones
(clients/remoting/transactor.py). It is asked over the stream of its settings, for any half message
of the topic, whoever has sent it.

Source: RocketMQ 5 `ProducerImpl.endTransaction`, `onRecoverOrphanedTransactionCommand`.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from penstock.grpc.proto.messages import (
    Answer,
    EndTransactionRequest,
    HeartbeatRequest,
    Publishing,
    RecoverOrphanedTransactionCommand,
    Resource,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    Settings,
    SystemProperties,
    TelemetryCommand,
)
from penstock.grpc.statuses import ClientType, Code, MessageType
from penstock.protobuf.codec import decode, encode
from simulator.clients.grpc.client import GrpcClient, checked, duration
from simulator.clients.grpc.link import GrpcLink
from simulator.clients.grpc.producer import message_of
from simulator.clients.remoting.transactor import TransactionNotes
from simulator.clients.wire import LinkFailed
from simulator.clients.world import now_ns, pause
from simulator.history.remoting.events import Decision, HalfSent

IDLE_SECONDS = (0.05, 0.4)
BEAT_SECONDS = (0.2, 0.5)
FATES = ("commit", "rollback", "asked", "both", "silent")
WEIGHTS = (8, 4, 4, 2, 1)
AGAIN_SHARE, VANISHES_SHARE, UNANSWERED_SHARE, RECOVERY_SHARE = 0.15, 0.04, 0.3, 0.3
UNKNOWN, COMMIT, ROLLBACK = 0, 1, 2
BY_ITSELF, ASKED = 1, 2
RECOVERY_MS = (0, 1_500)
RECOVERED_MAX = 20
"""Questions that are answered at a time."""


@dataclass(slots=True, kw_only=True)
class GrpcTransactor(GrpcClient):
    """See the module."""

    topic: str
    notes: TransactionNotes
    _count: int = 0
    _answering: set[asyncio.Task[None]] = field(default_factory=set)

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
        """Say to all nodes who it is, so that they ask it, until the run is over."""
        beat = HeartbeatRequest(client_type=ClientType.PRODUCER)
        while not self.world.is_over:
            for address in self.world.grpc_addresses:
                try:
                    told = await self.ask(address, "Heartbeat", beat, Answer)
                    checked(told.status)
                except LinkFailed as error:
                    self.failed(error)
            await self.idle(BEAT_SECONDS)
        self.hang_up()

    async def greet(self, link: GrpcLink) -> None:
        """Tell which topic it writes to. Raises LinkFailed."""
        told: asyncio.Future[TelemetryCommand] = asyncio.get_running_loop().create_future()

        def heard(message: bytes) -> None:
            command = decode(TelemetryCommand, message)
            asked = command.recover_orphaned_transaction_command
            if asked is not None:
                self._asked(link, asked)
            elif not told.done():
                told.set_result(command)

        stream = link.stream("Telemetry", self.name, heard)
        publishing = Publishing(topics=(Resource(name=self.topic),))
        settings = Settings(client_type=ClientType.PRODUCER, publishing=publishing)
        stream.say(encode(TelemetryCommand(settings=settings)))
        await first_of(link, told)

    async def _one(self) -> None:
        queue = await self.any_queue(self.topic)
        self._count += 1
        value = f"{self.name}-{self._count}"
        (fate,) = self.random.choices(FATES, WEIGHTS)
        self.notes.fates[value] = fate
        recovery = None
        if self.random.random() < RECOVERY_SHARE:
            recovery = duration(self.random.randint(*RECOVERY_MS))
        system = SystemProperties(
            message_id=f"ID-{value}",
            message_type=MessageType.TRANSACTION,
            orphaned_transaction_recovery_duration=recovery,
        )
        message = message_of(self.topic, value, value.encode(), system)
        at = len(self.notes.halves)
        self.notes.halves.append(HalfSent(value, now_ns()))
        request = SendMessageRequest(messages=(message,))
        told = await self.ask(queue.address, "SendMessage", request, SendMessageResponse)
        checked(told.status)
        self.notes.halves[at] = self.notes.halves[at]._replace(is_taken=True)
        (entry,) = told.entries
        await self._decide(fate, value, queue.address, entry)

    async def _decide(self, fate: str, value: str, address: str, entry: SendResultEntry) -> None:
        hows = {"commit": [COMMIT], "rollback": [ROLLBACK], "both": [COMMIT, ROLLBACK]}.get(
            fate, []
        )
        self.random.shuffle(hows)
        named = entry.transaction_id
        await asyncio.gather(*(self._end(address, value, how, named) for how in hows))
        if hows and self.random.random() < AGAIN_SHARE:
            await pause(self.random)
            queue = await self.any_queue(self.topic)
            await self._end(queue.address, value, self.random.choice(hows), named)

    async def _end(
        self, address: str, value: str, how: int, named: str, source: int = BY_ITSELF
    ) -> None:
        """Decide, and note what the answer is. An answer that is lost is noted as none."""
        at = len(self.notes.decisions)
        if how != UNKNOWN:
            self.notes.decisions.append(Decision(value, how == COMMIT, now_ns()))
        request = EndTransactionRequest(
            topic=Resource(name=self.topic),
            message_id=f"ID-{value}",
            transaction_id=named,
            resolution=how,
            source=source,
        )
        try:
            told = await self.ask(address, "EndTransaction", request, Answer)
        except LinkFailed as error:
            self.failed(error)
            return
        is_taken = told.status is not None and told.status.code == Code.OK
        if is_taken and how != UNKNOWN:
            self.notes.decisions[at] = self.notes.decisions[at]._replace(is_taken=True)

    def _asked(self, link: GrpcLink, asked: RecoverOrphanedTransactionCommand) -> None:
        """Answer for a half message of the topic."""
        self.notes.checks += 1
        assert asked.message is not None
        value = asked.message.body.decode()
        fate = self.notes.fates[value]
        if fate == "silent" and self.random.random() < UNANSWERED_SHARE:
            return
        if len(self._answering) >= RECOVERED_MAX:
            return
        how = {"silent": UNKNOWN, "rollback": ROLLBACK}.get(fate, COMMIT)
        self._begin(self._end(link.address, value, how, asked.transaction_id, ASKED))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="answer to a check")
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)


async def first_of(
    link: GrpcLink, told: "asyncio.Future[TelemetryCommand]", wait_s: float = 1.0
) -> TelemetryCommand:
    """Return what a node says first on a stream of settings. Raises LinkFailed."""
    try:
        async with asyncio.timeout(wait_s):
            command = await told
    except TimeoutError as error:
        raise link.broken("no settings") from error
    checked(command.status)
    return command
