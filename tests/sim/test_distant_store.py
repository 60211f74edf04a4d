"""The store of a simulated cluster: the contract, over a way that takes time and fails."""

import asyncio
from collections.abc import Coroutine
from contextvars import copy_context
from random import Random
from typing import Any, TypeVar

import pytest

from penstock.tier.errors import StoreError, StoreUnavailable
from simulator.kernel.distant_store import PUT_S_MAX, DistantStore, Mood, SharedStore
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation, simulate
from tests.tier import store_contract
from tests.tier.store_contract import StoreContract

T = TypeVar("T")

HOST = "h1"


def simulated(work: Coroutine[Any, Any, T]) -> T:
    return simulate(1, lambda _: work).value


class TestDistantStore(StoreContract):
    """Without any fault."""

    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> DistantStore:
        monkeypatch.setattr(store_contract, "run", simulated)
        return DistantStore(SharedStore(), HOST, Random(1), world=copy_context)


class World:
    """One process that puts one object, on a host whose way to the store has a mood."""

    def __init__(self, mood: Mood | None = None, seed: int = 1) -> None:
        self.shared = SharedStore()
        self.seed = seed
        self.failed: StoreError | None = None
        self.ended_s = 0.0
        if mood is not None:
            self.shared.moods[HOST] = [mood]

    @property
    def names(self) -> list[str]:
        return list(self.shared.bucket.objects)

    def run(self, story: Any) -> None:
        """Start the process, and follow a story."""

        async def main(simulation: Simulation) -> None:
            world = simulation.processes[0].context
            draw = Random(self.seed)
            store = DistantStore(self.shared, HOST, draw, world=lambda: world)

            async def put(_: Process) -> None:
                try:
                    await store.put("a/one", [b"data"])
                except StoreError as error:
                    self.failed = error
                self.ended_s = simulation.now_s

            await story(simulation.start(HOST, "writer", put))

        simulate(self.seed, main)


async def until_it_has_ended(process: Process) -> None:
    await process.ended
    await asyncio.sleep(PUT_S_MAX)


@pytest.mark.parametrize("seed", range(8))
def test_a_put_that_has_left_goes_on_when_its_process_is_killed(seed: int) -> None:
    world = World(Mood.SLOW, seed)

    async def story(process: Process) -> None:
        await asyncio.sleep(0.05)
        assert world.names == []
        process.kill()
        await asyncio.sleep(PUT_S_MAX)

    world.run(story)
    assert world.names == ["a/one"]
    assert world.failed is None


@pytest.mark.parametrize("seed", range(8))
def test_a_late_put_fails_first_and_is_there_in_the_end(seed: int) -> None:
    world = World(Mood.LATE, seed)
    seen: list[list[str]] = []

    async def story(process: Process) -> None:
        await process.ended
        seen.append(world.names)
        await asyncio.sleep(PUT_S_MAX)

    world.run(story)
    assert world.names == ["a/one"]
    assert seen == [[] if isinstance(world.failed, StoreUnavailable) else ["a/one"]]


def test_some_puts_are_late_and_some_are_in_time() -> None:
    failed = set()
    for seed in range(12):
        world = World(Mood.LATE, seed)
        world.run(until_it_has_ended)
        failed.add(world.failed is not None)
    assert failed == {True, False}


def test_a_lost_answer_is_an_error_to_who_asks_and_the_object_is_there() -> None:
    failed = set()
    for seed in range(12):
        world = World(Mood.FORGETFUL, seed)
        world.run(until_it_has_ended)
        assert world.names == ["a/one"]
        failed.add(world.failed is not None)
    assert failed == {True, False}


def test_where_nothing_works_nothing_is_put_and_the_sender_hears_of_it() -> None:
    world = World(Mood.FAILING)
    world.run(until_it_has_ended)
    assert world.names == []
    assert world.failed is not None


def test_another_host_has_a_way_of_its_own() -> None:
    world = World()
    world.shared.moods["h2"] = [Mood.FAILING]
    world.run(until_it_has_ended)
    assert world.names == ["a/one"]
    assert world.failed is None
    assert world.ended_s < 0.05


def test_a_flipped_bit_is_mended_where_the_object_is_still_there() -> None:
    world = World()
    world.run(until_it_has_ended)
    shared = world.shared
    shared.flip_bit("a/one", 2, 0)
    assert shared.bucket.get("a/one")[0] == b"daua"
    assert shared.damaged == {"a/one"}
    shared.mend("a/one")
    assert shared.bucket.get("a/one")[0] == b"data"
    assert not shared.damaged
    shared.flip_bit("a/one", 0, 1)
    del shared.bucket.objects["a/one"]
    shared.mend("a/one")
    assert not shared.damaged
    assert not shared.bucket.objects
