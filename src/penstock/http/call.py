"""One request: its parts, its body within bounds, and its answer.

A body is read by who needs it, once it is known who asks. A client that goes away is noticed while
a call waits (`watch`): what it would have been handed out stays where it is.

Source: ASGI 3.0 (HTTP connection scope 2.3).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from penstock.http.limits import BODY_BYTES_MAX, PATH_PART_CHARS_MAX, Held, Limits
from penstock.http.problems import MEDIA_TYPE, Problem, bad_request, unavailable
from penstock.http.tokens import Token

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
_QUERY_FIELDS_MAX: Final = 20

SHOWS: Final = "shows"
"""In a scope's state: a weak reference to what takes the name of a token that was shown."""

encode_json: Final = msgspec.json.Encoder().encode


class Call:
    """See the module."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, limits: Limits, held: Held
    ) -> None:
        self.method: str = scope["method"]
        self.raw_path = bytes(scope["raw_path"])
        self._query = bytes(scope["query_string"])
        self.headers = {bytes(name): bytes(value) for name, value in scope["headers"]}
        self._receive, self._send = receive, send
        self.shows = partial(_tell, scope.get("state", {}).get(SHOWS, _nobody))
        """To be called with the name of its token once that is known."""
        self._limits, self._held = limits, held
        self._held_bytes = 0
        self.token: Token | None = None
        self.bearer = ""
        """The token as the client shows it; empty without one."""
        self.status = 0
        """Of the answer, once it has begun."""
        self.is_gone = False
        """Whether the client has been seen to go away."""
        self.has_read = not ({b"content-length", b"transfer-encoding"} & self.headers.keys())
        self._watcher: asyncio.Task[None] | None = None

    # What is asked

    def path_parts(self) -> list[str]:
        """Return the parts between the slashes, decoded. Raises Problem."""
        parts = [unquote(part, errors="strict") for part in self._path().split("/")[1:]]
        if any(len(part) > PATH_PART_CHARS_MAX for part in parts):
            do = f"use names of at most {PATH_PART_CHARS_MAX} characters"
            raise bad_request("bad-path", "a name in the path is too long", do)
        return parts

    def _path(self) -> str:
        try:
            text = self.raw_path.decode("ascii")
            unquote(text, errors="strict")
        except UnicodeDecodeError:
            do = "write names as UTF-8 in percent-encoding"
            raise bad_request("bad-path", "the path is not UTF-8", do) from None
        return text

    def query(self) -> dict[str, str]:
        """Return the fields behind the question mark. Raises Problem."""
        try:
            text = self._query.decode("ascii")
            fields = parse_qsl(
                text, keep_blank_values=True, errors="strict", max_num_fields=_QUERY_FIELDS_MAX
            )
        except ValueError:
            do = f"write at most {_QUERY_FIELDS_MAX} name=value as UTF-8 in percent-encoding"
            raise bad_request("bad-query", "the query can not be read", do) from None
        found = dict(fields)
        if len(found) != len(fields):
            raise bad_request("bad-query", "a name is there twice", "give each name once")
        return found

    async def body(self) -> bytes:
        """Return the body. Raises Problem for one that is too large, too slow, or cut off."""
        told = self.headers.get(b"content-length", b"0")
        if told.isdigit() and len(told) < 20 and int(told) > BODY_BYTES_MAX:
            raise _too_large()
        parts = bytearray()
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        self.is_gone = True
                        raise bad_request("cut-off", "the body was cut off", "send it again")
                    data = message.get("body", b"")
                    if len(parts) + len(data) > BODY_BYTES_MAX:
                        raise _too_large()
                    self.hold(len(data))
                    parts += data
                    if not message.get("more_body", False):
                        break
                    await self._held.pace.turn()
        except TimeoutError:
            detail = f"the body was not there after {self._limits.body_s:g} s"
            status = HTTPStatus.REQUEST_TIMEOUT
            raise Problem(status, "slow-body", detail, "send it faster", closes=True) from None
        self.has_read = True
        return bytes(parts)

    # What it holds

    def hold(self, size: int) -> None:
        """Count bytes until the call ends. Raises Problem if all together are too many."""
        if not self._held.take(size, self._holder):
            detail = "requests of this token, or of all, hold as much memory as they may"
            raise unavailable("too-much-held", detail, "send it again a little later")
        self._held_bytes += size

    @property
    def _holder(self) -> str:
        return "" if self.token is None else self.token.name

    def watch(self) -> "asyncio.Task[None]":
        """Return a task that ends when the client goes away; the body has been read."""
        if self._watcher is None:
            self._watcher = asyncio.create_task(self._until_gone())
        return self._watcher

    async def _until_gone(self) -> None:
        if not self.has_read:
            await self.body()
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True

    def end(self) -> None:
        """Give back what the call holds."""
        self._held.give_back(self._held_bytes, self._holder)
        self._held_bytes = 0
        if self._watcher is not None:
            self._watcher.cancel()

    # What is answered

    async def answer(self, document: object, status: int = HTTPStatus.OK) -> None:
        """Answer with JSON."""
        await self.answer_bytes(encode_json(document), JSON, status)

    async def refuse(self, problem: Problem) -> None:
        """Answer with a problem document; the connection ends if the body was not read."""
        headers = dict(problem.headers)
        if problem.closes or not self.has_read:
            headers["connection"] = "close"
        body = encode_json(problem.document())
        await self.answer_bytes(body, MEDIA_TYPE, int(problem.status), headers)

    async def answer_bytes(
        self, body: bytes, media: str, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with a body that is all there."""
        own = {"content-type": media, "content-length": str(len(body)), **(headers or {})}
        if not self.has_read:
            own["connection"] = "close"
        await self.begin(status, own)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer; `write` and `finish` send the rest."""
        self.status = status
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        raw += [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    async def write(self, data: bytes) -> None:
        """Send a part of the body; waits while the client does not read."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b""})


def _tell(whom: Callable[[], Callable[[str], None] | None], token: str) -> None:
    if (shows := whom()) is not None:
        shows(token)


def _nobody() -> None:
    """Nobody counts connections."""


def _too_large() -> Problem:
    detail = f"a body has at most {BODY_BYTES_MAX} bytes"
    do = "send fewer messages at a time"
    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return Problem(status, "too-large", detail, do, closes=True)
