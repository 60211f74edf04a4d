"""A node whose answers a test chooses, behind a real connection; and calls without a socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from penstock.http.call import Call
from penstock.http.front import Front
from penstock.http.tokens import Tokens, read_tokens
from penstock.http.upstream.popping import HandedOut
from penstock.http.upstream.receipts import Handle
from penstock.remoting.pop.receipts import Receipt
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from penstock.remoting.wire.command import Command
from penstock.remoting.wire.frame import decode_frame, encode_frame
from penstock.remoting.wire.message import Message, encode_message

TOKEN = "0123456789abcdef01234567"
FILE = f"""
[[token]]
name = "t"
token = "{TOKEN}"
produce = ["*"]
consume = ["*"]
groups = ["*"]
"""
BROKER = "set-1"
Answer = Callable[[Command], Command | None]
"""What the node says to a request that is none for a route; None: nothing."""


class ScriptedNode:
    """Answers requests for routes by itself, and all others as it is told."""

    def __init__(self, answer: Answer, queues: int) -> None:
        self._answer = answer
        self._queues = queues
        self._writers: list[asyncio.StreamWriter] = []
        self.address = ""
        self.asked: list[Command] = []
        self.may_tell_routes = asyncio.Event()
        self.may_tell_routes.set()
        self.refused_routes = 0
        """So many requests for routes are refused, as by a node that is too busy."""

    def requests(self, code: RequestCode) -> list[Command]:
        """Return those of a kind that have come, in order."""
        return [one for one in self.asked if one.code == code]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection."""
        self._writers.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4))
                command = decode_frame(memoryview(await reader.readexactly(size)))
                self.asked.append(command)
                is_route = command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
                if is_route:
                    await self.may_tell_routes.wait()
                answer = self._route(command) if is_route else self._answer(command)
                if answer is not None:
                    writer.write(encode_frame(answer))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def says(self, answer: Answer) -> None:
        """Answer so from now on."""
        self._answer = answer

    def hang_up(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def _route(self, asked: Command) -> Command:
        if self.refused_routes:
            self.refused_routes -= 1
            return asked.answer(ResponseCode.SYSTEM_BUSY)
        route = {
            "brokerDatas": [{"brokerName": BROKER, "brokerAddrs": {"0": self.address}}],
            "queueDatas": [{"brokerName": BROKER, "writeQueueNums": self._queues}],
        }
        return asked.answer(ResponseCode.SUCCESS, body=json.dumps(route).encode())


@asynccontextmanager
async def scripted(answer: Answer, queues: int = 1) -> AsyncIterator[ScriptedNode]:
    node = ScriptedNode(answer, queues)
    server = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    node.address = f"{host}:{port}"
    async with asyncio.timeout(120):
        yield node
    node.hang_up()
    server.close()


def silent(_: Command) -> None:
    """Answer nothing."""


def ok(asked: Command) -> Command:
    """Say yes to whatever it is."""
    return asked.answer(ResponseCode.SUCCESS)


def messages(asked: Command, *numbers: int) -> Command:
    """Answer a pop with the messages that have these offsets."""
    fields = {
        "startOffsetInfo": f"0 0 {numbers[0]}",
        "popTime": "1000",
        "invisibleTime": "60000",
        "reviveQid": "7",
    }
    body = b"".join(encode_message(_message(one)) for one in numbers)
    return asked.answer(ResponseCode.SUCCESS, fields, body=body)


def _message(number: int) -> Message:
    return Message("t", 0, number, b"%d" % number, locator=number)


def handle(number: int) -> Handle:
    """Return the handle of a message that was handed out."""
    return Handle(Receipt(0, 1000, 60_000, 7, BROKER, 0, number), number)


def handed_out(number: int) -> HandedOut:
    """Return a message that was handed out."""
    return HandedOut(_message(number), handle(number))


def tokens() -> Tokens:
    """Return the tokens of a file with one that may do everything."""
    return read_tokens("f", FILE)


def front_of(*addresses: str) -> Front:
    """Return a front of these nodes."""
    known = tokens()
    return Front(addresses, lambda: known)


class Sent(NamedTuple):
    """A call, and what it was answered."""

    call: Call
    answers: list[MutableMapping[str, Any]]

    @property
    def document(self) -> Any:
        """Return the body of an answer in JSON."""
        return json.loads(b"".join(one.get("body", b"") for one in self.answers))


def calling(front: Front, body: bytes = b"", query: bytes = b"") -> Sent:
    """Return a call with a body that is all there, whose client stays."""
    parts = [{"type": "http.request", "body": body}]
    answers: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        if parts:
            return parts.pop()
        return await asyncio.get_running_loop().create_future()

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.append(message)

    scope = {
        "method": "POST",
        "raw_path": b"/",
        "query_string": query,
        "headers": [(b"content-length", b"%d" % len(body))],
    }
    call = Call(scope, receive, send, limits=front.limits, held=front.held)
    call.bearer = TOKEN
    call.token = front.tokens().find(TOKEN)
    return Sent(call, answers)
