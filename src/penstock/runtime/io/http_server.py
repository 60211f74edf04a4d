"""A small HTTP server for metrics and health: GET and HEAD, one answer per connection.

h11 parses the protocol; this module does the I/O. It is for operators and scrapers on a private
port: bounded in request size, in time and in connections, and without routing beyond exact paths.
At the limit of connections, one that has not sent a request yet is closed: the oldest of the
address that has the most. So a client that only connects cannot keep others out.

Half of the connections is for requests that are looked at, and for the pages of ALWAYS. Any other
page that would need that half closes one whose answer is not taken, of the address that has the
most such, the one that was answered first; it is refused if there is none. So clients that read
nothing, or ask for more pages than can be made, never leave it unknown whether the node is well.

Parsing a request and making a page each take up to milliseconds of the loop, so one loop iteration
does one of them, however many are waiting; a request waits for one page at most, and for those that
came before it. Both have a share of the loop: after a page no other one is made for four times as
long as it took, and so with requests. So a flood takes two fifths of the loop at most, whoever
sends it. A request waits for rests of requests only, so pages never delay those of ALWAYS.

With TLS (http_tls.py) a client has shaken hands before it takes one of these places. Who may read
which page, but those of ALWAYS, is asked of `refuse`, where one is given.

    /metrics, /health, /ready  ──►  page() -> (status, content type, body), at once or awaited
"""

import asyncio
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

import h11

from penstock.base.errors import ConfigError
from penstock.net.sockets import host_of
from penstock.net.tls.doors import TlsContext
from penstock.runtime.io.http_tls import HttpTls

REQUEST_BYTES_MAX = 16_384
REQUEST_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0
"""An answer that is not taken whole by then is cut off: what a scraper usually waits for a page."""
CONNECTIONS_MAX = 64
ASKED_MAX = CONNECTIONS_MAX // 2
"""Connections for which pages are made, or that have not taken theirs; without those of ALWAYS."""
ALWAYS = frozenset({"/health", "/ready"})
"""Pages that are answered however many others are asked for: small ones."""
BACKLOG = 1024
"""Connections that wait in the kernel."""
ACCEPTED_MAX = 4
"""Connections that are accepted in one turn of the loop."""
REST = 4
"""Rest after a page, and after a request, in multiples of the time that it took."""
_READ_BYTES = 4096

log = logging.getLogger(__name__)


class Page(NamedTuple):
    """A response; `body` is sent as it is."""

    status: int
    content_type: str
    body: bytes


class Reader(NamedTuple):
    """Who asks for a page."""

    host: str
    own_host: str
    """The address of this machine that it has connected to."""
    certificate: bytes = b""
    """That of the client (DER), which has been checked; empty if it has sent none."""


Refuse = Callable[[Reader], str]
"""Returns why a client may not read pages but those of ALWAYS; an empty text if it may."""

Pages = Mapping[str, Callable[[], Page | Awaitable[Page]]]
"""By exact path. Awaiting a page counts against the request's time limit."""

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


def json_page(document: object, status: int = 200) -> Page:
    """Return a JSON document as a page."""
    return Page(status, JSON, json.dumps(document).encode() + b"\n")


class _Share:
    """One piece of work at a time, and a rest after each: a share of the loop for one kind."""

    def __init__(self, worked: Callable[[], float]) -> None:
        """`worked` returns the CPU seconds of this thread: time stolen by others is no work."""
        self._worked = worked
        self._turn = asyncio.Lock()
        self._rested = 0.0
        self._begun = 0.0

    async def __aenter__(self) -> None:
        """Wait for the turn and for the end of the rest."""
        await self._turn.acquire()
        try:
            rest = self._rested - asyncio.get_running_loop().time()
            if rest > 0:
                await asyncio.sleep(rest)
        except asyncio.CancelledError:
            self._turn.release()
            raise
        self._begun = self._worked()

    async def __aexit__(self, *_: object) -> None:
        """Give up the turn; nothing may have been awaited since it came."""
        took = self._worked() - self._begun
        self._rested = asyncio.get_running_loop().time() + REST * took
        try:
            await asyncio.sleep(0)  # the next piece of work belongs to another turn of the loop
        finally:
            self._turn.release()


