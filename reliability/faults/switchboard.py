"""A network between processes of one machine that can be cut, without any privilege.

Every process binds its ports on 127.0.0.1 and tells others that they are on 127.0.0.2, where this
switchboard listens on the same numbers and passes bytes on. Who dials is found in /proc: the pid
that owns the other end of the connection. While a link is cut nothing passes and nothing is closed,
as with a network that swallows packets; afterwards what was held goes on.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

OUTSIDE = "127.0.0.2"
INSIDE = "127.0.0.1"
CHUNK_BYTES = 256 << 10
START_SECONDS = 60.0

Tasks = set[asyncio.Task[None]]
Names = Callable[[], Mapping[int, str]]
"""pid -> name of the process, at this moment. Anybody else has the name ''."""


class Switchboard:
    """Ports of named processes; `with` runs it in a thread of its own."""

    def __init__(self, ports: Mapping[int, str], names: Names) -> None:
        """`ports`: number -> name of the process that listens there."""
        self._ports = dict(ports)
        self._names = names
        self._cut: frozenset[str] = frozenset()
        self._changed = asyncio.Event()
        self._joined: Tasks = set()
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def cut_off(self, names: Collection[str]) -> None:
        """Let nothing pass between `names` and all others from now on; () heals everything."""
        self._loop.call_soon_threadsafe(self._set_cut, frozenset(names))

    def __enter__(self) -> "Switchboard":
        self._thread.start()
        if not self._is_open.wait(START_SECONDS):
            raise OSError("the switchboard could not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    def _set_cut(self, names: frozenset[str]) -> None:
        self._cut = names
        self._changed.set()
        self._changed = asyncio.Event()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._is_open.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _listen(self) -> None:
        for port in self._ports:
            self._servers.append(await asyncio.start_server(self._accepted, OUTSIDE, port))

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        own = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not own]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)  # transports close in later rounds of the loop

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        keep_task(self._joined)
        port = int(writer.get_extra_info("sockname")[1])
        dialled_from = int(writer.get_extra_info("peername")[1])
        try:
            # Not on the loop: with ten thousand connections on the machine it takes a while.
            dialer = await asyncio.to_thread(_owner, dialled_from, port, self._names())
            link = (dialer, self._ports[port])
            await self._passable(link)
            onward, back = await asyncio.open_connection(INSIDE, port)
            await asyncio.gather(self._pass(link, reader, back), self._pass(link, onward, writer))
        except OSError:
            pass
        finally:
            writer.close()

    async def _pass(
        self, link: tuple[str, str], source: asyncio.StreamReader, target: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await source.read(CHUNK_BYTES):
                await self._passable(link)
                target.write(data)
                await target.drain()
            await self._passable(link)
        except OSError:
            pass
        finally:
            target.close()

    async def _passable(self, link: tuple[str, str]) -> None:
        while (link[0] in self._cut) != (link[1] in self._cut):
            await self._changed.wait()


def keep_task(tasks: Tasks) -> None:
    """Keep the present task, of an open connection, until it ends.

    The loop does not: who waits for a reader whose connection is closing is referred to by that
    reader alone, and is collected with it.
    """
    task = asyncio.current_task()
    assert task is not None
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _owner(port: int, to: int, names: Mapping[int, str]) -> str:
    """Return the name of the process that has dialled port `to` from this port."""
    inode = _inode(port, to)
    if inode is None:
        return ""
    wanted = f"socket:[{inode}]"
    for pid, name in names.items():
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()) == wanted:
                        return name
    return ""


def _inode(port: int, to: int) -> str | None:
    """Return the inode of the socket that is connected from this port to OUTSIDE's port `to`."""
    table = Path("/proc/net/tcp").read_bytes()
    at = table.find(b":%04X 0200007F:%04X " % (port, to))
    if at < 0:
        return None
    line = table[table.rfind(b"\n", 0, at) + 1 : table.find(b"\n", at)]
    return line.split()[9].decode("ascii")
