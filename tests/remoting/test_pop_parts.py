"""Parts of pops, without a node: what comes while something else is under way is not forgotten."""

import asyncio
from types import SimpleNamespace
from typing import Any

from penstock.remoting.pop.letters import PopLetters
from penstock.remoting.pop.popping import Part, Popping
from penstock.remoting.pop.saying import change
from penstock.shares.answers import Say
from penstock.shares.runs import Run
from penstock.shares.state import ShareKey

KEY = ShareKey("g", bytes(16), 0)


def test_what_is_given_up_while_others_are_copied_is_copied_next() -> None:
    async def story() -> None:
        told: list[Run] = []
        shares = SimpleNamespace(dead_lettered=lambda key, runs: told.extend(runs))
        tasks: list[asyncio.Task[None]] = []
        letters = PopLetters(
            SimpleNamespace(shares=shares),  # type: ignore[arg-type]
            lambda _, work: tasks.append(asyncio.ensure_future(work)),
            *[SimpleNamespace()] * 2,  # type: ignore[arg-type]
            pops=SimpleNamespace(),  # type: ignore[arg-type]
            excerpts=SimpleNamespace(),  # type: ignore[arg-type]
        )
        go = asyncio.Event()

        async def copied(key: ShareKey, run: Run) -> Run:
            await go.wait()
            return run

        letters._copied = copied  # type: ignore[method-assign]
        letters.send(3, KEY, [(0, 2)])
        await asyncio.sleep(0)
        letters.send(3, KEY, [(7, 9)])
        go.set()
        await asyncio.gather(*tasks)
        assert told == [(0, 2), (7, 9)]
        assert not letters._due
        assert not letters._of

    asyncio.run(story())


def test_news_that_come_while_a_pop_begins_to_watch_are_not_forgotten() -> None:
    async def story() -> None:
        watchers = SimpleNamespace(watch=lambda _, wait: wait.on_share())
        broker = SimpleNamespace(turns=None, shares=SimpleNamespace(watchers=watchers))
        hosted: Any = SimpleNamespace(park=lambda wait, high_watermark: None)
        desk: Any = SimpleNamespace(broker=broker)
        popping = Popping(desk, None, None, [Part(hosted, KEY, 0)])  # type: ignore[arg-type]
        for _ in range(2):
            await popping._watch()
            assert await popping._wait.until(0)

    asyncio.run(story())


def test_a_message_that_is_to_be_invisible_for_no_time_is_given_back() -> None:
    """A time of nothing that is waited for would end with the next look of the node."""
    assert [change(invisible_ms) for invisible_ms in (0, 1, 60_000)] == [
        Say.RELEASE, Say.RENEW, Say.RENEW,
    ]  # fmt: skip
