"""The networks between processes keep their connections until these end."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from reliability.faults.late_frames import LateFrames
from reliability.faults.switchboard import Switchboard

PORT = 9092
TURNS = 10


class Writer:
    """A connection's writing side, which does not get rid of what was written."""

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return "127.0.0.1", PORT

    def close(self) -> None:
        """Wait for a peer that reads nothing."""


async def dial(*_: object) -> tuple[asyncio.StreamReader, Writer]:
    return asyncio.StreamReader(), Writer()


async def is_kept(accept: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Let a connection begin, and collect garbage; it waits on, and ends when it is cancelled."""
    task = weakref.ref(asyncio.ensure_future(accept()))
    for _ in range(TURNS):
        await asyncio.sleep(0)
    gc.collect()
    waiting = task()
    assert waiting is not None
    assert not waiting.done()
    waiting.cancel()
    await asyncio.wait([waiting])


def client_has_gone() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_eof()
    return reader


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The side of a client; whoever is dialled is silent."""
    monkeypatch.setattr(asyncio, "open_connection", dial)
    return Writer()


def test_a_late_connection_whose_client_has_gone_waits_for_its_broker(writer: Any) -> None:
    """Nothing but its reader refers to the task then, and nothing but the task to its reader."""
    between = LateFrames([], [], 0.0, 1)

    async def story() -> None:
        await is_kept(lambda: between._accept_client(client_has_gone(), writer))

    asyncio.run(story())
    assert not between._joined
    between._loop.close()


def test_a_switched_connection_whose_client_has_gone_waits_for_the_other_end(
    writer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found(*_: object) -> str:
        return ""

    monkeypatch.setattr(asyncio, "to_thread", found)
    board = Switchboard({PORT: "n1"}, dict)

    async def story() -> None:
        await is_kept(lambda: board._accepted(client_has_gone(), writer))

    asyncio.run(story())
    assert not board._joined
    board._loop.close()
