"""Markers that are being asked for, and how long is waited before they are asked for again."""

import asyncio
from typing import Any

import pytest

from penstock.base.ids import BrokerId, CoordinatorEpoch, ProducerEpoch, ProducerId
from penstock.coordinator.calls.asking import BrokerNotReached
from penstock.kafka.transactions.marking import PAUSE_MS, PAUSE_MS_MAX, MarkerSender
from penstock.transactions.messages import MarkerDuty

PLACES = [("t", number) for number in range(6)]


def duty(name: str = "x") -> MarkerDuty:
    return MarkerDuty(
        transactional_id=name,
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        coordinator_epoch=CoordinatorEpoch(3),
        is_commit=True,
        version=2,
        number=1,
        partitions=frozenset(PLACES),
    )


class Unreached:
    """No broker is reached."""

    async def ask(self, broker_id: int, question: Any, *, timeout_ms: int) -> Any:
        raise BrokerNotReached("its connection was cut")


def sender(monkeypatch: pytest.MonkeyPatch) -> MarkerSender:
    monkeypatch.setattr(MarkerSender, "_is_named", lambda *_: True)
    monkeypatch.setattr(MarkerSender, "_entry", lambda *_: None)
    spawned: set[asyncio.Task[None]] = set()

    def spawn(_: str, work: Any) -> None:
        spawned.add(asyncio.ensure_future(work))

    return MarkerSender(None, Unreached(), spawn)  # type: ignore[arg-type]


def test_what_a_broker_was_not_asked_after_all_may_be_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        made = sender(monkeypatch)
        places = [(duty(), each) for each in PLACES[:2]]
        made._asked.update(("x", each) for each in PLACES[:3])
        await made._ask(BrokerId(1), places)
        assert made._asked == {("x", PLACES[2])}

    asyncio.run(story())


def test_as_long_as_markers_get_on_the_pause_stays_short(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[int] = []

    class Over:
        """A time that is over at once."""

        def __init__(self, seconds: float) -> None:
            pauses.append(round(seconds * 1000))

        async def __aenter__(self) -> None:
            raise TimeoutError

        async def __aexit__(self, *_: object) -> None: ...

    async def story() -> None:
        made = sender(monkeypatch)
        going_on = [True] * 3 + [False] * 7 + [True] * 2

        async def asked(names: list[str]) -> None:
            if names and going_on.pop(0):
                made._left.pop(names[0])

        made._ask_for = asked  # type: ignore[method-assign]
        for number in range(5):
            made._left[f"x{number}"] = duty(f"x{number}")  # type: ignore[assignment]
        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "timeout", Over)
            await made._run()

    asyncio.run(story())
    grown = [min(PAUSE_MS << number, PAUSE_MS_MAX) for number in range(8)]
    assert pauses == [PAUSE_MS] * 3 + grown + [PAUSE_MS]
