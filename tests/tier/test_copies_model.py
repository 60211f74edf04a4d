"""Random histories of copiers: whatever happens, nothing that must hold is broken."""

import pytest

from tests.tier.world import World

STEPS = 500
SEEDS = 20


@pytest.mark.parametrize("first", range(0, 200, SEEDS))
def test_random_histories_of_copiers_break_nothing(first: int) -> None:
    for seed in range(first, first + SEEDS):
        world = World(seed)
        try:
            for _ in range(STEPS):
                world.step()
                world.check()
            world.settle()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_histories_have_merges_under_all_of_this() -> None:
    counts = []
    for seed in range(SEEDS):
        world = World(seed)
        for _ in range(STEPS):
            world.step()
        counts.append(world.merge_count)
    assert sum(map(bool, counts)) > SEEDS // 4
    assert max(counts) > 2
