"""A small HTTP server for metrics and health: GET and HEAD, one answer per connection.

h11 speaks the protocol; this module moves bytes. It is for operators and scrapers on a private
port: bounded in request size, in time and in connections, and without routing beyond exact paths.
Reading a request and making a page take up to milliseconds of the loop: a turn has one of either,
however many are asked for.

    /metrics, /health, /ready  ──►  page() -> (status, content type, body)
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

import h11

from penstock.base.errors import ConfigError

REQUEST_BYTES_MAX = 16_384
REQUEST_TIMEOUT_S = 5.0
CONNECTIONS_MAX = 64
_READ_BYTES = 4096

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """An answer; `body` is sent as it is."""

    status: int
    content_type: str
    body: bytes


Pages = Mapping[str, Callable[[], Page]]
TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def json_page(document: object, status: int = 200) -> Page:
    """Return a JSON document as a page."""
    return Page(status, JSON, json.dumps(document).encode() + b"\n")


class HttpServer:
    """Serves `pages` by exact path until it is stopped."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open_count = 0
        self._work = asyncio.Lock()

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ConfigError when the address can not be bound."""
        try:
            self._server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            raise ConfigError(
                f"metrics address {host}:{port} can not be used ({error.strerror}): "
                "change node.metrics_port, 0 switches it off"
            ) from error

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open_count >= CONNECTIONS_MAX:
            writer.close()
            return
        self._open_count += 1
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._answer(reader, writer)
        except (TimeoutError, OSError):
            log.debug("http client went away or was too slow")
        finally:
            self._open_count -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        page = await self._read_page(connection, reader)
        if page is None:
            return
        head = h11.Response(
            status_code=page.status,
            headers=[
                ("Content-Type", page.content_type),
                ("Content-Length", str(len(page.body))),
                ("Connection", "close"),
            ],
        )
        for event in (head, h11.Data(data=page.body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        await writer.drain()

    async def _read_page(
        self, connection: h11.Connection, reader: asyncio.StreamReader
    ) -> Page | None:
        """Read one request; None when the peer closed or sent something that is not HTTP."""
        while True:
            data = await reader.read(_READ_BYTES)
            try:
                async with self._work:
                    connection.receive_data(data)
                    event = connection.next_event()
                    await asyncio.sleep(0)
            except h11.RemoteProtocolError:
                return None if connection.our_state is h11.ERROR else Page(400, TEXT, b"bad\n")
            if event is h11.NEED_DATA:
                continue
            if isinstance(event, h11.Request):
                return await self._find(event)
            return None

    async def _find(self, request: h11.Request) -> Page:
        if request.method not in {b"GET", b"HEAD"}:
            return Page(405, TEXT, b"only GET and HEAD\n")
        path = request.target.split(b"?")[0].decode("ascii", "replace")
        page = self._pages.get(path)
        if page is None:
            known = " ".join(sorted(self._pages))
            return Page(404, TEXT, f"not here; there is {known}\n".encode())
        async with self._work:
            made = page()
            await asyncio.sleep(0)
        return made
