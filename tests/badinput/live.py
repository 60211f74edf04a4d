"""Bad frames against a live node over TCP, beside a good client that must notice nothing.

`run` returns a Report. What a node may do with a bad frame: answer it, or end the connection, or
wait for the rest of it. The good client asks for ApiVersions and Metadata all the time on its own
connection; each of its requests must be answered, and its times are in the report.

By hand: python -m tests.badinput.live HOST PORT [COUNT] [SEED]
"""

import argparse
import asyncio
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.protocol.api_keys import ApiKey
from tests.badinput.generator import BadFrame, bad_frames, framed

PARALLEL = 16
ANSWER_SECONDS = 0.25
"""How long an answer is waited for; long polls and joins of groups answer later or never."""

GOOD_SECONDS_MAX = 5.0
SLOW_BYTES_MAX = 200
_ASK_VERSIONS = framed(struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 77, -1))
_ASK_METADATA = framed(struct.pack(">hhihi", ApiKey.METADATA, 1, 78, -1, 0))


@dataclass(slots=True)
class Report:
    """What happened; `is_good` says whether the good client noticed anything."""

    seed: int
    frames_sent: int = 0
    connections_closed: int = 0
    answers: int = 0
    silences: int = 0
    connect_failures: int = 0
    good_answers: int = 0
    good_failures: int = 0
    good_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0
    by_kind: Counter[str] = field(default_factory=Counter)

    @property
    def is_good(self) -> bool:
        return self.good_failures == 0 and self.good_answers > 0

    @property
    def good_p99_ms(self) -> float:
        ordered = sorted(self.good_ms)
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0


def run(host: str, port: int, count: int = 20_000, seed: int = 1) -> Report:
    """Send `count` bad frames to the node and report."""
    return asyncio.run(_run(host, port, count, seed))


async def _run(host: str, port: int, count: int, seed: int) -> Report:
    report = Report(seed)
    started = time.monotonic()
    frames = bad_frames(seed, count)
    good = asyncio.create_task(_good_client(host, port, report))
    async with asyncio.TaskGroup() as group:
        for _ in range(PARALLEL):
            group.create_task(_bad_client(host, port, frames, report))
    good.cancel()
    await asyncio.gather(good, return_exceptions=True)
    report.seconds = time.monotonic() - started
    return report


async def _bad_client(host: str, port: int, frames: Iterator[BadFrame], report: Report) -> None:
    """Send frames, each over the same connection as long as the node keeps it."""
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    for bad in frames:
        if streams is None:
            try:
                streams = await asyncio.open_connection(host, port)
            except OSError:
                report.connect_failures += 1
                continue
        report.frames_sent += 1
        report.by_kind[bad.name.partition(":")[0]] += 1
        if not await _send(*streams, bad, report):
            streams[1].close()
            streams = None
    if streams is not None:
        streams[1].close()


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bad: BadFrame, report: Report
) -> bool:
    """Send one frame and look at what comes back; says whether the connection can be used on."""
    try:
        if bad.is_slow and len(bad.data) <= SLOW_BYTES_MAX:
            for byte in bad.data:
                writer.write(bytes((byte,)))
                await asyncio.sleep(0)
        else:
            writer.write(bad.data)
        await asyncio.wait_for(writer.drain(), GOOD_SECONDS_MAX)
        (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), ANSWER_SECONDS))
        await asyncio.wait_for(reader.readexactly(size), GOOD_SECONDS_MAX)
    except TimeoutError:
        report.silences += 1
        return False
    except (asyncio.IncompleteReadError, ConnectionError):
        report.connections_closed += 1
        return False
    report.answers += 1
    return not bad.name.startswith(("pipelined", "half"))


async def _good_client(host: str, port: int, report: Report) -> None:
    """Ask, and count what is not answered rightly and in time; reconnect after a failure."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            while True:
                await _ask(reader, writer, _ASK_VERSIONS, report)
                await _ask(reader, writer, _ASK_METADATA, report)
                await asyncio.sleep(0.002)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, ValueError):
            report.good_failures += 1
            await asyncio.sleep(0.05)


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, report: Report
) -> None:
    started = time.perf_counter()
    writer.write(request)
    async with asyncio.timeout(GOOD_SECONDS_MAX):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        answer = await reader.readexactly(size)
    if answer[:4] != request[8:12]:
        raise ValueError("the answer belongs to another request")
    report.good_answers += 1
    report.good_ms.append((time.perf_counter() - started) * 1000)


def main() -> int:
    """Print the report; exit code 1 when the good client noticed something."""
    parser = argparse.ArgumentParser(description="Send bad frames to a live node.")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int, nargs="?", default=20_000)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    given = parser.parse_args()
    report = run(given.host, given.port, given.count, given.seed)
    sys.stdout.write(
        f"frames {report.frames_sent} answers {report.answers} closed {report.connections_closed}"
        f" silent {report.silences} connect failures {report.connect_failures}"
        f" good answers {report.good_answers} failures {report.good_failures}"
        f" p99 {report.good_p99_ms:.1f} ms in {report.seconds:.1f} s\n"
    )
    return 0 if report.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
