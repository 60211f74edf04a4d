"""A network in which some requests of Kafka's clients come late, after their connection has ended.

Every broker binds its ports on 127.0.0.1 and tells others that they are on 127.0.0.2, where this
listens on the same numbers and passes bytes on. A request of a chosen kind is held up at times, as
by a queue on its way. Its client gives up, dials anew and goes on; and the broker gets the old
request although nobody waits for its answer any more.

Source: Jepsen's analyses of Bufstream 0.1.0 and Apache Kafka (delayed EndTxn and Produce).
"""

import asyncio
import contextlib
import random
import threading
from collections import Counter
from collections.abc import Collection, Iterable

from penstock.protocol.api_keys import ApiKey
from reliability.faults.switchboard import INSIDE, OUTSIDE, Tasks, keep_task

CHUNK_BYTES = 256 << 10
FRAME_BYTES_MAX = 16 << 20
START_SECONDS = 60.0
LINGER_SECONDS = 1.0
"""A late request is read by its broker before the connection ends."""


class LateFrames:
    """The ports of a cluster; `with` runs it in a thread of its own."""

    def __init__(
        self, kafka_ports: Iterable[int], other_ports: Iterable[int], seconds: float, seed: int
    ) -> None:
        """`seconds` is how late a request is; requests are on the ports of Kafka's protocol."""
        self._kafka_ports, self._other_ports = tuple(kafka_ports), tuple(other_ports)
        self._seconds = seconds
        self._random = random.Random(seed)
        self._share, self._kinds = 0.0, frozenset[int]()
        self.late: Counter[str] = Counter()
        """How many requests were held up, by their kind."""
        self._joined: Tasks = set()
        self._loop = asyncio.new_event_loop()
        self._is_open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def hold_up(self, kinds: Collection[ApiKey], share: float) -> None:
        """Hold this share of the requests of these kinds up from now on."""
        self._share, self._kinds = share, frozenset(int(kind) for kind in kinds)

    def __enter__(self) -> "LateFrames":
        self._thread.start()
        if not self._is_open.wait(START_SECONDS):
            raise OSError("nothing listens between clients and brokers")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        servers = self._loop.run_until_complete(self._listen())
        self._is_open.set()
        self._loop.run_forever()
        for server in servers:
            server.close()
        self._settle()  # connections that were accepted just now have their tasks
        while tasks := asyncio.all_tasks(self._loop):
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._settle()  # transports close in later rounds
        self._loop.close()

    def _settle(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0.1))

    async def _listen(self) -> list[asyncio.Server]:
        return [
            await asyncio.start_server(accepted, OUTSIDE, port, limit=FRAME_BYTES_MAX)
            for ports, accepted in (
                (self._kafka_ports, self._accept_client),
                (self._other_ports, self._accept_peer),
            )
            for port in ports
        ]

    async def _accept_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._join(reader, writer, is_client=True)

    async def _accept_peer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._join(reader, writer, is_client=False)

    async def _join(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_client: bool
    ) -> None:
        keep_task(self._joined)
        port = int(writer.get_extra_info("sockname")[1])
        try:
            onward, back = await asyncio.open_connection(INSIDE, port)
        except (OSError, asyncio.CancelledError):
            writer.close()
            return
        answers = asyncio.ensure_future(_pass(onward, writer))
        try:
            if is_client:
                await self._pass_frames(reader, back)
            else:
                await _pass(reader, back)
        except asyncio.CancelledError:
            pass  # the end of the run; streams report a cancelled handler as an error
        finally:
            back.close()
            with contextlib.suppress(asyncio.CancelledError):
                await answers

    async def _pass_frames(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter
    ) -> None:
        """Pass requests on until the client ends, those that are held up also after that."""
        was_late = False
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(head, "big"))
                kind = int.from_bytes(frame[:2], "big")
                was_late = kind in self._kinds and self._random.random() < self._share
                if was_late:
                    self.late[ApiKey(kind).name] += 1
                    await asyncio.sleep(self._seconds)
                broker.write(head + frame)
                await broker.drain()
        if was_late:
            await asyncio.sleep(LINGER_SECONDS)


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Pass bytes on; where nobody takes them any more they are read and dropped."""
    is_taken = True
    try:
        while data := await source.read(CHUNK_BYTES):
            if not is_taken:
                continue
            target.write(data)
            try:
                await target.drain()
            except OSError:
                is_taken = False
    except OSError:
        pass
    finally:
        target.close()
