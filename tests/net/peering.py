"""Two ends of a peer link over loopback, for tests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from penstock.net.peer import Credentials, PeerHello, PeerLink, PeerListener, PeerSecurity, dial

SECRET = b"a secret of the tests"
LISTENER = PeerHello(b"", "cluster", 1, 11)
DIALER = PeerHello(b"ha", "cluster", 2, 22)
FRAME_BYTES_MAX = 8 << 20


class End:
    """One end of a link with what came out of it."""

    def __init__(self, link: PeerLink) -> None:
        self.link = link
        self.frames: list[bytes] = []
        self.reasons: list[str] = []
        self._changed = asyncio.Event()
        self.listen()

    def listen(self) -> None:
        self.link.on_frame = self._on_frame
        self.link.on_closed = self._on_closed

    def _on_frame(self, view: memoryview) -> None:
        self.frames.append(bytes(view))
        self._changed.set()

    def _on_closed(self, reason: str) -> None:
        self.reasons.append(reason)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def received(self, count: int) -> list[bytes]:
        await self.until(lambda: len(self.frames) >= count)
        return self.frames

    async def closed(self) -> str:
        await self.until(lambda: bool(self.reasons))
        return self.reasons[0]


class Port:
    """A listener and the ends that were dialled."""

    def __init__(self, security: PeerSecurity, own: PeerHello) -> None:
        self.ends: list[End] = []
        self._dialled: list[PeerLink] = []
        self._came = asyncio.Event()
        self.listener = PeerListener(
            "127.0.0.1",
            0,
            own,
            security,
            {b"ha": self._on_link},
            frame_bytes_max=FRAME_BYTES_MAX,
        )

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.listener.port

    def _on_link(self, link: PeerLink) -> None:
        self.ends.append(End(link))
        self._came.set()

    async def end(self, number: int = 0) -> End:
        while len(self.ends) <= number:
            self._came.clear()
            await self._came.wait()
        return self.ends[number]

    async def dial(
        self, hello: PeerHello = DIALER, security: PeerSecurity | None = None
    ) -> PeerLink:
        link = await dial(
            self.address,
            hello,
            security or PeerSecurity(Credentials(SECRET)),
            timeout_ms=5_000,
            frame_bytes_max=FRAME_BYTES_MAX,
        )
        self._dialled.append(link)
        return link

    def close(self) -> None:
        """Close the port and both ends of all links."""
        self.listener.stop()
        for link in self._dialled:
            link.abort("the test is over")

    async def pair(self) -> tuple[End, End]:
        """Return the dialler's and the listener's end of a new link."""
        number = len(self.ends)
        dialler = End(await self.dial())
        return dialler, await self.end(number)


@asynccontextmanager
async def peer_port(
    security: PeerSecurity | None = None, own: PeerHello = LISTENER
) -> AsyncIterator[Port]:
    port = Port(security or PeerSecurity(Credentials(SECRET)), own)
    port.listener.start()
    try:
        yield port
    finally:
        port.close()
        await drained()


async def drained() -> None:
    """Let callbacks that are due run, and closed sockets go."""
    for _ in range(20):
        await asyncio.sleep(0)


async def raw(port: Port) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as somebody who speaks another protocol, or none."""
    return await asyncio.open_connection(*port.address)


async def is_ended(reader: asyncio.StreamReader) -> bool:
    """Read until the other side has closed."""
    with contextlib.suppress(ConnectionResetError):
        await reader.read()
    return True


async def send_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(len(body).to_bytes(4, "big") + body)
    await writer.drain()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
