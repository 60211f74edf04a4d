"""How often records that are not over were handed out."""

from penstock.shares.answers import Say
from penstock.shares.cells import CELLS
from penstock.shares.config import SharePolicy
from penstock.shares.find import DELIVERIES_TOLD
from tests.shares.test_taking import world
from tests.shares.world import World

FEW = SharePolicy(deliveries_max=100)


def delivered(one: World) -> list[int]:
    chunks = [*one.described().delivered]
    return [sum(column) for column in zip(*chunks, strict=True)]


def told(*counts: int) -> list[int]:
    return [*counts, *[0] * (DELIVERIES_TOLD - len(counts))]


def test_records_in_hand_and_ones_that_came_back_are_counted() -> None:
    one = world(FEW)
    handed = one.take(5)
    assert delivered(one) == told(5)
    one.say(Say.RELEASE, handed, (3, 5))
    assert delivered(one) == told(5)
    assert [*one.take(1, "b").runs] == [(3, 4)]
    assert delivered(one) == told(4, 1)


def test_what_is_over_is_not_counted() -> None:
    one = world(FEW)
    handed = one.take(5)
    one.accept(handed, 1, 4)
    assert delivered(one) == told(3)
    one.say(Say.REJECT, handed, (2, 3))
    assert delivered(one) == told(2)


def test_the_last_count_is_that_many_or_more() -> None:
    one = world(FEW)
    for _ in range(DELIVERIES_TOLD + 2):
        one.say(Say.RELEASE, one.take(1, visible_end=1), (0, 1))
    assert delivered(one) == [*[0] * (DELIVERIES_TOLD - 1), 1]


def test_each_chunk_is_a_step_and_the_share_may_move_on_in_between() -> None:
    one = World(policy=FEW).load()
    assert one.start(CELLS - 3).why_not is None
    handed = one.take(7, visible_end=CELLS + 4)
    steps = one.described().delivered
    assert next(steps) == told(3)
    one.accept(handed)
    assert [*steps] == []
