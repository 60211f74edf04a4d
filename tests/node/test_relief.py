"""What clients have let go of goes back to the system, later where it can not be at once."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from penstock.base.memory import REST, FreeLists
from penstock.kafka.front import KafkaFront
from penstock.node.relief import GROUPS_GONE, Relief


class World:
    """A broker with or without long work, and a clock by which a collection takes 5 us."""

    def __init__(self) -> None:
        self.us = 0
        self.trims = self.shrinks = 0
        self.lists = FreeLists(self._now_us)
        self.places = SimpleNamespace(has_let_go=lambda: False)
        self.groups = SimpleNamespace(group_count=0)
        self.front = SimpleNamespace(
            broker=SimpleNamespace(long_places=self.places, groups=self.groups),
            has_long_work=False,
        )
        front = cast("KafkaFront", self.front)
        disks = [cast("Any", self)]
        self.relief = Relief(front, lambda: disks, cast("Any", self), self.lists)

    def _now_us(self) -> int:
        self.us += 5
        return self.us

    def relieve(self) -> None:
        self.shrinks += 1

    def submit(self, work: Callable[[], object], done: object) -> None:
        self.trims += 1


def test_nothing_is_due_where_nothing_was_let_go() -> None:
    world = World()
    assert not world.relief.is_due()
    world.places.has_let_go = lambda: True
    assert world.relief.is_due()
    world.relief.give_back()
    assert (world.shrinks, world.trims) == (1, 1)


def test_what_is_kept_while_long_work_goes_on_is_given_back_when_it_has_ended() -> None:
    world = World()
    world.front.has_long_work = True
    world.relief.give_back()
    assert not world.relief.is_due()
    world.front.has_long_work = False
    assert world.relief.is_due()
    world.relief.give_back()
    assert world.trims == 2
    assert not world.relief.is_due(), "it is not owed any more"


def test_what_could_not_be_freed_so_soon_is_freed_later() -> None:
    world = World()
    world.relief.give_back()
    world.relief.give_back()
    assert not world.relief.is_due()
    world.us += REST * 10
    assert world.relief.is_due()
    world.relief.give_back()
    assert not world.relief.is_due()


def test_memory_is_given_back_each_time_that_many_groups_have_gone() -> None:
    world = World()
    world.groups.group_count = 30 * GROUPS_GONE
    assert not world.relief.is_due()
    world.groups.group_count -= GROUPS_GONE - 1
    assert not world.relief.is_due()
    world.groups.group_count -= 1
    assert world.relief.is_due()
    assert not world.relief.is_due(), "not twice for the same groups"
    world.groups.group_count = 0
    assert world.relief.is_due()
    world.relief.give_back()
    assert (world.shrinks, world.trims) == (1, 1)
