"""Connections that are in a handshake: so many at a time."""

import asyncio
import ssl

import pytest

from harness.waiting import until
from penstock.http import accepting
from penstock.http.accepting import Accepting
from penstock.http.server import bind
from tests.http_front.scripted_node import front_of


def test_so_many_handshakes_are_open_at_a_time_and_for_one_more_the_oldest_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accepting, "HANDSHAKES_MAX", 2)

    async def run() -> None:
        front, listening = front_of("127.0.0.1:1"), bind("127.0.0.1", 0)
        port = listening.getsockname()[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        doors = Accepting(front, listening, asyncio.Protocol, lambda: context)  # type: ignore[arg-type]
        writers, readers = [], []
        for number in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writers.append(writer)
            readers.append(reader)
            seen = number + 1
            await until(lambda: len(doors._opening) + front.stats.refused_connections >= seen)  # noqa: B023
        assert await readers[0].read() == b""
        assert (len(doors._opening), front.stats.refused_connections) == (2, 1)
        assert not any(one.at_eof() for one in readers[1:])
        for writer in writers:
            writer.close()
        doors.close()
        await doors.wait_closed()
        front.close()

    asyncio.run(asyncio.wait_for(run(), 120))
