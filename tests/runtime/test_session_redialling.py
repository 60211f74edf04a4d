"""How long a broker waits before it dials a controller again, after what the last attempt was."""

import asyncio
from typing import cast

import pytest

from harness.log_world import World
from penstock.base.ids import PeerId, SessionId
from penstock.runtime.session.channel import OnClosed, OnMessage
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import ControllerSession, SessionDraws, SessionEvents
from penstock.runtime.session.messages import SessionMessage
from tests.net.serving import run

CONFIG = SessionConfig(redial_min_ms=5, redial_max_ms=20)


class Channel:
    """A session that stays open for so long, by the world's clock."""

    peer_id = 1
    session_id = SessionId(1)
    is_closed = False

    def __init__(self, world: World, open_ms: int) -> None:
        self._world, self._open_ms = world, open_ms

    def start(self, on_message: OnMessage, on_closed: OnClosed) -> None:
        self._world.now_ms += self._open_ms
        on_closed("the controller went")

    def send(self, message: SessionMessage) -> None:
        """Nobody listens."""

    def close(self, reason: str) -> None:
        self.is_closed = True


class Nobody:
    """Who keeps sessions and has nothing to say."""

    def on_session_opened(self, session: ControllerSession) -> None: ...

    def on_session_closed(self, session: ControllerSession) -> None: ...

    def on_session_message(self, session: ControllerSession, message: SessionMessage) -> None: ...


def waits_behind(monkeypatch: pytest.MonkeyPatch, *attempts: int | None) -> list[int]:
    """Return the ms that are waited behind each attempt: refused, or open for so many ms."""
    world, left, waits = World(), [*attempts], list[int]()
    go_on = asyncio.sleep

    async def open_channel(_: SessionId) -> Channel:
        open_ms = left.pop(0)
        if open_ms is None:
            raise ConnectionRefusedError
        return Channel(world, open_ms)

    async def wait(seconds: float) -> None:
        waits.append(round(1000 * seconds))
        await go_on(0)
        if not left:
            raise asyncio.CancelledError

    session = ControllerSession(
        PeerId(1),
        open_channel,
        config=CONFIG,
        clock=world,
        events=cast("SessionEvents", Nobody()),
        draws=SessionDraws(lambda: SessionId(1), lambda _low, high: high),
    )

    async def dial() -> None:
        monkeypatch.setattr(asyncio, "sleep", wait)
        with pytest.raises(asyncio.CancelledError):
            await session.run()
        monkeypatch.undo()

    run(dial())
    return waits


def test_a_controller_that_refuses_is_dialled_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waits_behind(monkeypatch, *[None] * 5) == [5, 10, 20, 20, 20]


def test_a_controller_that_was_there_for_long_is_dialled_at_once_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waits_behind(monkeypatch, None, None, None, 21, None) == [5, 10, 20, 5, 10]


def test_a_session_that_ends_as_it_begins_is_no_reason_to_dial_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waits_behind(monkeypatch, None, None, None, 20, 0) == [5, 10, 20, 20, 20]
