"""A TCP way to etcd that a test can cut: everything, or only the answers."""

import asyncio
import contextlib
from urllib.parse import urlsplit


class EtcdProxy:
    """On the loop of the test; `url` stands for the etcd behind it."""

    def __init__(self, target: str) -> None:
        parts = urlsplit(target)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.loses_answers = False
        """Whether the next answer, whole or in part, is swallowed and its connection ended."""
        self.is_cut = False
        self.url = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """End all connections and let no new one through."""
        self.is_cut = True
        for writer in self._writers:
            writer.close()

    def mend(self) -> None:
        self.is_cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self.is_cut:
            writer.close()
            return
        with contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection(self._host, self._port)
            self._writers |= {writer, to_writer}
            await asyncio.gather(
                self._pump(reader, to_writer, is_answer=False),
                self._pump(to_reader, writer, is_answer=True),
            )
            self._writers -= {writer, to_writer}

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                if is_answer and self.loses_answers:
                    self.loses_answers = False
                    break
                target.write(data)
                await target.drain()
        target.close()
