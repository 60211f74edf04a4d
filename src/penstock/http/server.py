"""The process: listens, serves until SIGTERM or SIGINT, and ends in order.

    signal ─► no new connections ─► waits end, streams end ─► answers are sent ─► nodes' connections
              after stop_s what is still open is cut

Source: ours, on uvicorn's `Server`, whose handling of signals ends the process by the signal.
"""

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Final, cast

import uvicorn

from penstock.base.errors import ConfigError
from penstock.http.accepting import Accepting
from penstock.http.app import App
from penstock.http.front import Front
from penstock.http.limits import HEAD_BYTES_MAX, Limits
from penstock.http.protocol import BoundedProtocol
from penstock.http.relief import Relief
from penstock.http.tokens import Tokens

LOOK_S: Final = 1.0
"""How often files are looked at for changes, and whether memory can be given back."""
log = logging.getLogger(__name__)
logging.getLogger("uvicorn.error").setLevel(logging.ERROR)  # it warns of each request that is none


class HttpServer(uvicorn.Server):
    """See the module."""

    def __init__(
        self, front: Front, listening: socket.socket, context: Callable[[], ssl.SSLContext] | None
    ) -> None:
        self._front = front
        self._listening = listening
        self._context = context
        super().__init__(
            uvicorn.Config(
                App(front),
                http=BoundedProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                h11_max_incomplete_event_size=HEAD_BYTES_MAX,
                timeout_keep_alive=front.limits.idle_s,
                timeout_graceful_shutdown=front.limits.stop_s,
            )
        )

    async def run_until_signal(self) -> None:
        """Serve until a signal, and end in order."""
        loop = asyncio.get_running_loop()
        for one in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(one, self._stop)
        try:
            await self._serve()
        finally:
            self._front.close()

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        self._front.stopping.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; called by uvicorn."""
        del sockets
        await self.lifespan.startup()
        accepting = Accepting(self._front, self._listening, self._make, self._context)
        self.servers = [cast("asyncio.Server", accepting)]
        self.started = True

    def _make(self) -> BoundedProtocol:
        return BoundedProtocol(self._front, self.config, self.server_state, {})


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound. Raises ConfigError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, number, _, address = found[0]
        bound = socket.socket(family, kind, number)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise ConfigError(f"--listen {host}:{port}: {error.strerror or error}") from error
    return bound


async def serve(  # noqa: PLR0913  what the command is given
    bootstrap: Sequence[str],
    tokens: Callable[[], Tokens],
    listening: socket.socket,
    *,
    context: Callable[[], ssl.SSLContext] | None = None,
    node_tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal; `look` is called now and then, to read changed files."""
    front = Front(bootstrap, tokens, node_tls=node_tls, limits=limits)
    relief = Relief(front.places, front.held)
    looking = asyncio.create_task(_look_often(look, relief))
    host, port = listening.getsockname()[:2]
    scheme = "http" if context is None else "https"
    log.warning("penstock http: listening on %s://%s:%d", scheme, host, port)
    try:
        await HttpServer(front, listening, context).run_until_signal()
    finally:
        looking.cancel()
    log.warning("penstock http: ended")


async def _look_often(look: Callable[[], None], relief: Relief) -> None:
    while True:
        await asyncio.sleep(LOOK_S)
        look()
        await relief.look()
