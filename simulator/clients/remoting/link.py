"""A remoting connection on the event loop: many requests under way, and those of the broker.

    link = await RemotingLink.open("host:port", on_request)
    answer = await link.call(RequestCode.HEART_BEAT, {}, body)
    link.throw(...)                        one-way: nobody answers

Any error raises LinkFailed, and the link can not be used afterwards.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Self

from penstock.remoting.errors import MalformedFrame
from penstock.remoting.wire.command import ONE_WAY, Command, Serialisation
from penstock.remoting.wire.frame import decode_frame, encode_frame
from simulator.clients.wire import ANSWER_BYTES_MAX, ANSWER_SECONDS, CONNECT_SECONDS, LinkFailed

_LENGTH_BYTES = 4
OnRequest = Callable[["RemotingLink", Command], None]


class RemotingLink:
    """See the module."""

    def __init__(
        self,
        address: str,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        on_request: OnRequest,
        serialisation: Serialisation,
    ) -> None:
        self.address = address
        self._reader, self._writer = streams
        self._on_request = on_request
        self._serialisation = serialisation
        self._asked: dict[int, asyncio.Future[Command]] = {}
        self._opaque = 0
        self._why = ""
        """Why it is of no use any more."""
        self._pump = asyncio.get_running_loop().create_task(self._read(), name="remoting link")

    @classmethod
    async def open(
        cls, address: str, on_request: OnRequest, serialisation: Serialisation = Serialisation.JSON
    ) -> Self:
        """Connect. Raises LinkFailed."""
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                streams = await asyncio.open_connection(host, int(port))
        except (OSError, TimeoutError) as error:
            raise LinkFailed(f"{address}: {error!r}") from error
        return cls(address, streams, on_request, serialisation)

    @property
    def host(self) -> str:
        """Whom it leads to."""
        return self.address.rpartition(":")[0]

    @property
    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return bool(self._why)

    async def call(
        self,
        code: int,
        fields: Mapping[str, object],
        body: bytes = b"",
        *,
        wait_s: float = ANSWER_SECONDS,
    ) -> Command:
        """Send a request and return its answer. Raises LinkFailed."""
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        opaque = self._send(code, fields, body, 0)
        self._asked[opaque] = answer
        try:
            async with asyncio.timeout(wait_s):
                return await answer
        except TimeoutError as error:
            raise self.broken(f"no answer to {code}") from error
        finally:
            self._asked.pop(opaque, None)

    def throw(self, code: int, fields: Mapping[str, object], body: bytes = b"") -> None:
        """Send a request that has no answer. Raises LinkFailed."""
        self._send(code, fields, body, ONE_WAY)

    def _send(self, code: int, fields: Mapping[str, object], body: bytes, flag: int) -> int:
        if self._why:
            raise LinkFailed(self._why)
        self._opaque += 1
        command = Command(
            code=code,
            fields={name: str(value) for name, value in fields.items()},
            body=body,
            opaque=self._opaque,
            flag=flag,
            serialisation=self._serialisation,
        )
        self._writer.write(encode_frame(command))
        return self._opaque

    async def _read(self) -> None:
        try:
            while True:
                self._heard(decode_frame(await self._frame()))
        except (OSError, asyncio.IncompleteReadError, MalformedFrame, LinkFailed) as error:
            self._end(repr(error))

    async def _frame(self) -> memoryview:
        size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES))
        if size > ANSWER_BYTES_MAX:
            raise LinkFailed(f"a frame of {size} bytes")
        return memoryview(await self._reader.readexactly(size))

    def _heard(self, command: Command) -> None:
        if not command.is_answer:
            self._on_request(self, command)
            return
        answer = self._asked.get(command.opaque)
        if answer is not None and not answer.done():
            answer.set_result(command)

    def broken(self, reason: str) -> LinkFailed:
        """Close, and return the error to raise."""
        self._end(reason)
        self._pump.cancel()
        return LinkFailed(f"{self.address}: {reason}")

    def close(self) -> None:
        """Close; again: no effect."""
        self.broken("closed here")

    def _end(self, reason: str) -> None:
        if self._why:
            return
        self._why = reason
        self._writer.close()
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(LinkFailed(f"{self.address}: {reason}"))