class HttpServer:
    """Serves `pages` by exact path until it is stopped."""

    def __init__(
        self,
        pages: Pages,
        worked: Callable[[], float] = time.thread_time,
        *,
        context: TlsContext | None = None,
        refuse: Refuse | None = None,
    ) -> None:
        """`worked` returns the CPU seconds of the thread that serves; `context` is that of TLS."""
        self._pages = pages
        self._context, self._refuse = context, refuse
        self.tls: HttpTls | None = None
        """Who shakes hands; None without TLS, and before `start`."""
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, str] = {}
        """Connections with their address, oldest first."""
        self._silent: dict[asyncio.StreamWriter, None] = {}
        """Those connections that have not sent a request yet, oldest first."""
        self._asked: set[asyncio.StreamWriter] = set()
        """Those that have asked for any page but those of ALWAYS."""
        self._unread: dict[asyncio.StreamWriter, None] = {}
        """Those that have not taken their answer yet, in the order of the answers."""
        self._parsing, self._making = _Share(worked), _Share(worked)

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises ConfigError if the address cannot be bound."""
        try:
            self._server = await self._listen(host, port)
        except OSError as error:
            raise ConfigError(
                f"metrics address {host}:{port} can not be used: {_reason(error)}; change "
                "node.metrics_host or node.metrics_port; port 0 switches it off"
            ) from error
        for listening in self._server.sockets:  # asyncio has one figure for both bounds
            with socket.socket(fileno=os.dup(listening.fileno())) as same:
                same.listen(BACKLOG)

    async def _listen(self, host: str, port: int) -> asyncio.Server:
        if self._context is None:
            return await asyncio.start_server(self._serve, host, port, backlog=ACCEPTED_MAX)
        loop = asyncio.get_running_loop()
        self.tls = HttpTls(self._context, self._serve)
        return await loop.create_server(self.tls.protocol, host, port, backlog=ACCEPTED_MAX)

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        if self.tls is not None:
            self.tls.stop()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, certificate: bytes = b""
    ) -> None:
        if len(self._open) >= CONNECTIONS_MAX and not (
            self._end_one(self._silent) or self._end_one(self._untaken(asked=False))
        ):
            writer.close()
            return
        self._open[writer] = _address(writer)
        self._silent[writer] = None
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all is taken
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._answer(reader, writer, certificate)
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await writer.drain()
        except (TimeoutError, OSError):
            log.debug("http client went away or was too slow")
        finally:
            self._forget(writer)
            if writer.transport.get_write_buffer_size():
                writer.transport.abort()  # else what was not taken would be kept for ever
            writer.close()

    def _end_one(self, among: Collection[asyncio.StreamWriter]) -> bool:
        """Close the first one of the address that is connected most; False if there is none."""
        if not among:
            return False
        count = Counter(self._open.values())
        ended = max(among, key=lambda writer: count[self._open[writer]])
        self._forget(ended)
        ended.transport.abort()
        return True

    def _forget(self, writer: asyncio.StreamWriter) -> None:
        self._open.pop(writer, None)
        self._silent.pop(writer, None)
        self._unread.pop(writer, None)
        self._asked.discard(writer)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, certificate: bytes
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        request = await self._read_request(connection, reader)
        if writer not in self._open:  # it has made room for another one
            return
        self._silent.pop(writer, None)
        page: Page | None
        if isinstance(request, h11.Request):
            reads = Reader(_address(writer), _address(writer, "sockname"), certificate)
            page = await self._find(request, writer, reads)
        else:
            page = request
        if page is None:
            return
        self._unread[writer] = None
        head = h11.Response(
            status_code=page.status,
            headers=[
                ("Content-Type", page.content_type),
                ("Content-Length", str(len(page.body))),
                ("Connection", "close"),
            ],
        )
        body = b"" if _is_head(request) else page.body
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")

    async def _read_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader
    ) -> h11.Request | Page | None:
        """Read one request; a page for a bad one, None if the client is gone."""
        while True:
            data = await reader.read(_READ_BYTES)
            try:
                async with self._parsing:
                    connection.receive_data(data)
                    event = connection.next_event()
            except h11.RemoteProtocolError:
                return None if connection.our_state is h11.ERROR else Page(400, TEXT, b"bad\n")
            if event is h11.NEED_DATA:
                continue
            return event if isinstance(event, h11.Request) else None

    async def _find(
        self, request: h11.Request, writer: asyncio.StreamWriter, reads: Reader
    ) -> Page:
        if request.method not in {b"GET", b"HEAD"}:
            return Page(405, TEXT, b"only GET and HEAD\n")
        path = request.target.split(b"?")[0].decode("ascii", "replace")
        page = self._pages.get(path)
        if page is None:
            known = " ".join(sorted(self._pages))
            return Page(404, TEXT, f"not found; there is {known}\n".encode())
        if path not in ALWAYS and self._refuse and (why := self._refuse(reads)):
            return Page(403, TEXT, f"{why}\n".encode())
        if path in ALWAYS:
            made = page()
        elif self._has_place():
            self._asked.add(writer)
            made = await self._make(page)
        else:
            return Page(503, TEXT, b"too many requests\n")
        return made if isinstance(made, Page) else await made

    def _has_place(self) -> bool:
        """Whether one more page may be made, if need be in place of one that is not taken."""
        return len(self._asked) < ASKED_MAX or self._end_one(self._untaken(asked=True))

    def _untaken(self, *, asked: bool) -> list[asyncio.StreamWriter]:
        """Return who has not taken its answer, oldest first: a page that counts, or another."""
        return [writer for writer in self._unread if (writer in self._asked) is asked]

    async def _make(self, page: Callable[[], Page | Awaitable[Page]]) -> Page | Awaitable[Page]:
        """Make a page when its turn comes."""
        async with self._making:
            return page()


def _is_head(request: h11.Request | Page | None) -> bool:
    """Whether the answer has a header alone; of a body h11 says that it is too long."""
    return isinstance(request, h11.Request) and request.method == b"HEAD"


def _reason(error: OSError) -> str:
    """Return why an address can not be bound, without asyncio's sentence around it."""
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(error.errno) if error.errno else str(error)


def _address(writer: asyncio.StreamWriter, of: str = "peername") -> str:
    """Return an address of a connection; an empty string if it is closed already."""
    found = writer.get_extra_info(of)
    return host_of(found) if found else ""
